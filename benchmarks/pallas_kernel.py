"""The forward integration written in Pallas beside our CUDA kernel, on a GPU: does hand-written CUDA pay?

Pallas computes the forward pass and the end of the horizon only; ours also writes all states and slopes for the backward pass.
Sizes in Pallas are powers of two: a state of 10 is padded to 16, a width of 50 to 64. `--interpret` checks the values without a
GPU.
"""

import argparse
import functools
import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from cuda_kernel import make_field, time_call
from jax.experimental import pallas as pl

import odeprocess as odp
from odeprocess.experiments.result_files import write_json
from odeprocess.process.kernels import fused
from odeprocess.process.runge_kutta import TABLEAUS

STATE, WIDTH = 16, 64
GRID = odp.Grid()


def integrate_tile(start, offset, first, timed, second, bias, last, last_bias, end, *, precision):
    """All steps of a tile of trajectories; the arguments are references to blocks of arrays."""
    tableau, step = TABLEAUS[GRID.order], 1.0 / GRID.steps
    dot = functools.partial(jnp.dot, precision=precision, preferred_element_type=jnp.float32)

    def velocity(t, l):
        h = jnp.tanh(dot(l, first[...]) + offset[...] + t * timed[...][None])
        h = jnp.tanh(dot(h, second[...]) + bias[...][None])
        return dot(h, last[...]) + last_bias[...][None]

    def add_slopes(l, weights, slopes):
        for weight, slope in zip(weights, slopes, strict=True):
            l = l + (step * weight) * slope
        return l

    def advance(s, l):
        slopes = []
        for node, row in zip(tableau.nodes, tableau.rows, strict=True):
            slopes.append(velocity((s.astype(jnp.float32) + node) * step, add_slopes(l, row, slopes)))
        return add_slopes(l, tableau.weights, slopes)

    end[...] = jax.lax.fori_loop(0, GRID.steps, advance, start[...])


def integrate(start, offset, weights, tile: int, warps: int, precision: str, interpret: bool):
    """The states at the end, `[batch, STATE]`."""
    options = {}
    if not interpret:
        from jax.experimental.pallas import triton

        options["compiler_params"] = triton.CompilerParams(num_warps=warps, num_stages=1)
    own = [pl.BlockSpec((tile, size), lambda i: (i, 0)) for size in (STATE, WIDTH)]
    whole = [pl.BlockSpec(x.shape, lambda i, n=x.ndim: (0,) * n) for x in weights]
    call = functools.partial(integrate_tile, precision=precision)
    shape = jax.ShapeDtypeStruct((start.shape[0], STATE), jnp.float32)
    made = pl.pallas_call(
        call,
        grid=(start.shape[0] // tile,),
        in_specs=[*own, *whole],
        out_specs=own[0],
        out_shape=shape,
        interpret=interpret,
        **options,
    )
    return made(start, offset, *weights)


def make_inputs(batch: int):
    """The same trajectories for both: padded arrays for Pallas, and the arguments of our operation."""
    spec, made = make_field("ndp")
    z = jr.normal(jr.key(1), (batch, spec.z_dim))
    layers: Any = jax.vmap(lambda d: tuple(made.layers(made.prepare(d)) or ()), out_axes=(None, None, None, 0, 0))(
        z[:, spec.l_dim :]
    )
    first, second, last, offset, _ = layers

    def pad(x, *shape):
        return jnp.pad(x, [(0, to - size) for to, size in zip(shape, x.shape, strict=True)])

    weights = [
        *(pad(first[:, :-1].T, STATE, WIDTH), pad(first[:, -1], WIDTH)),
        *(pad(second[:, :-1].T, WIDTH, WIDTH), pad(second[:, -1], WIDTH)),
        *(pad(last[:, :-1].T, WIDTH, STATE), pad(last[:, -1], STATE)),
    ]
    start = z[:, : spec.l_dim]
    ours = [x[None] for x in (*layers, start)]
    return pad(start, batch, STATE), pad(offset, batch, WIDTH), weights, ours


def measure(batch: int, interpret: bool):
    """A row for our kernel, and one for each tile size, number of warps and precision in Pallas."""
    start, offset, weights, plain = make_inputs(batch)
    step_grid = fused.StepGrid(0.0, 1.0 / GRID.steps, GRID.steps, GRID.order)

    def ours(x):
        return fused.runge_kutta_p.bind(*x, step_grid=step_grid)[0][:, :, -1]

    with jax.default_matmul_precision("highest"):
        true = ours(plain)[0]
    common = {"benchmark": "pallas-forward", "model": "ndp", "batch": batch}
    if not interpret:
        taken, _ = time_call(lambda x: [*x[:5], x[5] + 1e-6 * ours(x)], plain)
        yield {**common, "solver": "fused", "seconds": taken}
    for tile, warps, precision in itertools.product((16, 32), (4, 8), ("highest", "default")):
        if tile > batch:
            continue
        call = functools.partial(integrate, tile=tile, warps=warps, precision=precision, interpret=interpret)
        found = jax.jit(call)(start, offset, weights)
        error = float(jnp.abs(found[:, : true.shape[1]] - true).max())
        how = {"solver": "pallas", "tile": tile, "warps": warps, "precision": precision, "error": error}
        if interpret:
            yield {**common, **how}
            continue
        taken, _ = time_call(lambda x, call=call: x + 1e-6 * call(x, offset, weights), start)
        yield {**common, **how, "seconds": taken}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--interpret", action="store_true")
    arguments = parser.parse_args()
    found = []
    for batch in arguments.batches:
        for row in measure(batch, arguments.interpret):
            found.append(row)
            print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    if arguments.out:
        write_json(arguments.out, {"rows": found})


if __name__ == "__main__":
    main()
