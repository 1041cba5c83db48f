"""Priors over the latents z: a normal distribution whose mean is linear in static covariates, and a mixture of several."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from odeprocess.common.distributions import Normal
from odeprocess.common.linear_algebra import solve_triangular

# Training series for each component of a mixture, and components at most; chosen by hand.
SERIES_A_PART, MOST_PARTS = 25, 16
MEMBERS = 32  # latents that are kept for each component, of the training series that belong to it; chosen by hand


class Prior(eqx.Module):
    """A normal prior over the latents, with a mean that is linear in the static covariates.

    With it the process is a generative model of whole series, so that exact inference applies, not only the encoder's.
    """

    loc: Float[Array, "*parts z"]
    slope: Float[Array, "*parts z k"]
    chol: Float[Array, "*parts z z"]

    @classmethod
    def standard(cls, z_dim: int, static_dim: int) -> "Prior":
        """Mean zero, covariance one."""
        return cls(jnp.zeros(z_dim), jnp.zeros((z_dim, static_dim)), jnp.eye(z_dim))

    def mean(self, static: Float[Array, " k"]) -> Float[Array, " z"]:
        """The mean for a series with these covariates."""
        return self.loc + self.slope @ static

    def colour(self, noise: Float[Array, " z"], static: Float[Array, " k"]) -> Float[Array, " z"]:
        """The draw that standard normal `noise` stands for."""
        return self.mean(static) + self.chol @ noise

    def whiten(self, z: Float[Array, " z"], static: Float[Array, " k"]) -> Float[Array, " z"]:
        """The noise behind a draw: the inverse of `colour`."""
        return solve_triangular(self.chol, z - self.mean(static), lower=True)

    def kl_from(self, q: Normal, static: Float[Array, " k"]) -> Float[Array, ""]:
        """KL(q ‖ prior)."""
        spread = solve_triangular(self.chol, jnp.diag(q.scale), lower=True)
        log_ratio = jnp.log(jnp.diagonal(self.chol)).sum() - jnp.log(q.scale).sum()
        return log_ratio + 0.5 * ((spread**2).sum() + (self.whiten(q.loc, static) ** 2).sum() - q.loc.shape[0])


class Mixture(eqx.Module):
    """A mixture prior over the latents: one of several normal distributions, each with a probability.

    The latents of curves rarely fill one normal distribution: those of a sine's amplitude and phase lie on a bent sheet.

    Attributes:
        log_weights: of the probabilities.
        parts: the distributions, stacked.
        members: whitened latents of series that belong to each part, the first few of which stand for all.
        blur: how far draws stray from members: not at all (0) to as if there were none (1).
    """

    log_weights: Float[Array, " k"]
    parts: Prior
    members: Float[Array, "k m z"] | None = None
    blur: Float[Array, ""] | None = None

    @classmethod
    def of(cls, prior: Prior, count: int = 1) -> "Mixture":
        """As many copies of one distribution."""
        parts = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), prior)
        return cls(jnp.full(count, -math.log(count), prior.loc.dtype), parts)

    def within(self, prior: Prior) -> "Mixture":
        """The mixture that this one is in the coordinates in which `prior` is standard."""
        loc = jax.vmap(prior.chol.__matmul__)(self.parts.loc) + prior.loc[None]
        slope = jax.vmap(prior.chol.__matmul__)(self.parts.slope) + prior.slope[None]
        return Mixture(self.log_weights, Prior(loc, slope, prior.chol[None] @ self.parts.chol), self.members, self.blur)

    def with_members(self) -> "Mixture":
        """The same with room for members, of which draws take no notice until they are known."""
        shape = (len(self), MEMBERS, self.parts.loc.shape[-1])
        return Mixture(self.log_weights, self.parts, jnp.zeros(shape, self.parts.loc.dtype), jnp.ones_like(self.log_weights[0]))

    def whitened(self, part: Int[Array, ""], place: Int[Array, ""], noise: Float[Array, " z"]) -> Float[Array, " z"]:
        """The draw of a part, whitened, that comes at this place among its draws; `noise` is standard normal."""
        if self.members is None or self.blur is None:
            return noise
        return jnp.sqrt(1.0 - self.blur**2) * self.members[part, place % self.members.shape[1]] + self.blur * noise

    def __len__(self) -> int:
        return self.log_weights.shape[0]

    @staticmethod
    def parts_for(count: int) -> int:
        """The number of components for so many series, with the one of all series among them."""
        return 1 if count < 2 * SERIES_A_PART else 1 + min(MOST_PARTS, count // SERIES_A_PART)
