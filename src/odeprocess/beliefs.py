"""Beliefs over the latents of a record: the encoder's, and the one worked out on the observations themselves."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import checks, engine
from .calibration import Calibration, Places
from .distributions import AbstractDistribution, Normal
from .functions import extent_for
from .process import Process, Summary
from .record import Record
from .refine import Ensemble


def amortised(process: Process, record: Record, summary: Summary) -> Normal:
    """The encoder's answer to a summary."""
    nothing = record.scaled(np.zeros((len(record), 0)), np.zeros((len(record), 0, record.channels)), least=1)
    return engine.observe(process, summary, nothing)[1]


def refined(
    process: Process, record: Record, belief: Normal, start: Any, keys: Any, n: int, steps: int, by: Calibration | None
) -> tuple[Ensemble, Any]:
    """The posterior's draws, worked out from the encoder's `belief` and begun at `start`; also the misfit of its mode."""
    series = record.everything()
    checks.require(
        not checks.is_traced(series.t, series.y), "`refine` takes numbers, not traced arrays: call it outside `jax.jit`."
    )
    predicted = jax.eval_shape(lambda p, z, t: p.predict(z, t)[0], process, belief.loc[0], series.t[0])
    checks.require(
        isinstance(predicted, Normal), f"`refine` needs a normal likelihood, but this model's is {type(predicted).__name__}."
    )
    extent = extent_for(process, series.t, series.observed)
    misfit = None if by is None else by.misfit
    return engine.refine(process, belief, start, keys, series, misfit, n, steps, extent)


def calibrated(predicted: AbstractDistribution, record: Record, t: Any, by: Calibration | None) -> AbstractDistribution:
    """The predictions with their spread around the mean made as wide as experience says; times are the user's."""
    if by is None or not isinstance(predicted, Normal) or checks.is_traced(predicted.loc, t) or t.shape[1] == 0:
        return predicted
    seen, observed = record.times()
    factor = by.at(observed.sum(-1), Places.of(t, seen, observed))
    missing = predicted.loc.shape[2] - factor.shape[1]  # times are padded to a bucket
    factor = jnp.asarray(np.pad(factor, ((0, 0), (0, missing)), mode="edge"), predicted.loc.dtype)[:, None, :, None]
    mean = predicted.loc.mean(1, keepdims=True)
    return Normal(mean + factor * (predicted.loc - mean), factor * predicted.scale)
