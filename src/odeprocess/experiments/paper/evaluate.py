"""Test errors of a trained model, by group of points."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.common.compilation import compiled
from odeprocess.data.tasks import Task
from odeprocess.posterior.model import Model
from odeprocess.process import Process
from odeprocess.process.solvers import Extent

from .data_splits import HeldOut


def score(model: Model, test: HeldOut, *, draws: int) -> dict[str, float]:
    """Computes mean errors over the tasks of a test.

    Returns:
        For every group of points: `mse`, of a single latent draw; `mse_mean`, of the mean over `draws`; `nll`, the
        negative log density a value under all draws. A group's name follows in brackets.
    """
    draws = 1 if test.one_draw else draws
    tasks = Task(model.scaling.apply(test.tasks.points), test.tasks.context, test.tasks.target)
    t = np.asarray(tasks.points.t)
    extent = model.process.flow.extent(float(t.min()), float(t.max()))
    found = {name: np.asarray(x) for name, x in _compute_errors(model.process, tasks, draws, extent).items()}
    weight = found.pop("weight")
    found = {"mse": found["mse"]} if test.one_draw else found
    scores = {}
    for group, chosen in test.groups.items():
        share = weight[:, chosen].sum(1)
        for name, error in found.items():
            each = (error[:, chosen] * weight[:, chosen]).sum(1) / np.maximum(share, 1.0)
            scores[f"{name} ({group})" if group else name] = float(each[share > 0].mean())
    return scores


@compiled(static_argnums=(2, 3))
def _compute_errors(process: Process, tasks: Task, draws: int, extent: Extent) -> dict[str, Any]:
    """Errors by task and point, averaged over the observed channels, and their number as `weight`."""

    def one(task, key):
        belief = process.infer(task.given())
        noise = jr.normal(key, (draws, belief.loc.shape[0]), belief.loc.dtype)
        predicted, ok = jax.vmap(lambda eps: process.predict(belief.reparametrise(eps), task.points.t, extent))(noise)
        y, mask = task.points.y, task.target
        weight = mask.sum(-1, dtype=y.dtype)

        def average(values):
            values = jnp.where(ok.all(0)[:, None], values, jnp.nan)
            return jnp.where(mask, values, 0.0).sum(-1) / jnp.maximum(weight, 1.0)

        log_density = jax.nn.logsumexp(predicted.log_prob(y[None]), 0) - jnp.log(draws)
        return {
            "mse": average((predicted.mean[0] - y) ** 2),
            "mse_mean": average((predicted.mean.mean(0) - y) ** 2),
            "nll": average(-log_density),
            "weight": weight,
        }

    keys = jr.split(jr.key(2), tasks.context.shape[0])
    return jax.lax.map(lambda pair: one(*pair), (tasks, keys), batch_size=min(8, keys.shape[0]))


def draw_frames(model: Model, tasks: Task) -> np.ndarray:
    """The prediction of one latent draw at every point of every task, `[tasks, n, channels]`, in scaled units."""
    t = model.scaling.apply(tasks.points)
    extent = model.process.flow.extent(float(np.min(t.t)), float(np.max(t.t)))
    return np.asarray(_draw_frames(model.process, Task(t, tasks.context, tasks.target), extent))


@compiled(static_argnums=2)
def _draw_frames(process: Process, tasks: Task, extent: Extent) -> Any:
    def one(task, key):
        belief = process.infer(task.given())
        z = belief.reparametrise(jr.normal(key, (1, *belief.loc.shape), belief.loc.dtype)[0])
        return process.predict(z, task.points.t, extent)[0].mean

    keys = jr.split(jr.key(2), tasks.context.shape[0])
    return jax.lax.map(lambda pair: one(*pair), (tasks, keys), batch_size=min(8, keys.shape[0]))
