"""An attentive neural process, the baseline: beside one latent for the whole series, every asked time attends to the context.

As its authors describe it (Kim et al., 2019), small. What it says at one time is no function of a latent, so it is no
variant of `Process`, and lives here.
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
from odeprocess.data.series import Series
from odeprocess.data.tasks import Task, TaskSampler, take
from odeprocess.process.networks import MLP, widened

WIDTH, LATENT, HEADS, FLOOR = 64, 32, 4, 1e-3
BATCH, RATE = 49, 2e-3


class Attentive(eqx.Module):
    """One series at a time, in scaled units."""

    latent: MLP
    keys: MLP
    values: MLP
    head: MLP
    decoder: MLP
    nothing: Any

    def __init__(self, channels: int, *, key: Any):
        k = jr.split(key, 5)
        self.latent, self.values = (MLP(1 + channels, WIDTH, WIDTH, 2, "relu", key=k) for k in k[:2])
        self.keys = MLP(1, WIDTH, WIDTH, 1, "relu", key=k[2])
        self.head = MLP(WIDTH, 2 * LATENT, WIDTH, 1, "relu", key=k[3])
        self.decoder = MLP(1 + LATENT + WIDTH, 2 * channels, WIDTH, 2, "relu", key=k[4])
        self.nothing = jnp.zeros(WIDTH)  # what a time attends to where there is no context

    def belief(self, points: Series, given: Any) -> Normal:
        """q(z | the given points)."""
        codes = jax.vmap(self.latent)(jnp.concatenate([points.t[:, None], points.y], -1))
        mean = jnp.where(given[:, None], codes, 0.0).sum(0) / jnp.maximum(given.sum(dtype=codes.dtype), 1.0)
        loc, raw = jnp.split(self.head(mean), 2)
        return Normal(loc, 0.01 + 0.99 * jax.nn.sigmoid(raw))

    def attended(self, points: Series, given: Any, t: Any) -> Any:
        """What each time of `t` attends to, `[m, WIDTH]`."""
        values = jax.vmap(self.values)(jnp.concatenate([points.t[:, None], points.y], -1))
        keys, asked = (jax.vmap(self.keys)(x[:, None]).reshape(-1, HEADS, WIDTH // HEADS) for x in (points.t, t))
        score = jnp.einsum("mhk,nhk->mhn", asked, keys) / (WIDTH // HEADS) ** 0.5
        weight = jax.nn.softmax(jnp.where(given[None, None], score, -1e9), -1)
        found = jnp.einsum("mhn,nhk->mhk", weight, values.reshape(-1, HEADS, WIDTH // HEADS)).reshape(-1, WIDTH)
        return jnp.where(given.any(), found, self.nothing[None])

    def predict(self, z: Any, attended: Any, t: Any) -> Normal:
        """Observations at `t`."""
        whole = jnp.broadcast_to(z[None], (t.shape[0], LATENT))
        raw = jax.vmap(self.decoder)(jnp.concatenate([t[:, None], whole, attended], -1))
        loc, raw = jnp.split(raw, 2, -1)
        return Normal(loc, FLOOR + jax.nn.softplus(raw))


def trained(series: Series, sampler: TaskSampler, steps: int, seed: int) -> Attentive:
    """Trained on scaled series that miss nothing, by the neural process's bound."""
    dtype = jnp.result_type(float)
    t, y, static = (jnp.asarray(x, dtype) for x in (series.t, series.y, series.static))
    series = Series(t, y, jnp.asarray(series.mask), static)
    return _trained(series, sampler, steps, jr.key(seed))


@compiled(static_argnums=(1, 2))
def _trained(series: Series, sampler: TaskSampler, steps: int, key: Any) -> Attentive:
    model = widened(Attentive(series.channels, key=jr.fold_in(key, 0)))
    optimiser = optax.adam(optax.warmup_cosine_decay_schedule(0.0, RATE, steps // 20 + 1, steps + 2))

    def loss(model, tasks, noise):
        return -jax.vmap(lambda task, eps: _bound(model, task, eps))(tasks, noise).mean()

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


def _bound(model: Attentive, task: Task, noise: Any) -> Any:
    points, context, target = task.points, task.context.any(-1), task.target.any(-1)
    q_context, q_target = model.belief(points, context), model.belief(points, target)
    predicted = model.predict(q_target.reparametrise(noise), model.attended(points, context, points.t), points.t)
    explained = jnp.where(task.target, predicted.log_prob(points.y), 0.0).sum()
    return explained - q_target.kl(q_context).sum()


@compiled(static_argnums=5)
def _draws(model: Attentive, t: Any, y: Any, at: Any, key: Any, n: int) -> tuple[Any, Any]:
    def one(t, y, at, key):
        # One point that is not given keeps the shapes sound where there is no context at all.
        pad = Series(jnp.pad(t, (0, 1)), jnp.pad(y, ((0, 1), (0, 0))), jnp.ones((len(t) + 1, y.shape[1]), bool), jnp.zeros(0))
        given = jnp.arange(len(t) + 1) < len(t)
        q, attended = model.belief(pad, given), model.attended(pad, given, at)
        found = jax.vmap(lambda eps: model.predict(q.reparametrise(eps), attended, at))(jr.normal(key, (n, LATENT)))
        return found.loc, found.scale

    return jax.vmap(one)(t, y, at, jr.split(key, t.shape[0]))


def draws(model: Attentive, t: np.ndarray, y: np.ndarray, at: np.ndarray, *, key: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of `n` draws at `at [series, m]`, `[series, n, m, channels]` each."""
    found = _draws(model, *(jnp.asarray(x, jnp.float32) for x in (t, y, at)), key, n)
    return tuple(np.asarray(x, np.float64) for x in found)  # pyright: ignore[reportReturnType]
