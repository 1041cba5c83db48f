"""All steps of a grid, for a whole batch, as one operation of JAX, which on an NVIDIA GPU is one kernel (`cuda`).

The operations here take G groups of B trajectories, every group with weights of its own: `jax.vmap` over trajectories
makes B larger, and over weights (seeds) G, so that the kernel sees the batch although solvers are written for one
trajectory. Three operations: `runge_kutta_steps` goes along the steps; `pull` takes cotangents back along them, with the
layers recomputed and nothing stored but the returned states and slopes; `push` is forward mode, in plain operations.
Where the kernel does not apply, each of them is the plain function that defines it.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

from odeprocess.process.networks import Layers
from odeprocess.process.runge_kutta import TABLEAUS, combine, stages

from . import cuda

WEIGHTS = 3  # so many inputs belong to a group; the others to a trajectory


@dataclasses.dataclass(frozen=True)
class StepGrid:
    """Which steps to take: all of it static."""

    t0: float
    step: float
    count: int
    order: int


def applies(layers: Layers, l0: Float[Array, " l"]) -> bool:
    """Whether there is a kernel for these arrays here."""
    return all(x.dtype == jnp.float32 for x in (*layers, l0)) and cuda.available(cuda.Network.of(*layers, l0))


def runge_kutta_steps(
    layers: Layers, l0: Float[Array, " l"], t0: float, step: float, count: int, order: int
) -> tuple[Float[Array, "states l"], Float[Array, "steps stages l"], Float[Array, " l"]]:
    """`count` steps from `(t0, l0)`: what the `runge_kutta_steps` of plain operations returns, with these layers as the field."""
    own = [x[None, None] for x in (layers.offset, layers.skip_offset, l0)]
    arguments = [x[None] for x in layers[:WEIGHTS]] + own
    ls, ks = runge_kutta_p.bind(*arguments, step_grid=StepGrid(float(t0), float(step), count, order))
    return ls[0, 0], ks[0, 0, :-1].reshape(count, -1, l0.shape[0]), ks[0, 0, -1]


def velocity(layers: Layers, t: Float[Array, ""], l: Float[Array, " l"]) -> Float[Array, " l"]:
    """What a field's `layers` mean: the slope of a state, of first order, or of second with half as many outputs."""
    width, out = layers.offset.shape[0], layers.last.shape[0]
    x = jnp.concatenate([l, t[None]])
    h = jnp.tanh(layers.first @ x + layers.offset)
    h = jnp.tanh(layers.second[:, :-1] @ h + layers.second[:, -1])
    v = layers.last[:, :width] @ h + layers.last[:, width]
    if layers.skip_offset.shape[0]:
        v = v + layers.last[:, width + 1 :] @ x + layers.skip_offset
    return v if out == l.shape[0] else jnp.concatenate([l[out:], v])


def _runge_kutta_one(first, second, last, offset, skip_offset, l0, *, step_grid):
    """One trajectory: the states `[count + 1, l]`, and every slope that was taken, `[count · stages + 1, l]`."""
    tableau, step = TABLEAUS[step_grid.order], step_grid.step
    field = functools.partial(velocity, Layers(first, second, last, offset, skip_offset))
    times = step_grid.t0 + step * jnp.arange(step_grid.count + 1, dtype=l0.dtype)

    def advance(l, t):
        slopes = stages(tableau, field, t, step, l, field(t, l))
        return l + step * combine(tableau.weights, slopes), (l, jnp.stack(slopes))

    end, (ls, ks) = jax.lax.scan(advance, l0, times[:-1])
    ks = jnp.concatenate([ks.reshape(-1, l0.shape[0]), field(times[-1], end)[None]])
    return jnp.concatenate([ls, end[None]]), ks


def _runge_kutta(*arguments, step_grid):
    one = functools.partial(_runge_kutta_one, step_grid=step_grid)
    return jax.vmap(jax.vmap(one, (None,) * WEIGHTS + (0, 0, 0)))(*arguments)


def _push(*arguments, step_grid):
    """Tangents of the outputs; given the inputs, what `runge_kutta_steps` made of them (which `pull` needs), and tangents."""
    return jax.jvp(functools.partial(_runge_kutta, step_grid=step_grid), arguments[:6], arguments[8:])[1]


def _pull(*arguments, step_grid, weights):
    """Cotangents of the inputs, with those of the weights or without; given inputs, outputs and cotangents."""
    found = jax.vjp(functools.partial(_runge_kutta, step_grid=step_grid), *arguments[:6])[1](arguments[8:])
    return found if weights else found[WEIGHTS:]


def _primitive(name: str, plain: Any, kernel: Any = None) -> Any:
    """An operation that is `plain`, and `kernel` on NVIDIA GPUs; derivatives and batches are up to the caller."""
    primitive = jax.extend.core.Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(lambda *arguments, **how: jax.jit(functools.partial(primitive.bind, **how))(*arguments))
    primitive.def_abstract_eval(
        lambda *shapes, **how: [
            ShapedArray(x.shape, x.dtype)
            for x in jax.eval_shape(functools.partial(plain, **how), *(jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes))
        ]
    )
    mlir.register_lowering(primitive, mlir.lower_fun(plain, multiple_results=True))
    if kernel is not None:
        mlir.register_lowering(primitive, mlir.lower_fun(kernel, multiple_results=True), platform="cuda")
    return primitive


runge_kutta_p = _primitive(
    "runge_kutta", _runge_kutta, lambda *a, **how: cuda.runge_kutta_steps(*a, **how) or _runge_kutta(*a, **how)
)
pull_p = _primitive("pull", _pull, lambda *a, **how: cuda.pull(*a, **how) or _pull(*a, **how))
push_p = _primitive("push", _push)


def _runge_kutta_jvp(inputs, tangents, *, step_grid):
    outputs = runge_kutta_p.bind(*inputs, step_grid=step_grid)
    return outputs, push_p.bind(*inputs, *outputs, *map(ad.instantiate_zeros, tangents), step_grid=step_grid)


def _push_transpose(cotangents, *arguments, step_grid):
    wanted = [ad.is_undefined_primal(x) for x in arguments[8:]]
    weights = any(wanted[:WEIGHTS])
    found = pull_p.bind(*arguments[:8], *map(ad.instantiate_zeros, cotangents), step_grid=step_grid, weights=weights)
    found = [None] * (6 - len(found)) + list(found)
    return [None] * 8 + [x if want else None for x, want in zip(found, wanted, strict=True)]


def _in_batches(primitive, arguments, axes, **how):
    """More trajectories in a group, or more groups: where weights differ, or where each series wants its own cotangents."""
    size = next(x.shape[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None)
    grouped = how.get("weights", False) or any(axis is not None for axis in axes[:WEIGHTS])

    def merged(x, axis, to):
        x = jnp.broadcast_to(x[None], (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        x = jnp.moveaxis(x, 0, to)
        return x.reshape(*x.shape[:to], size * x.shape[to + 1], *x.shape[to + 2 :])

    to = 0 if grouped else 1
    arguments = [x if i < WEIGHTS and not grouped else merged(x, axes[i], to) for i, x in enumerate(arguments)]
    found = primitive.bind(*arguments, **how)
    return [x.reshape(*x.shape[:to], size, x.shape[to] // size, *x.shape[to + 1 :]) for x in found], [to] * len(found)


def _plain_jvp(plain, inputs, tangents, **how):
    return jax.jvp(functools.partial(plain, **how), inputs, tuple(map(ad.instantiate_zeros, tangents)))


def _plain_batches(plain, arguments, axes, **how):
    found = jax.vmap(functools.partial(plain, **how), axes)(*arguments)
    return found, [0] * len(found)


batching.primitive_batchers[runge_kutta_p] = functools.partial(_in_batches, runge_kutta_p)
batching.primitive_batchers[pull_p] = functools.partial(_in_batches, pull_p)
batching.primitive_batchers[push_p] = functools.partial(
    _plain_batches, _push
)  # the states are then computed once for all tangents
ad.primitive_jvps[runge_kutta_p] = _runge_kutta_jvp
ad.primitive_jvps[push_p] = functools.partial(_plain_jvp, _push)  # second derivatives go through plain operations
ad.primitive_jvps[pull_p] = functools.partial(_plain_jvp, _pull)
ad.primitive_transposes[push_p] = _push_transpose
