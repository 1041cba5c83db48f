"""The fused CUDA integration beside the same steps compiled by XLA, on a GPU: errors and times.

Errors are relative, in the norm, to float64; for XLA with matrix products in full float32 (`highest`) and with JAX's default on
such GPUs, tf32. The kernel's products are always in full float32. Times are of one call inside a compiled loop, as in training:
the median of several loops, without compile time; a call integrates one horizon and evaluates its end. The floor is the time of
the integration's products alone at the rate of a large matrix product in full float32: one forward and two backward passes,
nothing computed twice.
"""

import argparse
import itertools
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr

import odeprocess as odp
from odeprocess.experiments.result_files import write_json
from odeprocess.process import Extent, OdeFlow
from odeprocess.process.kernels import fused

SOLVERS = {
    "fused": odp.Grid(),
    "unrolled": odp.Grid(fused=False, unroll=True),
    "looped": odp.Grid(fused=False, unroll=False),
}
CALLS, LOOPS = 20, 5


def make_field(name: str):
    spec = odp.variant(name, channels=1, static_dim=0, missing=False, t0=0.0, horizon=1.0)
    made = spec.build(key=jr.key(0)).flow
    assert isinstance(made, OdeFlow)
    # Random weights, since the networks of `ndp-skip` are initialised at zero.
    noise = jax.tree.map(lambda x: 0.1 * jr.normal(jr.key(x.size), x.shape), made.field)
    return spec, jax.tree.map(jnp.add, made.field, noise)


def integrate(field, z, solver, l_dim, times=20):
    """The states of every trajectory at `times` times up to the end."""
    t = jnp.linspace(1.0, 0.0, times, dtype=z.dtype)
    flow = OdeFlow(field, solver, 0.0, 1.0)
    return jax.vmap(lambda z: flow(z[:l_dim], z[l_dim:], t, Extent()).states)(z)


def loss(field, z, solver, l_dim, times=20):
    """A loss whose cotangents are of all sizes."""
    return jnp.sin(3.0 * integrate(field, z, solver, l_dim, times)).mean()


def compute_error(found, true) -> float:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(true), strict=True)
    return max(float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) for a, b in pairs if b.size)


def measure_errors(name: str, batch: int) -> dict:
    """Relative errors of values and gradients, fused and not."""
    spec, made = make_field(name)
    z = jr.normal(jr.key(1), (batch, spec.z_dim))
    values = jax.jit(integrate, static_argnums=(2, 3))
    gradients = jax.jit(jax.grad(loss, (0, 1)), static_argnums=(2, 3))
    with jax.enable_x64(True):
        exactly = jax.tree.map(lambda x: x.astype(jnp.float64), (made, z))
        true = [f(*exactly, SOLVERS["looped"], spec.l_dim) for f in (values, gradients)]
        row = {"benchmark": "kernel-error", "model": name, "batch": batch}
        for kind, precision in itertools.product(("fused", "looped"), ("highest", "default")):
            with jax.default_matmul_precision(precision):
                found = [f(made, z, SOLVERS[kind], spec.l_dim) for f in (values, gradients)]
            for what, a, b in zip(("values", "gradients"), found, true, strict=True):
                row[f"{what}_{kind}_{precision}"] = compute_error(jax.tree.map(lambda x: x.astype(jnp.float64), a), b)
    return row


def time_call(call, start) -> tuple[float, float]:
    """Seconds of one call, whose result has the form of its argument `start`, and seconds of compiling."""
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, CALLS, lambda _, x: call(x), x))
    began = time.perf_counter()
    compiled = loop.lower(start).compile()
    compiling = time.perf_counter() - began
    jax.block_until_ready(compiled(start))
    taken = []
    for _ in range(LOOPS):
        began = time.perf_counter()
        jax.block_until_ready(compiled(start))
        taken.append((time.perf_counter() - began) / CALLS)
    return statistics.median(taken), compiling


def compute_floor(name: str, batch: int, rate: float) -> float:
    """Seconds that the products of an integration, forward and back, take at so many floating-point operations a second."""
    spec, _ = make_field(name)
    out = spec.l_dim // (2 if spec.dynamics == "second" else 1)
    grid = SOLVERS["fused"]
    evaluations = grid.steps * 6 + 1
    return 3 * 2 * batch * evaluations * (spec.l_dim * spec.h_dim + spec.h_dim**2 + spec.h_dim * out) / rate


def measure_integration(name: str, batch: int, kind: str, backward: bool) -> dict:
    """One call: the state at the end of the horizon, or the gradients of a loss in it as well."""
    spec, made = make_field(name)
    z = jr.normal(jr.key(1), (batch, spec.z_dim))
    solver = SOLVERS[kind]

    def forward_call(carry):
        made, z = carry
        return made, z + 1e-6 * integrate(made, z, solver, spec.l_dim, 1).mean()

    def backward_call(carry):
        gradient = jax.grad(loss, (0, 1))(*carry, solver, spec.l_dim, 1)
        return jax.tree.map(lambda x, g: x - 1e-3 * g, carry, gradient)

    taken, compiling = time_call(backward_call if backward else forward_call, (made, z))
    way = "integration-forward-backward" if backward else "integration-forward"
    return {"benchmark": way, "model": name, "solver": kind, "batch": batch, "seconds": taken, "compile_seconds": compiling}


def measure_kernels(name: str, batch: int) -> dict:
    """Seconds of the two kernels alone, without the layers before and the interpolation after them."""
    spec, made = make_field(name)
    grid = SOLVERS["fused"]
    step_grid = fused.StepGrid(0.0, 1.0 / grid.steps, grid.steps, grid.order)
    z = jr.normal(jr.key(1), (batch, spec.z_dim))
    layers = jax.vmap(lambda d: tuple(made.layers(made.prepare(d)) or ()), out_axes=(None, None, None, 0, 0))(z[:, spec.l_dim :])
    inputs = [x[None] for x in (*layers, z[:, : spec.l_dim])]
    ls, ks = fused.runge_kutta_p.bind(*inputs, step_grid=step_grid)

    def forward(inputs):
        return [*inputs[:5], inputs[5] + 1e-6 * fused.runge_kutta_p.bind(*inputs, step_grid=step_grid)[0][:, :, -1]]

    def back(inputs):
        found = fused.pull_p.bind(*inputs, ls, ks, ls, ks, step_grid=step_grid, weights=True)
        return [x + 1e-6 * y for x, y in zip(inputs, found, strict=True)]

    (there, _), (again, _) = time_call(forward, inputs), time_call(back, inputs)
    row = {"benchmark": "kernels-alone", "model": name, "solver": "fused", "batch": batch, "seconds": there + again}
    return {**row, "seconds_forward": there, "seconds_back": again}


def measure_matmul_rate(size: int = 8192) -> float:
    """Floating-point operations a second of a large product in full float32."""
    a = jr.normal(jr.key(0), (size, size))
    taken, _ = time_call(lambda x: jnp.matmul(a, x, precision="highest") / 90.0, a)
    return 2 * size**3 / taken


def measure_training_step(batch: int, kind: str) -> dict:
    """Seconds of a whole training step of the NDP on sines: encoder, integration, decoder, optimiser."""
    count, epochs = (490, 6) if batch < 100 else (8 * batch, 10)
    series = odp.data.sines.sample(count, key=jr.key(0))
    spec = odp.variant("ndp", solver=SOLVERS[kind])
    fit = odp.fit(series, spec, options=odp.FitOptions(epochs=epochs, batch_size=batch))
    taken = fit.train_seconds / (epochs * (count // batch))
    row = {"benchmark": "training-step", "task": "sines", "model": "ndp", "solver": kind, "batch": batch}
    return {**row, "seconds": taken, "compile_seconds": fit.compile_seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where the rows go, as JSON")
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 1024, 4096])
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=SOLVERS)
    parser.add_argument("--models", nargs="+", default=["ndp"])
    parser.add_argument("--training", type=int, nargs="*", default=[5, 1024], help="batches of whole training steps")
    arguments = parser.parse_args()
    device = jax.devices()[0]
    common = {"device": device.platform, "kind": device.device_kind, "jax": jax.__version__, "task": "none"}
    rows = []

    def add(row: dict) -> None:
        rows.append({**common, **row})
        print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)

    for name in ("ndp", "nd2p", "ndp-skip"):
        add(measure_errors(name, 256))
    rate = measure_matmul_rate()
    add({"benchmark": "matmul-float32", "model": "none", "batch": 8192, "flops": rate})
    for name in arguments.models:
        for batch in arguments.batches:
            for backward in (False, True):
                made = {kind: measure_integration(name, batch, kind, backward) for kind in arguments.solvers}
                for row in made.values():
                    extra = {"ratio_to_unrolled": made["unrolled"]["seconds"] / row["seconds"]} if "unrolled" in made else {}
                    over = {"ratio_to_floor": row["seconds"] / compute_floor(name, batch, rate)} if backward else {}
                    add({**row, **extra, **over})
            row = measure_kernels(name, batch)
            add({**row, "ratio_to_floor": row["seconds"] / compute_floor(name, batch, rate)})
    for batch in arguments.training:
        for kind in arguments.solvers:
            add(measure_training_step(batch, kind))
    if arguments.out:
        write_json(arguments.out, {"rows": rows})


if __name__ == "__main__":
    main()
