"""Validation scores: squared errors and log densities of a process on tasks, in scaled units."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from odeprocess.data.tasks import Task
from odeprocess.process import Process
from odeprocess.process.solvers import Extent


class Scores(eqx.Module):
    """Scores of one task, or of several.

    Attributes:
        mse_one: mean squared error of a single latent draw (what the paper reports).
        mse: mean squared error of the mean over all draws.
        nll: negative log density of a value under the mixture of all draws, averaged over values.
    """

    mse_one: Float[Array, "*tasks"]
    mse: Float[Array, "*tasks"]
    nll: Float[Array, "*tasks"]


def score(
    process: Process, task: Task, *, draws: int, key: Any, extent: Extent = Extent(), exclude_context: bool = False
) -> Scores:
    """The scores of one task's target given its context.

    Arguments:
        process: the process.
        task: one task, in scaled units.
        draws: number of latent draws.
        key: of the draws.
        extent: how far the flow is integrated.
        exclude_context: whether only values outside the context are scored (the paper scores all).
    """
    belief = process.infer(task.given())
    noise = jr.normal(key, (draws, belief.loc.shape[0]), belief.loc.dtype)
    predicted, ok = jax.vmap(lambda eps: process.predict(belief.reparametrise(eps), task.points.t, extent))(noise)
    mask = task.target & ~task.context if exclude_context else task.target
    y, count = task.points.y, jnp.maximum(mask.sum(dtype=task.points.y.dtype), 1.0)

    def average(values):
        return jnp.where(mask, jnp.where(ok.all(0)[:, None], values, jnp.nan), 0.0).sum() / count

    log_density = jax.nn.logsumexp(predicted.log_prob(y[None]), 0) - jnp.log(draws)
    return Scores(
        mse_one=average((predicted.mean[0] - y) ** 2),
        mse=average((predicted.mean.mean(0) - y) ** 2),
        nll=average(-log_density),
    )


def score_all(
    process: Process,
    tasks: Task,
    *,
    draws: int,
    key: Any,
    extent: Extent = Extent(),
    exclude_context: bool = False,
    chunk: int = 64,
) -> Scores:
    """The scores of several tasks, each with draws of its own, `chunk` at a time, so that memory stays bounded."""
    keys = jr.split(key, tasks.context.shape[0])
    chunk = min(chunk, keys.shape[0])
    return jax.lax.map(
        lambda pair: score(process, pair[0], draws=draws, key=pair[1], extent=extent, exclude_context=exclude_context),
        (tasks, keys),
        batch_size=chunk,
    )
