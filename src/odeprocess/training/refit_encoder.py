"""The encoder learns to guess latents anew, after they have moved and nothing else changes any more."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from odeprocess.common.compilation import compiled
from odeprocess.common.linear_algebra import solve_triangular
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler, take
from odeprocess.process import Process
from odeprocess.process.amortised_inference import Head

from .expectation_maximisation import CHUNK
from .options import cosine

UNRELATED = 1e-3  # of the largest: smaller variations of old latents tell nothing of new ones
STEPS, RATE = 3000, 3e-3


def guessing(process: Process, before: np.ndarray, after: np.ndarray) -> Process:
    """The process whose encoder guesses `after` where it guessed `before`, as far as one is linear in the other."""
    head = process.inference.head
    if not isinstance(head, Head):
        return process
    last = _last(process)
    centre = before.mean(0)
    linear = np.linalg.lstsq(before - centre, after - after.mean(0), rcond=UNRELATED)[0].T
    size = len(centre)
    weight, bias = (np.asarray(x, np.float64).copy() for x in (last.weight, last.bias))
    weight[:size], bias[:size] = linear @ weight[:size], linear @ (bias[:size] - centre) + after.mean(0)
    bias[size:] += np.log(after.std(0) + UNRELATED * after.std()) - np.log(before.std(0) + UNRELATED * before.std())
    moved = (jnp.asarray(x, last.weight.dtype) for x in (weight, bias))
    return eqx.tree_at(lambda p: (_last(p).weight, _last(p).bias), process, tuple(moved))


def _last(process: Process) -> Any:
    """The linear layer from which the encoder's means and standard deviations come."""
    return process.inference.head.net.layers[-1]  # type: ignore[attr-defined]


@compiled(static_argnums=4)
def refit_encoder(process: Process, modes: Any, roots: Any, series: Series, sampler: TaskSampler, key: Any) -> Process:
    """Trains the encoder alone, as in `em_epochs`."""
    batch = min(len(series), CHUNK)
    optimiser = optax.adam(cosine(RATE, STEPS))

    def loss(inference, tasks, z):
        def one(task, z):
            given, asked = inference.beliefs(task)
            return -(given.log_prob(z).sum() + asked.log_prob(z).sum())

        return jax.vmap(one)(tasks, z).mean()

    def step(carry, key):
        inference, state = carry
        index_key, task_key, noise_key = jr.split(key, 3)
        index = jr.choice(index_key, len(series), (batch,), replace=False)
        tasks = jax.vmap(take)(series[index], sampler.select(series[index], key=task_key))
        noise = jr.normal(noise_key, (batch, modes.shape[1]), modes.dtype)
        z = modes[index] + jax.vmap(solve_triangular)(roots[index], noise)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser.update(jax.grad(loss)(inference, tasks, z), state)
        return (optax.apply_updates(inference, updates), state), None

    start = (process.inference, optimiser.init(process.inference))  # pyright: ignore[reportArgumentType]
    (inference, _), _ = jax.lax.scan(step, start, jr.split(key, STEPS))
    return eqx.tree_at(lambda p: p.inference, process, inference)
