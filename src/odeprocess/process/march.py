"""Equal Runge–Kutta steps, with the gradient of the field's weights taken out of the loop.

Plain automatic differentiation adds to that gradient in every stage of every step: dozens of small products in a row. Here
the loop back through time carries the states alone; what the weights changed in each stage is worked out for all stages at
once, in a few large products. It is a rule for tangents, so every kind of derivative works, of any order.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from .stepping import combine
from .tableaus import Tableau


def march(
    velocity: Callable[..., Any], tableau: Tableau, t0: float, step: float, count: int, l0: Float[Array, " l"], unroll: int
) -> tuple[Float[Array, "states l"], Float[Array, "steps stages l"], Float[Array, " l"]]:
    """Takes `count` steps from `(t0, l0)`, `unroll` of them in one round of the loop.

    Returns:
        The states at the ends of the steps, `count` + 1 of them; the slopes in all stages; and the slope at the end.
    """
    # A function of no state of its own: what it closes over may be traced, and then has no hash.
    pure, weights = jax.closure_convert(lambda t, l: velocity(t, l), jnp.asarray(t0, l0.dtype), l0)
    slopes, last = _slopes(pure, tableau, t0, step, count, unroll, l0, tuple(weights))
    return _ends(tableau, step, l0, slopes), slopes, last


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2, 3, 4, 5))
def _slopes(velocity, tableau, t0, step, count, unroll, l0, weights):
    return _loop(velocity, tableau, t0, step, count, unroll, l0, weights, None)


@partial(_slopes.defjvp, symbolic_zeros=True)
def _slopes_jvp(velocity, tableau, t0, step, count, unroll, primals, tangents):
    l0, weights = primals
    stages = len(tableau.nodes)
    nothing = jnp.zeros((count * stages + 1, *l0.shape), l0.dtype)
    loop = partial(_loop, velocity, tableau, t0, step, count, unroll)
    (slopes, last), tangents_of = jax.linearize(lambda l0, added: loop(l0, weights, added), l0, nothing)

    # Time and state of every stage and of the end, and how the tangents of the weights move the slope there.
    rows = jnp.asarray([[*row, *(0.0,) * (stages - len(row))] for row in tableau.rows], l0.dtype)
    ends, starts = _ends(tableau, step, l0, slopes), t0 + step * jnp.arange(count, dtype=l0.dtype)
    states = ends[:-1, None] + step * jnp.einsum("ij,njl->nil", rows, slopes)
    states = jnp.concatenate([states.reshape(-1, *l0.shape), ends[-1:]])
    times = starts[:, None] + step * jnp.asarray(tableau.nodes, l0.dtype)[None]
    times = jnp.concatenate([times.reshape(-1), starts[-1:] + step])
    moving = [i for i, tangent in enumerate(tangents[1]) if not isinstance(tangent, SymbolicZero)]

    def everywhere(some):
        known = list(weights)
        for i, weight in zip(moving, some, strict=True):
            known[i] = weight
        return jax.vmap(lambda t, l: velocity(t, l, *known))(times, states)

    added = nothing
    if moving:
        _, added = jax.jvp(everywhere, ([weights[i] for i in moving],), ([tangents[1][i] for i in moving],))
    l0_tangent = jnp.zeros_like(l0) if isinstance(tangents[0], SymbolicZero) else tangents[0]
    return (slopes, last), tangents_of(l0_tangent, added)


def _loop(velocity, tableau, t0, step, count, unroll, l0, weights, added):
    """The slopes of all stages, and that at the end; each with its row of `added`, if there is one, added."""
    stages = len(tableau.nodes)

    def advance(carry, xs):
        (l, slope), (t, extra) = carry, xs
        slopes = [slope if extra is None else slope + extra[0]]
        for i in range(1, stages):
            found = velocity(t + tableau.nodes[i] * step, l + step * combine(tableau.rows[i], slopes), *weights)
            slopes.append(found if extra is None else found + extra[i])
        end = l + step * combine(tableau.weights, slopes)
        return (end, velocity(t + step, end, *weights)), jnp.stack(slopes)

    times = t0 + step * jnp.arange(count, dtype=l0.dtype)
    extras = None if added is None else added[:-1].reshape(count, stages, *l0.shape)
    start = (l0, velocity(times[0], l0, *weights))
    (_, last), slopes = jax.lax.scan(advance, start, (times, extras), unroll=unroll)
    return slopes, last if added is None else last + added[-1]


def _ends(tableau, step, l0, slopes):
    """The states at the ends of the steps, from the slopes in their stages."""
    moves = step * jnp.einsum("i,nil->nl", jnp.asarray(tableau.weights, l0.dtype), slopes)
    return jnp.concatenate([l0[None], l0[None] + jnp.cumsum(moves, 0)])
