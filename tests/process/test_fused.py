"""The fused integration: the same numbers as the grid's, however it is batched and differentiated, and its CUDA kernels."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import odeprocess as odp
from cases import small
from odeprocess.process import AbstractField, Extent, Grid, OdeFlow
from odeprocess.process.kernels import cuda, fused
from odeprocess.process.kernels.cuda import Network
from odeprocess.process.runge_kutta import TABLEAUS

TESTS = Path(__file__).parents[1]
EXTENT = Extent(1, 2)
COMPILER = shutil.which("g++")


def a_field(name: str, seed: int = 0) -> AbstractField:
    """With every weight away from zero, where some begin."""
    flow = small(name).build(key=jr.key(seed)).flow
    assert isinstance(flow, OdeFlow)
    return jax.tree.map(lambda x: x + 0.1 * jr.normal(jr.key(seed + 1), x.shape), flow.field)


def loss(fused: bool, order: int = 2):
    solver = Grid(steps=2, order=order, fused=fused)

    def of(field, z, t):
        flow = OdeFlow(field, solver, 0.1, 1.3)
        return jnp.sin(flow(z[:4], z[4:], t, EXTENT).states).sum()

    return of


def both(make, *arguments):
    found, true = (jax.jit(make(loss(fused)))(*arguments) for fused in (True, False))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(true), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


Z = jr.normal(jr.key(2), (2, 3, 6))
T = jr.uniform(jr.key(3), (3, 5), minval=-1.0, maxval=2.5)


@pytest.mark.parametrize("name", ["ndp", "nd2p", "ndp-skip"])
def test_seeds_series_and_gradients_of_weights_latents_and_times(name):
    fields = jax.tree.map(lambda *x: jnp.stack(x), a_field(name, 0), a_field(name, 7))

    def make(loss):
        def mean(field, z, t):
            return jax.vmap(loss, (None, 0, 0))(field, z, t).mean()

        return jax.vmap(jax.value_and_grad(mean, (0, 1, 2)), (0, 0, None))

    both(make, fields, Z, T)


WAYS = {
    "one trajectory": lambda loss: lambda field, z, t: jax.value_and_grad(loss)(field, z[0], t[0]),
    "a gradient for each series": lambda loss: jax.vmap(jax.grad(loss, (0, 1)), (None, 0, 0)),
    "latents alone": lambda loss: jax.vmap(jax.grad(loss, 1), (None, 0, 0)),
    "forward mode": lambda loss: jax.vmap(jax.jacfwd(loss, 1), (None, 0, 0)),
    "second derivatives": lambda loss: lambda field, z, t: jax.hessian(loss, 1)(field, z[0], t[0]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_batch_and_differentiate(way):
    both(WAYS[way], a_field("nd2p"), Z[0], T)


def test_without_a_gpu_the_grid_takes_its_steps_one_by_one_unless_asked():
    field, solvers = a_field("ndp"), (Grid(), Grid(fused=True))
    texts = [
        str(jax.make_jaxpr(lambda z, s=s: OdeFlow(field, s, 0.0, 1.0)(z[:4], z[4:], T[0], EXTENT).states)(Z[0, 0]))
        for s in solvers
    ]
    assert ["runge_kutta" in text for text in texts] == [jax.default_backend() == "gpu", True]


def test_fields_that_are_no_such_network_are_left_to_the_grid():
    class Decay(AbstractField):
        def prepare(self, d):
            return d

        def velocity(self, t, l, prepared):
            return -l

    states = OdeFlow(Decay(), Grid(fused=True), 0.0, 1.0)(jnp.ones(2), jnp.zeros(1), jnp.ones(1), Extent()).states
    np.testing.assert_allclose(states, np.exp(-1.0), rtol=1e-4)


class Emulated:
    """The kernels for some sizes, compiled for the CPU; see `emulated.cc`."""

    def __init__(self, network: Network, order: int, tile: int, folder: Path):
        header, library = folder / "sizes.h", folder / "emulated.so"
        header.write_text(cuda.source(network, order, tile))
        flags = ["-O1", "-std=c++20", "-shared", "-fPIC", "-pthread", "-w", "-include", str(header), "-I", str(cuda.SOURCES)]
        subprocess.run([str(COMPILER), *flags, str(TESTS / "emulated.cc"), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))

    def __call__(self, kind: str, step_grid: fused.StepGrid, blocks: int, inputs: list, others: list) -> None:
        groups, batch, _ = inputs[5].shape

        class Batch(ctypes.Structure):
            _fields_ = [
                ("inputs", ctypes.c_void_p * 6),
                ("sizes", ctypes.c_int * 3),
                ("times", ctypes.c_float * 2),
            ]

        def pointers(arrays):
            return (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))

        described = Batch(pointers(inputs), (batch, step_grid.count, blocks), (step_grid.t0, step_grid.step))
        rest = [pointers(others)] if kind == "pull" else [ctypes.c_void_p(x.ctypes.data) for x in others]
        getattr(self.library, f"run_{kind}")(groups, ctypes.byref(described), *rest)


KERNELS = [  # network, order, tile, groups, batch, blocks
    (Network(3, 5, 3, False), 5, 4, 2, 9, 2),
    (Network(4, 6, 2, True), 2, 8, 1, 9, 1),
    (Network(10, 50, 10, False), 3, 32, 1, 33, 1),
]


@pytest.mark.skipif(COMPILER is None, reason="needs g++ to compile the kernels for the CPU")
@pytest.mark.parametrize("network, order, tile, groups, batch, blocks", KERNELS)
def test_the_kernels_compute_what_defines_them(network, order, tile, groups, batch, blocks, tmp_path):
    kernels, rng = Emulated(network, order, tile, tmp_path), np.random.default_rng(0)

    def normal(*shape):
        return 0.5 * rng.normal(size=shape).astype(np.float32)

    state, width, out, skip = network
    weights = [normal(groups, width, state + 1), normal(groups, width, width + 1)]
    weights.append(normal(groups, out, width + 1 + skip * (state + 1)))
    inputs = [*weights, normal(groups, batch, width), normal(groups, batch, out * skip), normal(groups, batch, state)]
    step_grid = fused.StepGrid(0.3, -0.2, 2, order)

    made = [np.array(x) for x in fused.runge_kutta_p.bind(*inputs, step_grid=step_grid)]
    found = [np.full_like(x, np.nan) for x in made]
    kernels("runge_kutta", step_grid, blocks, inputs, found)
    close(found, made)

    cotangents = [normal(*x.shape) for x in made]
    true = fused.pull_p.bind(*inputs, *made, *cotangents, step_grid=step_grid, weights=True)
    parts = np.full((groups, blocks, sum(x[0].size for x in weights)), np.nan, np.float32)
    found = [np.full_like(x, np.nan) for x in inputs[3:]]
    kernels("pull", step_grid, blocks, inputs, [*made, *cotangents, parts, *found])
    close([parts.sum(1), *found], [jnp.concatenate([x.reshape(groups, -1) for x in true[:3]], 1), *true[3:]])
    assert kernels.library.shared_bytes() == network.shared_bytes(tile, len(TABLEAUS[order].nodes))


def close(found, true):
    """To float32's rounding, in the norm: single numbers may cancel."""
    for a, b in zip(found, true, strict=True):
        assert np.linalg.norm(a - np.asarray(b)) <= 5e-6 * np.linalg.norm(b)


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs an NVIDIA GPU and nvcc; the emulated kernels are tested above")
@settings(max_examples=4)
@given(batch=st.integers(1, 300), name=st.sampled_from(["ndp", "nd2p", "ndp-skip"]))
def test_the_kernels_on_a_gpu_give_the_grids_values_and_gradients_and_the_same_bits_twice(batch, name):
    spec = odp.variant(name, channels=1, static_dim=0, missing=False, t0=0.0, horizon=1.0)
    flow = spec.build(key=jr.key(0)).flow
    assert isinstance(flow, OdeFlow)
    z, t = jr.normal(jr.key(batch), (batch, spec.z_dim)), jnp.linspace(0.0, 1.0, 7)

    @jax.jit
    def gradients(field, z):
        def mean(field, z, solver):
            def one(z):
                return OdeFlow(field, solver, 0.0, 1.0)(z[: spec.l_dim], z[spec.l_dim :], t, Extent()).states

            return jnp.sin(jax.vmap(one)(z)).mean()

        return [jax.value_and_grad(mean, (0, 1))(field, z, Grid(fused=way, unroll=False)) for way in (None, False)]

    with jax.default_matmul_precision("highest"):  # or the grid's own products, and those before the kernel, are less
        (found, true), (again, _) = gradients(flow.field, z), gradients(flow.field, z)
    for a, b, c in zip(*map(jax.tree.leaves, (found, true, again)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max() + 1e-7)
        np.testing.assert_array_equal(a, c)
