"""Posteriors over the latents of a record: amortised (one pass of the encoder) or exact (fitted to the observations)."""

from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.common.distributions import Normal
from odeprocess.data.series import Series
from odeprocess.inference import batched
from odeprocess.inference.randomised_map import Ensemble
from odeprocess.process import Process, Summary
from odeprocess.process.solvers import Extent

from .calibration import Calibration
from .functions import extent_for
from .observations import Record

Inference = Literal["auto", "amortised", "exact"]


def choose_inference(process: Process, inference: Inference, *traced: Any) -> Literal["amortised", "exact"]:
    """The one policy of inference: `"auto"` is exact where the process has a learned prior and a normal likelihood.

    There exact inference gains most (docs/accuracy.md); other processes were trained on the encoder's posteriors alone.

    Arguments:
        process: the process.
        inference: what was asked for.
        traced: observations; exact inference takes numbers only.
    """
    checks.choice("inference", inference, get_args(Inference))
    able = process.prior is not None and process.likelihood.normal
    if inference == "amortised" or (inference == "auto" and not able):
        return "amortised"
    checks.require(
        process.likelihood.normal,
        f"inference='exact' needs a normal likelihood, but this model's is {type(process.likelihood).__name__}: use 'amortised'.",
    )
    checks.require(
        not checks.is_traced(*traced),
        "Exact inference takes numbers, not traced arrays, and this model uses it by default: pass inference='amortised' inside "
        "jax.jit and jax.grad.",
    )
    return "exact"


def amortised(process: Process, record: Record, summary: Summary) -> Normal:
    """The encoder's answer to a summary."""
    nothing = record.scaled(np.zeros((len(record), 0)), np.zeros((len(record), 0, record.channels)), least=1)
    return batched.observe(process, summary, nothing)[1]


def exact(
    process: Process, record: Record, belief: Normal, start: Any, keys: Any, n: int, steps: int, by: Calibration | None
) -> Ensemble:
    """The posterior's draws, worked out from the encoder's `belief` and begun at `start`."""
    series = record.everything()
    extent = _extent_of(process, series)
    return batched.exact_draws(process, belief, start, keys, series, None if by is None else by.noise_scale, n, steps, extent)


def modes(process: Process, record: Record, belief: Normal, keys: Any, steps: int, least: int) -> tuple[Ensemble, Any]:
    """The likeliest latents of each series, as a belief of one draw; also how badly they fit, in squared residuals.

    Records of up to `least` points share one compilation.
    """
    series = record.everything(least)
    z, misfits = batched.find_best_modes(process, belief, keys, series, steps, _extent_of(process, series))
    return Ensemble(z[:, None], jnp.ones_like(z[:, :1])), misfits


def _extent_of(process: Process, series: Series) -> Extent:
    choose_inference(process, "exact", series.t, series.y)
    return extent_for(process, series.t, series.observed)
