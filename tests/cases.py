"""Every row of the variant table, small, and a row for each option of a spec: all of them meet all laws."""

import functools
from typing import Any

import jax
import jax.random as jr
import numpy as np

import odeprocess as odp

LENGTH = 8
SOLVER = odp.Grid(steps=4, order=2)  # few stages: most of a test's time goes into compiling them


def small(name: str, **changes: Any) -> odp.Spec:
    fixed = {"channels": 2, "static_dim": 1, "missing": False, "t0": 0.0, "horizon": 1.0, "solver": SOLVER}
    sizes = {"r_dim": 6, "z_dim": 6, "l_dim": 6 if name.startswith("np") else 4, "h_dim": 8}
    images = {"image": (16, 16), "channels": 256} if name.startswith("image") else {}
    return odp.variant(name, **{**fixed, **sizes, **images, **changes})


CASES: dict[str, odp.Spec] = {name: small(name) for name in odp.VARIANTS} | {
    "ndp, missing channels": small("ndp", missing=True),
    "ndp, first observation": small("ndp", initial="first", missing=True),
    "ndp, bernoulli": small("ndp", likelihood="bernoulli"),
    "ndp, shared noise": small("ndp", noise="shared"),
    "ndp, fixed noise": small("ndp", noise="fixed", noise_std=0.2),
    "ndp, adaptive": small("ndp", solver=odp.Adaptive()),
    "ndp, order 5": small("ndp", solver=odp.Grid(steps=4)),
    "image-ndp": small("image-ndp", missing=True),
    "np, attention": small("np", aggregation="attention", waves=2),
    "np, precision": small("np", aggregation="precision", missing=True),
}
# Every part and every option at least once, for laws that take long to compile; `test_laws` proves it.
EACH_PART = [
    "np",
    "nd2p-l",
    "ndp-linear",
    "ndp-state",
    "image-ndp",
    "ndp, first observation",
    "ndp, fixed noise",
    "ndp, adaptive",
]
ODE_CASES = {name: spec for name, spec in CASES.items() if spec.dynamics != "none"}


@functools.cache
def process(name: str) -> odp.Process:
    return CASES[name].build(key=jr.key(7))


@functools.cache
def model(name: str) -> odp.Model:
    spec = CASES[name]
    assert spec.channels is not None
    return odp.Model(process(name), spec, odp.Scaling.identity(spec.channels, 1))


def untrained(spec: odp.Spec, series: odp.Series) -> odp.Model:
    """A model such as `fit` begins with: for tests of everything but what was learned, without the time to compile a fit."""
    scaling = odp.Scaling.fit(series)
    spec = spec.resolve(scaling.apply(series))
    return odp.Model(spec.build(key=jr.key(0)), spec, scaling)


def random_series(seed: int, count: int, *, partial: bool = False, channels: int = 2) -> odp.Series:
    """One series of `count` observations, padded to `LENGTH`."""
    rng = np.random.default_rng(seed)
    mask = np.broadcast_to((np.arange(LENGTH) < count)[:, None], (LENGTH, channels)).copy()
    if partial:
        mask &= rng.random((LENGTH, channels)) < 0.7
    t = rng.uniform(0, 1, LENGTH).astype(np.float32)
    y = rng.uniform(0, 1, (LENGTH, channels)).astype(np.float32) * mask
    return jax.tree.map(jax.numpy.asarray, odp.Series(t, y, mask, rng.normal(size=1).astype(np.float32)))


def reordered(series: odp.Series, order: np.ndarray) -> odp.Series:
    return odp.Series(series.t[order], series.y[order], series.mask[order], series.static)


infer = jax.jit(lambda process, series: process.infer(series))
predict = jax.jit(lambda process, z, t, extent: process.predict(z, t, extent), static_argnums=3)
path = jax.jit(lambda process, z, t, extent: process.path(z, t, extent), static_argnums=3)
