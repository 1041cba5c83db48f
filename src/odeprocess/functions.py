"""Draws as functions of time, and the report when a solver could not reach a time."""

import dataclasses
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import checks, engine
from .distributions import AbstractDistribution
from .process import Process
from .record import Record
from .series import bucket


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

    def __len__(self) -> int:
        return self.z.shape[1]

    def __getitem__(self, index: int) -> "Functions":
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} draws; got index {index}.")
        i = index % len(self)
        return dataclasses.replace(self, z=self.z[:, i : i + 1])

    def __call__(self, times: Any) -> Any:
        """The trajectories at `times`, without measurement noise, in the user's units."""
        t = self.record.query(times)
        predicted = evaluate(self.process, self.record, self.z, t)
        return self.record.squeeze(self.record.scaling.values_to_user(predicted.mean[..., : t.shape[-1], :]))


def evaluate(process: Process, record: Record, z: Any, t: Any) -> AbstractDistribution:
    """Decodes draws `z [series, n, z]` at the user's times `t [series, m]`, padded to a bucket of times."""
    scaled = record.scaled_query(t)
    extent = process.flow.extent(*checks.bounds(scaled))
    if not checks.is_traced(scaled):
        missing = bucket(t.shape[1], least=8) - t.shape[1]
        scaled = np.pad(scaled, ((0, 0), (0, missing)), mode="edge" if t.shape[1] else "constant")
    predicted, ok = engine.decode(process, z, scaled.astype(jnp.result_type(float)), extent)
    return reported(predicted, ok, "reach every time asked for")


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
        stacklevel=4,
    )

    def blank(x):
        return jnp.where(ok.reshape(ok.shape + (1,) * (x.ndim - ok.ndim)), x, jnp.nan)

    return jax.tree.map(blank, values)
