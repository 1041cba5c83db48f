"""The encoder, fitted anew to latents that have changed, while everything else stays as it is (eq. 34 of `docs/inference.md`)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from odeprocess.common.compilation import compiled
from odeprocess.common.linear_algebra import solve_triangular
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler, take
from odeprocess.process import Process
from odeprocess.process.amortised_inference import Head

from .expectation_maximisation import CHUNK
from .options import cosine

# All chosen by hand.
LEAST_SINGULAR_VALUE = (
    1e-3  # of the largest: the old latents' directions of less variance do not enter the linear map to new ones
)
STEPS, LEARNING_RATE = 3000, 3e-3  # of Adam; the highest rate of a cosine schedule


def map_encoder(process: Process, before: np.ndarray, after: np.ndarray) -> Process:
    """The process with the encoder's last layer changed so that it predicts latents `after` where it predicted `before`.

    The change is the linear map between the two that has the least squared error, `[series, z]` each. A head of the user's own
    stays as it is.
    """
    head = process.inference.head
    if not isinstance(head, Head):
        return process
    last = _last(process)
    centre = before.mean(0)
    linear = np.linalg.lstsq(before - centre, after - after.mean(0), rcond=LEAST_SINGULAR_VALUE)[0].T
    size = len(centre)
    weight, bias = (np.asarray(x, np.float64).copy() for x in (last.weight, last.bias))
    weight[:size], bias[:size] = linear @ weight[:size], linear @ (bias[:size] - centre) + after.mean(0)
    old, new = (x.std(0) + LEAST_SINGULAR_VALUE * x.std() for x in (before, after))
    bias[size:] += np.log(new) - np.log(old)  # of the raw σ, which is about its logarithm where it is small
    moved = (jnp.asarray(x, last.weight.dtype) for x in (weight, bias))
    return eqx.tree_at(lambda p: (_last(p).weight, _last(p).bias), process, tuple(moved))


def _last(process: Process) -> Any:
    """The linear layer from which the encoder's means and standard deviations come."""
    return process.inference.head.net.layers[-1]  # type: ignore[attr-defined]


@compiled(static_argnums=4)
def refit_encoder(
    process: Process,
    modes: Float[Array, "series z"],
    roots: Float[Array, "series z z"],
    series: Series,
    sampler: TaskSampler,
    key: PRNGKeyArray,
) -> Process:
    """The process with the encoder trained further to predict draws of the posteriors N(mode, (RᵀR)⁻¹) from tasks."""
    batch = min(len(series), CHUNK)
    optimiser = optax.adam(cosine(LEARNING_RATE, STEPS))

    def loss(inference, tasks, z):
        def one(task, z):
            given_context, given_target = inference.beliefs(task)
            return -(given_context.log_prob(z).sum() + given_target.log_prob(z).sum())

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

    start: Any = (process.inference, optimiser.init(process.inference))  # pyright: ignore[reportArgumentType]
    (inference, _), _ = jax.lax.scan(step, start, jr.split(key, STEPS))
    return eqx.tree_at(lambda p: p.inference, process, inference)
