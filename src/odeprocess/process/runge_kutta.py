"""Explicit Runge–Kutta methods: their tableaus, the stages of one step, and many equal steps with a cheap gradient.

Each step gives the values and slopes at both of its ends, hence a cubic between them. That is as accurate as the
steps up to order 4; the method of order 5 adds a quartic term made of its stages.

Plain automatic differentiation adds to the gradient of the field's weights in every stage of every step: dozens of small
products in a row. In `runge_kutta_steps` the loop back through time carries the states alone; what the weights changed in each
stage is computed for all stages at once, in a few large products. It is a rule for tangents, so every kind of derivative works,
of any order.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float


class Tableau(NamedTuple):
    """Nodes, stage rows and weights; `quartic` weighs the stages and the slope at the end (orders above 4)."""

    nodes: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    quartic: tuple[float, ...] | None = None


EULER = Tableau((0.0,), ((),), (1.0,))
MIDPOINT = Tableau((0.0, 1 / 2), ((), (1 / 2,)), (0.0, 1.0))
BOGACKI_SHAMPINE = Tableau((0.0, 1 / 2, 3 / 4), ((), (1 / 2,), (0.0, 3 / 4)), (2 / 9, 1 / 3, 4 / 9))
CLASSICAL = Tableau((0.0, 1 / 2, 1 / 2, 1.0), ((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6))
# Tsitouras (2011): of the same cost as Dormand–Prince, with a third of its error. `quartic` holds the
# coefficients of θ⁴ in his interpolant; the rest of it is the cubic.
TSITOURAS = Tableau(
    nodes=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0),
    rows=(
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
    ),
    weights=(0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774),
    quartic=(
        -1.0530884977290216,
        0.1017,
        2.490627285651253,
        -16.548102889244902,
        47.37952196281928,
        -34.87065786149661,
        2.5,
    ),
)

TABLEAUS: dict[int, Tableau] = {1: EULER, 2: MIDPOINT, 3: BOGACKI_SHAMPINE, 4: CLASSICAL, 5: TSITOURAS}


def combine(weights, slopes) -> Any:
    """The weighted sum of slopes; those of weight zero are left out."""
    return sum(w * k for w, k in zip(weights, slopes, strict=True) if w != 0.0)


def stages(tableau: Tableau, velocity, t, step, l, slope) -> list:
    """The slopes at all stages of the step from `(t, l)`, of which the first is known."""
    slopes = [slope]
    for node, row in zip(tableau.nodes[1:], tableau.rows[1:], strict=True):
        slopes.append(velocity(t + node * step, l + step * combine(row, slopes)))
    return slopes


def runge_kutta_steps(
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
