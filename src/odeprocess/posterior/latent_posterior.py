"""Beliefs over the latents of a record: the encoder's, and the one worked out on the observations themselves."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.common.distributions import AbstractDistribution, Normal
from odeprocess.data.series import Series
from odeprocess.inference import batched
from odeprocess.inference.randomised_map import Ensemble
from odeprocess.process import Process, Summary
from odeprocess.process.solvers import Extent

from .calibration import Calibration, PredictionPlaces
from .functions import extent_for
from .observations import Record


def amortised(process: Process, record: Record, summary: Summary) -> Normal:
    """The encoder's answer to a summary."""
    nothing = record.scaled(np.zeros((len(record), 0)), np.zeros((len(record), 0, record.channels)), least=1)
    return batched.observe(process, summary, nothing)[1]


def exact(
    process: Process, record: Record, belief: Normal, start: Any, keys: Any, n: int, steps: int, by: Calibration | None
) -> Ensemble:
    """The posterior's draws, worked out from the encoder's `belief` and begun at `start`."""
    series = record.everything()
    extent = _extent_to_refine(process, series)
    return batched.refine(process, belief, start, keys, series, None if by is None else by.noise_scale, n, steps, extent)


def modes(process: Process, record: Record, belief: Normal, keys: Any, steps: int, least: int) -> tuple[Ensemble, Any]:
    """The likeliest latents of each series, as a belief of one draw; also how badly they fit, in squared residuals.

    Records of up to `least` points share one compilation.
    """
    series = record.everything(least)
    z, misfits = batched.find_best_modes(process, belief, keys, series, steps, _extent_to_refine(process, series))
    return Ensemble(z[:, None], jnp.ones_like(z[:, :1])), misfits


def _extent_to_refine(process: Process, series: Series) -> Extent:
    checks.require(
        not checks.is_traced(series.t, series.y), "`refine` takes numbers, not traced arrays: call it outside `jax.jit`."
    )
    z = jnp.zeros(process.z_dim, series.t.dtype)
    predicted = jax.eval_shape(lambda p, z, t: p.predict(z, t)[0], process, z, series.t[0])
    checks.require(
        isinstance(predicted, Normal), f"`refine` needs a normal likelihood, but this model's is {type(predicted).__name__}."
    )
    return extent_for(process, series.t, series.observed)


def calibrated(predicted: AbstractDistribution, record: Record, t: Any, by: Calibration | None) -> AbstractDistribution:
    """The predictions with their spread around the mean made as wide as experience says; times are the user's."""
    if by is None or not isinstance(predicted, Normal) or checks.is_traced(predicted.loc, t) or t.shape[1] == 0:
        return predicted
    seen, observed = record.times()
    factor = by.at(observed.sum(-1), PredictionPlaces.of(t, seen, observed))
    missing = predicted.loc.shape[2] - factor.shape[1]  # times are padded to a bucket
    factor = jnp.asarray(np.pad(factor, ((0, 0), (0, missing)), mode="edge"), predicted.loc.dtype)[:, None, :, None]
    mean = predicted.loc.mean(1, keepdims=True)
    return Normal(mean + factor * (predicted.loc - mean), factor * predicted.scale)
