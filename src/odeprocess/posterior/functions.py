"""Draws as functions of time, and the report when a solver could not reach a time."""

import dataclasses
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.common.distributions import AbstractDistribution
from odeprocess.data.series import bucket
from odeprocess.inference import batched
from odeprocess.process import Extent, Process

from .calibration import Calibration, calibrate
from .observations import Record


class SolverWarning(UserWarning):
    """Some series could not be integrated to all requested times; the results there are NaN."""


@dataclasses.dataclass(frozen=True, eq=False)
class Functions:
    """Trajectories drawn from a posterior: call them at any times; `functions[i]` is one of them.

    Made by `Posterior.functions`. A call gives `[n, times, channels]` (after the series axis, for a batch).
    """

    process: Process
    record: Record
    z: Any
    calibration: Calibration | None = None
    # Of the draws; calibration stretches them around the mean of all.
    chosen: slice = dataclasses.field(default_factory=lambda: slice(None))

    def __repr__(self) -> str:
        return f"Functions({len(self)} draws of {'one series' if self.record.single else f'{len(self.record)} series'})"

    def __len__(self) -> int:
        return len(range(self.z.shape[1])[self.chosen])

    def __getitem__(self, index: int | slice) -> "Functions":
        """Some of the draws; the axis of draws stays, so that one draw is called like many."""
        some = range(self.z.shape[1])[self.chosen][picked(index, len(self), "draws")]
        return dataclasses.replace(self, chosen=slice(some.start, some.stop if some.stop >= 0 else None, some.step))

    def __call__(self, times: Any) -> Any:
        """The trajectories at `times`, without measurement noise, in the user's units."""
        t = self.record.query(times)
        predicted = calibrate(evaluate(self.process, self.record, self.z, t)[0], self.record, t, self.calibration)
        mean = predicted.mean[:, self.chosen, : t.shape[-1]]
        return self.record.squeeze(self.record.scaling.values_to_user(mean))


def picked(index: int | slice, count: int, of: str) -> slice:
    """An index as a slice, checked."""
    if isinstance(index, slice):
        return index
    if not -count <= index < count:
        raise IndexError(f"There are {count} {of}; got index {index}.")
    return slice(index % count, index % count + 1)


def extent_for(process: Process, t: Any, observed: Any = None) -> Extent:
    """How far to integrate for scaled times; one horizon for traced ones, whose values cannot be known."""
    if checks.is_traced(t, observed):
        return Extent()
    t = t if observed is None else t[observed]
    return process.flow.extent(float(t.min()), float(t.max())) if t.size else Extent()


def evaluate(process: Process, record: Record, z: Any, t: Any) -> tuple[AbstractDistribution, bool]:
    """Decodes draws `z [series, n, z]` at the user's times `t [series, m]`, padded to a bucket of times.

    Also whether the solver reached them all (as far as that can be known).
    """
    scaled = record.scaled_query(t)
    extent = extent_for(process, scaled)
    if not checks.is_traced(scaled):
        missing = bucket(t.shape[1], least=8) - t.shape[1]
        scaled = np.pad(scaled, ((0, 0), (0, missing)), mode="edge" if t.shape[1] else "constant")
    predicted, ok = batched.decode(process, z, scaled.astype(jnp.result_type(float)), extent)
    record.warn_of_times(t)
    if t.shape[1] == 0:
        ok = jnp.ones_like(ok)
    return reported(predicted, ok, "reach every time that was asked"), checks.is_traced(ok) or bool(np.asarray(ok).all())


def reported(values: Any, ok: Any, what: str) -> Any:
    """`values`, with NaN and a warning that names the series where `ok` is false; an error if traced."""
    advice = "Use a finer or adaptive solver (`model.with_solver`), or times nearer to the training data."
    if checks.is_traced(ok):
        return eqx.error_if(values, ~ok.all(), f"The solver did not {what}. {advice}")
    ok = np.asarray(ok)
    if ok.all():
        return values
    share = 1.0 - ok.reshape(ok.shape[0], -1).mean(1)
    bad = np.flatnonzero(share)
    listed = ", ".join(f"{i} ({share[i]:.0%} of its results)" for i in bad[:10]) + (", …" if len(bad) > 10 else "")
    warnings.warn(
        f"The solver did not {what} for {len(bad)} of {len(ok)} series: {listed}. Those results are NaN. {advice}",
        SolverWarning,
        stacklevel=checks.depth_of_user(),
    )

    def blank(x):
        return jnp.where(ok.reshape(ok.shape + (1,) * (x.ndim - ok.ndim)), x, jnp.nan)

    return jax.tree.map(blank, values)
