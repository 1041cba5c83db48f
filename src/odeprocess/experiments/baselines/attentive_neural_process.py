"""An attentive neural process as a baseline: every target time attends to the context, beside one latent for the whole series.

A small version of Kim et al., Attentive Neural Processes, ICLR 2019. Its predictions are not functions of the latent alone, so it
is not a variant of `Process`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from odeprocess.common.compilation import compiled
from odeprocess.common.distributions import Normal
from odeprocess.data.scaling import Scaling
from odeprocess.data.series import Series
from odeprocess.data.tasks import Task, TaskSampler, take
from odeprocess.process.networks import MLP, with_wide_start

WIDTH, LATENT, HEADS = 64, 32, 4  # sizes of the networks; chosen by hand
NOISE_FLOOR = 1e-3  # least standard deviation of the noise, in scaled units
BATCH, RATE = 49, 2e-3  # series in a step, learning rate of Adam; chosen by hand


class AttentiveNeuralProcess(eqx.Module):
    """An attentive neural process for one series at a time, in scaled units."""

    latent: MLP
    keys: MLP
    values: MLP
    head: MLP
    decoder: MLP
    empty: Any

    def __init__(self, channels: int, *, key: Any):
        k = jr.split(key, 5)
        self.latent, self.values = (MLP(1 + channels, WIDTH, WIDTH, 2, "relu", key=k) for k in k[:2])
        self.keys = MLP(1, WIDTH, WIDTH, 1, "relu", key=k[2])
        self.head = MLP(WIDTH, 2 * LATENT, WIDTH, 1, "relu", key=k[3])
        self.decoder = MLP(1 + LATENT + WIDTH, 2 * channels, WIDTH, 2, "relu", key=k[4])
        self.empty = jnp.zeros(WIDTH)  # what times attend to without context

    def infer(self, points: Series, given: Any) -> Normal:
        """q(z | the given points)."""
        codes = jax.vmap(self.latent)(jnp.concatenate([points.t[:, None], points.y], -1))
        mean = jnp.where(given[:, None], codes, 0.0).sum(0) / jnp.maximum(given.sum(dtype=codes.dtype), 1.0)
        loc, raw = jnp.split(self.head(mean), 2)
        return Normal(loc, 0.01 + 0.99 * jax.nn.sigmoid(raw))

    def attend(self, points: Series, given: Any, t: Any) -> Any:
        """The weighted mean of the given points' codes for each time of `t`, `[m, WIDTH]`."""
        values = jax.vmap(self.values)(jnp.concatenate([points.t[:, None], points.y], -1))
        keys, asked = (jax.vmap(self.keys)(x[:, None]).reshape(-1, HEADS, WIDTH // HEADS) for x in (points.t, t))
        score = jnp.einsum("mhk,nhk->mhn", asked, keys) / (WIDTH // HEADS) ** 0.5
        weight = jax.nn.softmax(jnp.where(given[None, None], score, -1e9), -1)
        found = jnp.einsum("mhn,nhk->mhk", weight, values.reshape(-1, HEADS, WIDTH // HEADS)).reshape(-1, WIDTH)
        return jnp.where(given.any(), found, self.empty[None])

    def predict(self, z: Any, attended: Any, t: Any) -> Normal:
        """The distribution of observations at `t`."""
        whole = jnp.broadcast_to(z[None], (t.shape[0], LATENT))
        raw = jax.vmap(self.decoder)(jnp.concatenate([t[:, None], whole, attended], -1))
        loc, raw = jnp.split(raw, 2, -1)
        return Normal(loc, NOISE_FLOOR + jax.nn.softplus(raw))


def train(series: Series, sampler: TaskSampler, steps: int, seed: int) -> AttentiveNeuralProcess:
    """Trains on series without missing values, by the evidence lower bound of neural processes."""
    series = Scaling.fit(series).apply(series)
    dtype = jnp.result_type(float)
    t, y, static = (jnp.asarray(x, dtype) for x in (series.t, series.y, series.static))
    series = Series(t, y, jnp.asarray(series.mask), static)
    return _run_training(series, sampler, steps, jr.key(seed))


@compiled(static_argnums=(1, 2))
def _run_training(series: Series, sampler: TaskSampler, steps: int, key: Any) -> AttentiveNeuralProcess:
    model = with_wide_start(AttentiveNeuralProcess(series.channels, key=jr.fold_in(key, 0)))
    optimiser = optax.adam(optax.warmup_cosine_decay_schedule(0.0, RATE, steps // 20 + 1, steps + 2))

    def loss(model, tasks, noise):
        return -jax.vmap(lambda task, eps: _elbo(model, task, eps))(tasks, noise).mean()

    def step(carry, key):
        model, state = carry
        index_key, task_key, noise_key = jr.split(key, 3)
        some = series[jr.choice(index_key, len(series), (min(BATCH, len(series)),), replace=False)]
        tasks = jax.vmap(take)(some, sampler.select(some, key=task_key))
        gradient = jax.grad(loss)(model, tasks, jr.normal(noise_key, (len(some), LATENT)))
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(model, updates), state), None

    start: Any = (model, optimiser.init(model))  # pyright: ignore[reportArgumentType]
    (found, _), _ = jax.lax.scan(step, start, jr.split(key, steps))
    return found  # pyright: ignore[reportReturnType]


def _elbo(model: AttentiveNeuralProcess, task: Task, noise: Any) -> Any:
    points, context, target = task.points, task.context.any(-1), task.target.any(-1)
    q_context, q_target = model.infer(points, context), model.infer(points, target)
    predicted = model.predict(q_target.reparametrise(noise), model.attend(points, context, points.t), points.t)
    explained = jnp.where(task.target, predicted.log_prob(points.y), 0.0).sum()
    return explained - q_target.kl(q_context).sum()


@compiled(static_argnums=5)
def _draw(model: AttentiveNeuralProcess, t: Any, y: Any, at: Any, key: Any, n: int) -> tuple[Any, Any]:
    def one(t, y, at, key):
        # One point that is not given, so that arrays are not empty without context.
        pad = Series(jnp.pad(t, (0, 1)), jnp.pad(y, ((0, 1), (0, 0))), jnp.ones((len(t) + 1, y.shape[1]), bool), jnp.zeros(0))
        given = jnp.arange(len(t) + 1) < len(t)
        q, attended = model.infer(pad, given), model.attend(pad, given, at)
        found = jax.vmap(lambda eps: model.predict(q.reparametrise(eps), attended, at))(jr.normal(key, (n, LATENT)))
        return found.loc, found.scale

    return jax.vmap(one)(t, y, at, jr.split(key, t.shape[0]))


def draw(
    model: AttentiveNeuralProcess, t: np.ndarray, y: np.ndarray, at: np.ndarray, *, key: Any, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of `n` draws at `at [series, m]`, `[series, n, m, channels]` each."""
    found = _draw(model, *(jnp.asarray(x, jnp.float32) for x in (t, y, at)), key, n)
    return tuple(np.asarray(x, np.float64) for x in found)  # pyright: ignore[reportReturnType]
