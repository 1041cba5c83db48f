"""Gaussian process regression as a baseline: fitted to each series alone, or with hyper-parameters shared by all series.

The hyper-parameters maximise the marginal likelihood, in float64, from several starts; of three kernels the best is kept.
Channels are independent, times and values scaled. One to three points of a series hardly determine its hyper-parameters, so a
fit to one series puts weak log-normal priors on amplitude and length scale: without them a series that begins flat is taken for
a constant.
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
TRUE_KERNELS = {"lines": "linear", "sines": "cosine"}  # of the processes that generate these tasks
NUM_STARTS, STEPS, RATE = 5, 250, 0.1  # of Adam; chosen by hand
# Bounds of amplitude, length scale, amplitude of the linear part, and noise. Times span 4 units, values have variance 1.
LOW, HIGH = np.log([1e-2, 4e-2, 1e-2, 1e-4]), np.log([1e2, 4e1, 1e2, 1.0])
SHARED_SERIES, SHARED_POINTS = 200, 20  # shared hyper-parameters are fitted to so many series and points at most, for speed
CHUNK = 256  # series at a time, which bounds memory
MISSING = 1e8  # noise variance of a missing value: it has no weight


class Curve(NamedTuple):
    """A normal prediction at each time of each series: `[series, n, channels]` each."""

    mean: np.ndarray
    std: np.ndarray
    noise: np.ndarray


def predict_each_series(t: np.ndarray, y: np.ndarray, at: np.ndarray) -> Curve:
    """Fits each series and channel by itself to `t [series, n]`, `y [series, n, channels]`, and predicts at `at [series, m]`.

    NaN in `y` means missing.
    """
    with _use_float64():
        parts = []
        for channel in range(y.shape[-1]):
            if t.shape[1] == 0:  # nothing to fit: scaled values have mean 0 and variance 1
                parts.append((np.zeros(at.shape), np.ones(at.shape), np.zeros(at.shape)))
                continue
            arguments = (*(jnp.asarray(x, jnp.float64) for x in (t, y[..., channel], at)),)
            # One kernel after the other: with fewer threads than concurrent loops XLA can deadlock.
            found = [jax.device_get(_fit_each(kernel, *arguments)) for kernel in KERNELS]
            best = np.argmin(np.stack([loss for loss, _ in found]), 0)
            parts.append([np.stack(x)[best, np.arange(len(t))] for x in zip(*(curve for _, curve in found), strict=True)])
        return Curve(*(np.stack(x, -1) for x in zip(*parts, strict=True)))


def fit_shared(t: np.ndarray, y: np.ndarray, kernels: tuple[str, ...] = KERNELS) -> list[tuple[str, np.ndarray]]:
    """Fits a kernel and its hyper-parameters for each channel to whole training series with common times.

    Returns:
        For each channel the kernel's name and its raw hyper-parameters.
    """
    rng = np.random.default_rng(0)
    count = min(len(t), SHARED_SERIES)
    points = np.sort(rng.permuted(np.tile(np.arange(t.shape[1]), (count, 1)), axis=1)[:, :SHARED_POINTS], 1)
    with _use_float64():
        found = []
        for channel in range(y.shape[-1]):
            ts, ys = (jnp.asarray(np.take_along_axis(x[:count], points, 1), jnp.float64) for x in (t, y[..., channel]))
            tried = [(*jax.device_get(_fit_shared(kernel, ts, ys)), kernel) for kernel in kernels]
            _, raw, kernel = min(tried, key=lambda x: float(x[0]))
            found.append((kernel, raw))
        return found


def predict_with_shared(hyper: list[tuple[str, np.ndarray]], t: np.ndarray, y: np.ndarray, at: np.ndarray) -> Curve:
    """Predicts with the hyper-parameters that `fit_shared` returned."""
    with _use_float64():
        parts = []
        for channel, (kernel, raw) in enumerate(hyper):
            arguments = (*(jnp.asarray(x, jnp.float64) for x in (t, y[..., channel], at)),)
            parts.append(jax.device_get(_condition(kernel, jnp.asarray(raw), *arguments)))
        return Curve(*(np.stack(x, -1) for x in zip(*parts, strict=True)))


@contextmanager
def _use_float64() -> Iterator[None]:
    """float64 within the block, and no strict checks of types and ranks, which the libraries used here do not pass."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def _bounded(raw):
    """Hyper-parameters within their bounds."""
    return jnp.exp(LOW + (HIGH - LOW) * jax.nn.sigmoid(raw))


def _make_process(kernel: str, raw: Any, t: Any, seen: Any = True) -> Any:
    from tinygp import GaussianProcess, kernels

    amplitude, length, slope, noise = _bounded(raw)
    diagonal = jnp.where(seen, noise**2, MISSING)
    if kernel in TRUE_KERNELS.values():
        line = slope**2 * kernels.DotProduct() + kernels.Constant(amplitude**2)
        wave = amplitude**2 * kernels.Cosine(2.0 * jnp.pi * length)
        return GaussianProcess(line if kernel == "linear" else wave, t, diag=diagonal)
    k = amplitude**2 * (kernels.Matern52(length) if kernel == "matern52" else kernels.ExpSquared(length))
    if kernel == "rbf + linear":
        k = k + slope**2 * (kernels.DotProduct() + kernels.Constant(1.0))
    return GaussianProcess(k, t, diag=diagonal)


def _loss(kernel, raw, t, y):
    seen = jnp.isfinite(y)
    value = -_make_process(kernel, raw, t, seen).log_probability(jnp.where(seen, y, 0.0))
    return jnp.where(jnp.isfinite(value), value, 1e6)


def _negative_log_prior(raw):
    """Of amplitude and length scale, whose logarithms are standard normal; up to a constant."""
    return 0.5 * (jnp.log(_bounded(raw)[:2]) ** 2).sum()


def _minimise(loss, key):
    """The smallest loss and its parameters: Adam from several starts."""
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
def _fit_each(kernel, t, y, at):
    """The smallest loss and the prediction of each series."""

    def one(series):
        t, y, at, key = series
        loss, raw = _minimise(lambda raw: _loss(kernel, raw, t, y) + _negative_log_prior(raw), key)
        return loss, _predict(kernel, raw, t, y, at)

    return jax.lax.map(one, (t, y, at, jr.split(jr.key(0), t.shape[0])), batch_size=min(CHUNK, t.shape[0]))


@compiled(static_argnums=0)
def _fit_shared(kernel, t, y):
    return _minimise(lambda raw: jax.vmap(lambda t, y: _loss(kernel, raw, t, y))(t, y).mean(), jr.key(0))


@compiled(static_argnums=0)
def _condition(kernel, raw, t, y, at):
    return jax.lax.map(lambda s: _predict(kernel, raw, *s), (t, y, at), batch_size=min(CHUNK, t.shape[0]))


def _predict(kernel, raw, t, y, at):
    noise = jnp.broadcast_to(_bounded(raw)[3], at.shape)
    if t.shape[0] == 0:
        process = _make_process(kernel, raw, at)
        return process.loc, jnp.sqrt(process.variance - noise**2), noise
    seen = jnp.isfinite(y)
    found = _make_process(kernel, raw, t, seen).condition(jnp.where(seen, y, 0.0), at).gp
    return found.loc, jnp.sqrt(jnp.maximum(found.variance - found.noise.diagonal(), 0.0)), noise
