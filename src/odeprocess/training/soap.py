"""SOAP: Adam in the eigenbasis of each weight matrix's gradients (Vyas et al., 2024).

Fitting curves to four digits is ill-conditioned, and plain Adam crawls. Written by hand because Optax has no such
optimiser; `update_eigenbases` is apart from `update` so that its cost, a QR decomposition for each side of each matrix, is paid
once an epoch.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from odeprocess.common.linear_algebra import orthonormal

MEMORY, SCALE_MEMORY, BASIS_MEMORY, EPSILON = 0.95, 0.99, 0.95, 1e-12
LARGEST = 128  # a side longer than this keeps its own axes


class Sides(NamedTuple):
    """The second moments of a matrix's gradient along its rows and columns, and the eigenbases."""

    left: Float[Array, "m m"]
    right: Float[Array, "n n"]
    left_basis: Float[Array, "m m"]
    right_basis: Float[Array, "n n"]


class SoapState(NamedTuple):
    """Momentum, squares in the eigenbasis, and the bases (for matrices)."""

    steps: Array
    momentum: Any
    squares: Any
    sides: list[Sides | None]


def soap(rate: optax.Schedule) -> optax.GradientTransformation:
    """The optimiser; see `update_eigenbases`."""

    def init(params: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return SoapState(jnp.zeros((), jnp.int32), zeros, zeros, [_sides(x) for x in jax.tree.leaves(params)])

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        count = state.steps + 1
        g, tree = jax.tree.flatten(updates)
        momentum = [MEMORY * m + (1 - MEMORY) * x for m, x in zip(jax.tree.leaves(state.momentum), g, strict=True)]
        sides = [s and _followed(s, x) for s, x in zip(state.sides, g, strict=True)]
        squares = [
            SCALE_MEMORY * v + (1 - SCALE_MEMORY) * _into(s, x) ** 2
            for v, s, x in zip(jax.tree.leaves(state.squares), sides, g, strict=True)
        ]
        bias, scale_bias = (1 - decay ** count.astype(jnp.float32) for decay in (MEMORY, SCALE_MEMORY))
        step = -jnp.asarray(rate(count))
        moves = [
            step * _back(s, _into(s, m) / bias / (jnp.sqrt(v / scale_bias) + EPSILON))
            for s, m, v in zip(sides, momentum, squares, strict=True)
        ]
        state = SoapState(count, jax.tree.unflatten(tree, momentum), jax.tree.unflatten(tree, squares), sides)
        return jax.tree.unflatten(tree, moves), state

    return optax.GradientTransformation(init, update)


def update_eigenbases(state: SoapState) -> SoapState:
    """The state with its bases brought closer to the eigenvectors by one step of orthogonal iteration."""

    def one(s: Sides | None) -> Sides | None:
        return s and s._replace(left_basis=_turn(s.left, s.left_basis), right_basis=_turn(s.right, s.right_basis))

    return state._replace(sides=[one(s) for s in state.sides])


def _turn(moment, basis):
    scale = jnp.maximum(jnp.trace(moment), 1e-30)
    return orthonormal(moment / scale @ basis)


def _sides(x) -> Sides | None:
    if x.ndim != 2 or max(x.shape) > LARGEST:
        return None
    m, n = (jnp.eye(size, dtype=x.dtype) for size in x.shape)
    return Sides(1e-30 * m, 1e-30 * n, m, n)


def _followed(s: Sides, x) -> Sides:
    left, right = (BASIS_MEMORY * a + (1 - BASIS_MEMORY) * b for a, b in ((s.left, x @ x.T), (s.right, x.T @ x)))
    return s._replace(left=left, right=right)


def _into(s: Sides | None, x):
    return x if s is None else s.left_basis.T @ x @ s.right_basis


def _back(s: Sides | None, x):
    return x if s is None else s.left_basis @ x @ s.right_basis.T
