"""The march's own rule for derivatives against plain automatic differentiation of the same steps."""

import jax
import jax.numpy as jnp
import numpy as np

from odeprocess.process.runge_kutta import TABLEAUS, runge_kutta_steps

STEP, COUNT = 0.2, 3
TABLEAU = TABLEAUS[3]


def velocity(weights, t, l):
    return jnp.tanh(weights["a"] @ l + weights["b"] * t)


def plain(weights, l0):
    """The last state, stage by stage."""
    l = l0
    for n in range(COUNT):
        slopes = []
        for node, row in zip(TABLEAU.nodes, TABLEAU.rows, strict=True):
            moved = sum((w * k for w, k in zip(row, slopes, strict=True)), jnp.zeros_like(l))
            slopes.append(velocity(weights, 0.1 + STEP * (n + node), l + STEP * moved))
        l = l + STEP * sum(w * k for w, k in zip(TABLEAU.weights, slopes, strict=True))
    return (l**3).sum() + (velocity(weights, 0.1 + STEP * COUNT, l) ** 2).sum()


def marched(weights, l0):
    states, slopes, last = runge_kutta_steps(lambda t, l: velocity(weights, t, l), TABLEAU, 0.1, STEP, COUNT, l0, 1)
    assert slopes.shape == (COUNT, len(TABLEAU.nodes), *l0.shape)
    return (states[-1] ** 3).sum() + (last**2).sum()


def test_values_and_derivatives_of_every_kind_are_those_of_plain_steps():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        weights = {"a": jnp.asarray(rng.standard_normal((2, 2))), "b": jnp.asarray(rng.standard_normal(2))}
        l0 = jnp.asarray(rng.standard_normal(2))

        def everything(f):
            along = jax.tree.map(jnp.ones_like, (weights, l0))
            gradients = jax.grad(f, (0, 1))(weights, l0)
            forward = jax.jvp(f, (weights, l0), along)
            twice = jax.jvp(jax.grad(f, (0, 1)), (weights, l0), along)
            alone = jax.grad(f, 1)(weights, l0), jax.grad(f)(weights, l0)
            batch = jax.vmap(jax.grad(f), (None, 0))(weights, jnp.stack([l0, 2 * l0]))
            return gradients, forward, twice, alone, batch

        for a, b in zip(*(jax.tree.leaves(jax.jit(everything, static_argnums=0)(f)) for f in (marched, plain)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
