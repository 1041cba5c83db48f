"""SOAP: Adam in the eigenbasis of each weight matrix's gradient covariances (Vyas et al., 2024; eq. 28 of `docs/inference.md`).

Fitting curves to four digits is ill-conditioned, and Adam converges slowly. Written by hand because Optax has no SOAP.
`update_eigenbases` is apart from `update`: it needs a QR decomposition for each side of each matrix, and is called once in a few
steps.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from odeprocess.common.linear_algebra import orthonormal

# Decay rates of the running means of gradients, of their squares in the eigenbasis, and of the covariances. The paper uses 0.95
# for all three; 0.99 for the squares was chosen by hand.
MOMENTUM_DECAY, SQUARES_DECAY, COVARIANCE_DECAY = 0.95, 0.99, 0.95
EPSILON = 1e-12  # added to root mean squares; chosen by hand, far below Adam's usual 1e-8, since late gradients are small
LARGEST_SIDE = 128  # rows or columns of a matrix; larger ones are updated as Adam does, since QR would be slow; chosen by hand
TINY = 1e-30  # keeps covariances of zero gradients from dividing by zero


class Sides(NamedTuple):
    """The running covariances of a matrix's gradient along its rows and columns, and the eigenbases."""

    left: Float[Array, "m m"]
    right: Float[Array, "n n"]
    left_basis: Float[Array, "m m"]
    right_basis: Float[Array, "n n"]


class SoapState(NamedTuple):
    """The number of steps, momentum, mean squares in the eigenbasis, and for each matrix its `Sides` (`None` for others)."""

    steps: Array
    momentum: Any
    squares: Any
    sides: list[Sides | None]


def soap(rate: optax.Schedule) -> optax.GradientTransformation:
    """The optimiser; `update_eigenbases` must be called now and then."""

    def init(params: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return SoapState(jnp.zeros((), jnp.int32), zeros, zeros, [_initial_sides(x) for x in jax.tree.leaves(params)])

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        count = state.steps + 1
        gradients, tree = jax.tree.flatten(updates)
        momentum = [
            MOMENTUM_DECAY * m + (1 - MOMENTUM_DECAY) * g for m, g in zip(jax.tree.leaves(state.momentum), gradients, strict=True)
        ]
        sides = [s and _update_covariances(s, g) for s, g in zip(state.sides, gradients, strict=True)]
        squares = [
            SQUARES_DECAY * v + (1 - SQUARES_DECAY) * _rotate(s, g) ** 2
            for v, s, g in zip(jax.tree.leaves(state.squares), sides, gradients, strict=True)
        ]
        bias, squares_bias = (1 - decay ** count.astype(jnp.float32) for decay in (MOMENTUM_DECAY, SQUARES_DECAY))
        step = -jnp.asarray(rate(count))
        moves = [
            step * _rotate_back(s, _rotate(s, m) / bias / (jnp.sqrt(v / squares_bias) + EPSILON))
            for s, m, v in zip(sides, momentum, squares, strict=True)
        ]
        state = SoapState(count, jax.tree.unflatten(tree, momentum), jax.tree.unflatten(tree, squares), sides)
        return jax.tree.unflatten(tree, moves), state

    return optax.GradientTransformation(init, update)


def update_eigenbases(state: SoapState) -> SoapState:
    """The state with its bases moved towards the eigenvectors of the covariances by one step of orthogonal iteration."""

    def update(s: Sides | None) -> Sides | None:
        return s and s._replace(left_basis=_iterate(s.left, s.left_basis), right_basis=_iterate(s.right, s.right_basis))

    return state._replace(sides=[update(s) for s in state.sides])


def _iterate(covariance, basis):
    scale = jnp.maximum(jnp.trace(covariance), TINY)
    return orthonormal(covariance / scale @ basis)


def _initial_sides(x) -> Sides | None:
    if x.ndim != 2 or max(x.shape) > LARGEST_SIDE:
        return None
    m, n = (jnp.eye(size, dtype=x.dtype) for size in x.shape)
    return Sides(TINY * m, TINY * n, m, n)


def _update_covariances(s: Sides, g) -> Sides:
    left, right = (COVARIANCE_DECAY * a + (1 - COVARIANCE_DECAY) * b for a, b in ((s.left, g @ g.T), (s.right, g.T @ g)))
    return s._replace(left=left, right=right)


def _rotate(s: Sides | None, x):
    """A matrix in the eigenbases."""
    return x if s is None else s.left_basis.T @ x @ s.right_basis


def _rotate_back(s: Sides | None, x):
    return x if s is None else s.left_basis @ x @ s.right_basis.T
