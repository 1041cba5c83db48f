"""Linear algebra of many small matrices at once, written by hand for two reasons.

It is faster: LAPACK takes one small matrix after the other, and the GPU's library is slower still; these functions run over all
draws together. And it avoids a deadlock: jaxlib distributes a batch for LAPACK over the threads of its pool, and the thread that
does so waits for the others. When as many batches as there are threads arrive at the same time, all of them wait forever. So no
compiled function of the library calls LAPACK with a batch (`tests/common/test_linear_algebra.py` checks this).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def orthonormalise(a: Float[Array, "m z"]) -> tuple[Float[Array, "m z"], Float[Array, "z z"]]:
    """The QR decomposition of a tall matrix.

    Modified Gram–Schmidt solves least-squares problems as stably as Householder reflections do if the right-hand side is treated
    as a further column (Björck, 1967), which `project` does.
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
    """Qᵀ·value, computed column by column as in `orthonormalise`."""

    def column(rest, unit):
        along = unit @ rest
        return rest - along * unit, along

    return jax.lax.scan(column, value, q.T)[1]


def cholesky(a: Float[Array, "z z"]) -> Float[Array, "z z"]:
    """The lower triangular L with LLᵀ = a; NaN if `a` is not positive definite."""

    def column(k, carry):
        rest, root = carry
        one = jnp.where(jnp.arange(a.shape[0]) >= k, rest[:, k], 0.0) / jnp.sqrt(rest[k, k])
        return rest - one[:, None] * one[None], root.at[:, k].set(one)

    return jax.lax.fori_loop(0, a.shape[0], column, (a, jnp.zeros_like(a)))[1]


def solve_triangular(a: Float[Array, "z z"], b: Float[Array, "z ..."], *, lower: bool = False) -> Float[Array, "z ..."]:
    """The solution x of a·x = b for a triangular matrix; its other half is ignored."""
    a, size = jnp.tril(a) if lower else jnp.triu(a), a.shape[0]
    place = jnp.arange(size).reshape((size,) + (1,) * (b.ndim - 1))

    def unknown(rest, k):
        x = rest[k] / a[k, k]
        return jnp.where(place == k, x[None], rest - a[:, k].reshape(place.shape) * x[None]), None

    return jax.lax.scan(unknown, b, jnp.arange(size), reverse=not lower)[0]


def solve_positive(a: Float[Array, "z z"], b: Float[Array, "z ..."]) -> Float[Array, "z ..."]:
    """The solution x of a·x = b for a positive definite matrix."""
    root = cholesky(a)
    return solve_triangular(root.T, solve_triangular(root, b, lower=True))


@jax.custom_batching.sequential_vmap
def _orthonormal_in_sequence(a):
    return jnp.linalg.qr(a)[0]


def orthonormal(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """An orthonormal basis of the columns of a larger matrix, by LAPACK (one matrix after the other) or the GPU's library."""
    return jax.lax.platform_dependent(a, cpu=_orthonormal_in_sequence, default=lambda a: jnp.linalg.qr(a)[0])
