"""The way along the steps written in Pallas, beside our CUDA kernel, on a GPU: is hand-written CUDA worth it?

Forward only, and the end of the horizon only, where ours also writes every state and slope for the way back. Pallas' products
are of powers of two: a state of 10 is padded to 16, a width of 50 to 64. `--interpret` runs it without a GPU, for its values.
"""

import argparse
import functools
import itertools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.experimental import pallas as pl
from kernel import field, seconds

import odeprocess as odp
from odeprocess.process.kernels import fused
from odeprocess.process.runge_kutta import TABLEAUS

STATE, WIDTH = 16, 64
GRID = odp.Grid()


def body(start, offset, first, timed, second, bias, last, last_bias, end, *, precision):
    """The steps of a tile of trajectories: all references are to blocks of arrays."""
    tableau, step = TABLEAUS[GRID.order], 1.0 / GRID.steps
    dot = functools.partial(jnp.dot, precision=precision, preferred_element_type=jnp.float32)

    def velocity(t, l):
        h = jnp.tanh(dot(l, first[...]) + offset[...] + t * timed[...][None])
        h = jnp.tanh(dot(h, second[...]) + bias[...][None])
        return dot(h, last[...]) + last_bias[...][None]

    def moved(l, weights, slopes):
        for weight, slope in zip(weights, slopes, strict=True):
            l = l + (step * weight) * slope
        return l

    def advance(s, l):
        slopes = []
        for node, row in zip(tableau.nodes, tableau.rows, strict=True):
            slopes.append(velocity((s.astype(jnp.float32) + node) * step, moved(l, row, slopes)))
        return moved(l, tableau.weights, slopes)

    end[...] = jax.lax.fori_loop(0, GRID.steps, advance, start[...])


def march(start, offset, weights, tile: int, warps: int, precision: str, interpret: bool):
    """The states at the end, `[batch, STATE]`."""
    options = {}
    if not interpret:
        from jax.experimental.pallas import triton

        options["compiler_params"] = triton.CompilerParams(num_warps=warps, num_stages=1)
    own = [pl.BlockSpec((tile, size), lambda i: (i, 0)) for size in (STATE, WIDTH)]
    whole = [pl.BlockSpec(x.shape, lambda i, n=x.ndim: (0,) * n) for x in weights]
    call = functools.partial(body, precision=precision)
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


def inputs(batch: int):
    """The same trajectories for both: padded arrays for Pallas, and what our operation takes."""
    spec, made = field("ndp")
    z = jr.normal(jr.key(1), (batch, spec.z_dim))
    layers: Any = jax.vmap(lambda d: tuple(made.layers(made.prepare(d)) or ()), out_axes=(None, None, None, 0, 0))(
        z[:, spec.l_dim :]
    )
    first, second, last, offset, _ = layers

    def padded(x, *shape):
        return jnp.pad(x, [(0, to - size) for to, size in zip(shape, x.shape, strict=True)])

    weights = [
        *(padded(first[:, :-1].T, STATE, WIDTH), padded(first[:, -1], WIDTH)),
        *(padded(second[:, :-1].T, WIDTH, WIDTH), padded(second[:, -1], WIDTH)),
        *(padded(last[:, :-1].T, WIDTH, STATE), padded(last[:, -1], STATE)),
    ]
    start = z[:, : spec.l_dim]
    ours = [x[None] for x in (*layers, start)]
    return padded(start, batch, STATE), padded(offset, batch, WIDTH), weights, ours


def rows(batch: int, interpret: bool):
    """A row for our kernel, and one for each way to cut up the work in Pallas."""
    start, offset, weights, plain = inputs(batch)
    step_grid = fused.StepGrid(0.0, 1.0 / GRID.steps, GRID.steps, GRID.order)

    def ours(x):
        return fused.runge_kutta_p.bind(*x, step_grid=step_grid)[0][:, :, -1]

    with jax.default_matmul_precision("highest"):
        true = ours(plain)[0]
    common = {"benchmark": "pallas-forward", "model": "ndp", "batch": batch}
    if not interpret:
        taken, _ = seconds(lambda x: [*x[:5], x[5] + 1e-6 * ours(x)], plain)
        yield {**common, "solver": "fused", "seconds": taken}
    for tile, warps, precision in itertools.product((16, 32), (4, 8), ("highest", "default")):
        if tile > batch:
            continue
        call = functools.partial(march, tile=tile, warps=warps, precision=precision, interpret=interpret)
        found = jax.jit(call)(start, offset, weights)
        error = float(jnp.abs(found[:, : true.shape[1]] - true).max())
        how = {"solver": "pallas", "tile": tile, "warps": warps, "precision": precision, "error": error}
        if interpret:
            yield {**common, **how}
            continue
        taken, _ = seconds(lambda x, call=call: x + 1e-6 * call(x, offset, weights), start)
        yield {**common, **how, "seconds": taken}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="where the rows go, as JSON")
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--interpret", action="store_true")
    arguments = parser.parse_args()
    found = []
    for batch in arguments.batches:
        for row in rows(batch, arguments.interpret):
            found.append(row)
            print({k: f"{v:.3g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps({"rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
