"""Linear algebra of many small matrices at once, written by hand.

LAPACK's takes one small matrix after the other, and the GPU's far longer still; these run over all draws together. And they
cannot wait for each other: jaxlib shares a batch for LAPACK out among the threads of its pool, and one of these waits for
the others. When as many batches as there are threads come at the same time, all wait for ever. So nothing that is compiled
here calls LAPACK with a batch (`tests/common/test_linear_algebra.py` looks).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def orthonormalise(a: Float[Array, "m z"]) -> tuple[Float[Array, "m z"], Float[Array, "z z"]]:
    """The QR decomposition of a tall matrix.

    Gram–Schmidt in its modified form solves least squares as stably as reflections do, as long as the right-hand side goes
    through the same steps as a further column would: that is `project`.
    """

    def column(k, carry):
        rest, q, r = carry
        one = rest[:, k]
        unit = one / jnp.maximum(jnp.sqrt((one**2).sum()), jnp.finfo(one.dtype).tiny)
        along = jnp.where(jnp.arange(a.shape[1]) >= k, unit @ rest, 0.0)
        return rest - unit[:, None] * along[None], q.at[:, k].set(unit), r.at[k].set(along)

    _, q, r = jax.lax.fori_loop(0, a.shape[1], column, (a, jnp.zeros_like(a), jnp.zeros_like(a[: a.shape[1]])))
    return q, r


def project(q: Float[Array, "m z"], value: Float[Array, " m"]) -> Float[Array, " z"]:
    """Qᵀ·value, column by column as in `orthonormalise`."""

    def column(rest, unit):
        along = unit @ rest
        return rest - along * unit, along

    return jax.lax.scan(column, value, q.T)[1]


def cholesky(a: Float[Array, "z z"]) -> Float[Array, "z z"]:
    """The lower triangular root L of LLᵀ; NaN where there is none."""

    def column(k, carry):
        rest, root = carry
        one = jnp.where(jnp.arange(a.shape[0]) >= k, rest[:, k], 0.0) / jnp.sqrt(rest[k, k])
        return rest - one[:, None] * one[None], root.at[:, k].set(one)

    return jax.lax.fori_loop(0, a.shape[0], column, (a, jnp.zeros_like(a)))[1]


def solve_triangular(a: Float[Array, "z z"], b: Float[Array, "z ..."], *, lower: bool = False) -> Float[Array, "z ..."]:
    """X with a·x = b, for a triangular matrix; its other half is not looked at."""
    a, size = jnp.tril(a) if lower else jnp.triu(a), a.shape[0]
    place = jnp.arange(size).reshape((size,) + (1,) * (b.ndim - 1))

    def unknown(rest, k):
        x = rest[k] / a[k, k]
        return jnp.where(place == k, x[None], rest - a[:, k].reshape(place.shape) * x[None]), None

    return jax.lax.scan(unknown, b, jnp.arange(size), reverse=not lower)[0]


def solve_positive(a: Float[Array, "z z"], b: Float[Array, "z ..."]) -> Float[Array, "z ..."]:
    """X with a·x = b, for a positive definite matrix."""
    root = cholesky(a)
    return solve_triangular(root.T, solve_triangular(root, b, lower=True))


@jax.custom_batching.sequential_vmap
def _one_after_the_other(a):
    return jnp.linalg.qr(a)[0]


def orthonormal(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """An orthonormal basis of the columns of a larger matrix: LAPACK's, one matrix after the other, or the GPU's."""
    return jax.lax.platform_dependent(a, cpu=_one_after_the_other, default=lambda a: jnp.linalg.qr(a)[0])
