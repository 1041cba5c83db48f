"""Least squares for many small problems at once: a QR decomposition by hand.

LAPACK's takes one small matrix after the other, and the GPU's far longer still; this one runs over all draws together.
Gram–Schmidt in its modified form solves least squares as stably as reflections do, as long as the right-hand side goes
through the same steps as a further column would: that is `projected`.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def orthonormalised(a: Float[Array, "m z"]) -> tuple[Float[Array, "m z"], Float[Array, "z z"]]:
    """The QR decomposition of a tall matrix."""

    def column(k, carry):
        rest, q, r = carry
        one = rest[:, k]
        unit = one / jnp.maximum(jnp.sqrt((one**2).sum()), jnp.finfo(one.dtype).tiny)
        along = jnp.where(jnp.arange(a.shape[1]) >= k, unit @ rest, 0.0)
        return rest - unit[:, None] * along[None], q.at[:, k].set(unit), r.at[k].set(along)

    _, q, r = jax.lax.fori_loop(0, a.shape[1], column, (a, jnp.zeros_like(a), jnp.zeros_like(a[: a.shape[1]])))
    return q, r


def projected(q: Float[Array, "m z"], value: Float[Array, " m"]) -> Float[Array, " z"]:
    """Qᵀ·value, column by column as in `orthonormalised`."""

    def column(rest, unit):
        along = unit @ rest
        return rest - along * unit, along

    return jax.lax.scan(column, value, q.T)[1]
