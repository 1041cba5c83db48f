"""Gaussian processes, the baseline: fitted to each series alone, or with hyper-parameters learned over all of them.

In float64, by marginal likelihood from several starts, the best of three kernels kept. Channels are independent. Times
and values are scaled ones. A single series of one to three points says next to nothing of its hyper-parameters, so there
amplitude and length have weak log-normal priors: without them a series that happens to begin flat is taken for a constant.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from odeprocess.common.compilation import compiled

KERNELS = ("rbf", "matern52", "rbf + linear")
ORACLES = {"lines": "linear", "sines": "cosine"}  # the family itself, which nobody knows
NUM_STARTS, STEPS, RATE = 5, 250, 0.1
# Least and greatest: amplitude, length, amplitude of the linear part, noise. Times span 4 units, values have variance 1.
LOW, HIGH = np.log([1e-2, 4e-2, 1e-2, 1e-4]), np.log([1e2, 4e1, 1e2, 1.0])
SHARED_SERIES, SHARED_POINTS = 200, 20  # what hyper-parameters for all series are learned from, at most
CHUNK = 256
MISSING = 1e8  # variance of the noise of what is missing


class Curve(NamedTuple):
    """A normal prediction at each time of each series: `[series, n, channels]` each."""

    mean: np.ndarray
    std: np.ndarray
    noise: np.ndarray


def per_series(t: np.ndarray, y: np.ndarray, at: np.ndarray) -> Curve:
    """Predictions at `at [series, m]` from `t [series, n]`, `y [series, n, channels]`, each series and channel on its own.

    A value that is NaN is missing: it has boundless noise.
    """
    with _double():
        parts = []
        for channel in range(y.shape[-1]):
            if t.shape[1] == 0:  # nothing to fit: what is known of scaled values is their mean and variance
                parts.append((np.zeros(at.shape), np.ones(at.shape), np.zeros(at.shape)))
                continue
            arguments = (*(jnp.asarray(x, jnp.float64) for x in (t, y[..., channel], at)),)
            # One after the other: where XLA has fewer threads than loops to run at once, it can wait for itself for ever.
            found = [jax.device_get(_fitted(kernel, *arguments)) for kernel in KERNELS]
            best = np.argmin(np.stack([loss for loss, _ in found]), 0)
            parts.append([np.stack(x)[best, np.arange(len(t))] for x in zip(*(curve for _, curve in found), strict=True)])
        return Curve(*(np.stack(x, -1) for x in zip(*parts, strict=True)))


def learned(t: np.ndarray, y: np.ndarray, among: tuple[str, ...] = KERNELS) -> list[tuple[str, np.ndarray]]:
    """A kernel and its hyper-parameters for each channel, from whole training series that share their times."""
    rng = np.random.default_rng(0)
    count = min(len(t), SHARED_SERIES)
    points = np.sort(rng.permuted(np.tile(np.arange(t.shape[1]), (count, 1)), axis=1)[:, :SHARED_POINTS], 1)
    with _double():
        found = []
        for channel in range(y.shape[-1]):
            ts, ys = (jnp.asarray(np.take_along_axis(x[:count], points, 1), jnp.float64) for x in (t, y[..., channel]))
            tried = [(*jax.device_get(_shared(kernel, ts, ys)), kernel) for kernel in among]
            _, raw, kernel = min(tried, key=lambda x: float(x[0]))
            found.append((kernel, raw))
        return found


def shared(hyper: list[tuple[str, np.ndarray]], t: np.ndarray, y: np.ndarray, at: np.ndarray) -> Curve:
    """Predictions with hyper-parameters from `learned`."""
    with _double():
        parts = []
        for channel, (kernel, raw) in enumerate(hyper):
            arguments = (*(jnp.asarray(x, jnp.float64) for x in (t, y[..., channel], at)),)
            parts.append(jax.device_get(_conditioned(kernel, jnp.asarray(raw), *arguments)))
        return Curve(*(np.stack(x, -1) for x in zip(*parts, strict=True)))


@contextmanager
def _double() -> Iterator[None]:
    """float64 here alone; and the libraries used here mix types, even where a user runs JAX strictly."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _natural(raw):
    """Hyper-parameters inside their bounds."""
    return jnp.exp(LOW + (HIGH - LOW) * jax.nn.sigmoid(raw))


def _process(kernel: str, raw: Any, t: Any, seen: Any = True) -> Any:
    from tinygp import GaussianProcess, kernels

    amplitude, length, slope, noise = _natural(raw)
    diagonal = jnp.where(seen, noise**2, MISSING)
    if kernel in ORACLES.values():
        line = slope**2 * kernels.DotProduct() + kernels.Constant(amplitude**2)
        wave = amplitude**2 * kernels.Cosine(2.0 * jnp.pi * length)
        return GaussianProcess(line if kernel == "linear" else wave, t, diag=diagonal)
    k = amplitude**2 * (kernels.Matern52(length) if kernel == "matern52" else kernels.ExpSquared(length))
    if kernel == "rbf + linear":
        k = k + slope**2 * (kernels.DotProduct() + kernels.Constant(1.0))
    return GaussianProcess(k, t, diag=diagonal)


def _loss(kernel, raw, t, y):
    seen = jnp.isfinite(y)
    value = -_process(kernel, raw, t, seen).log_probability(jnp.where(seen, y, 0.0))
    return jnp.where(jnp.isfinite(value), value, 1e6)


def _unlikely(raw):
    """Minus the log density of amplitude and length, whose logarithms are standard normal."""
    return 0.5 * (jnp.log(_natural(raw)[:2]) ** 2).sum()


def _minimised(loss, key):
    """The best of several starts, each followed by Adam."""
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    def descend(raw):
        def step(carry, _):
            raw, state = carry
            gradient = jnp.nan_to_num(jax.grad(loss)(raw))
            updates, state = optimiser.update(gradient, state)
            return (raw + updates, state), None

        (raw, _), _ = jax.lax.scan(step, (raw, optimiser.init(raw)), None, length=STEPS)
        return loss(raw), raw

    losses, raws = jax.vmap(descend)(jr.uniform(key, (NUM_STARTS, 4), minval=-2.0, maxval=2.0))
    best = jnp.argmin(losses)
    return losses[best], raws[best]


@compiled(static_argnums=0)
def _fitted(kernel, t, y, at):
    """The least loss and the prediction of each series."""

    def one(series):
        t, y, at, key = series
        loss, raw = _minimised(lambda raw: _loss(kernel, raw, t, y) + _unlikely(raw), key)
        return loss, _predicted(kernel, raw, t, y, at)

    return jax.lax.map(one, (t, y, at, jr.split(jr.key(0), t.shape[0])), batch_size=min(CHUNK, t.shape[0]))


@compiled(static_argnums=0)
def _shared(kernel, t, y):
    return _minimised(lambda raw: jax.vmap(lambda t, y: _loss(kernel, raw, t, y))(t, y).mean(), jr.key(0))


@compiled(static_argnums=0)
def _conditioned(kernel, raw, t, y, at):
    return jax.lax.map(lambda s: _predicted(kernel, raw, *s), (t, y, at), batch_size=min(CHUNK, t.shape[0]))


def _predicted(kernel, raw, t, y, at):
    noise = jnp.broadcast_to(_natural(raw)[3], at.shape)
    if t.shape[0] == 0:
        process = _process(kernel, raw, at)
        return process.loc, jnp.sqrt(process.variance - noise**2), noise
    seen = jnp.isfinite(y)
    found = _process(kernel, raw, t, seen).condition(jnp.where(seen, y, 0.0), at).gp
    return found.loc, jnp.sqrt(jnp.maximum(found.variance - found.noise.diagonal(), 0.0)), noise
