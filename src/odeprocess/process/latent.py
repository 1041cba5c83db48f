"""From a summary of the context to a belief over the latents z = (l(t0), d)."""

import math
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from odeprocess.common.distributions import Normal
from odeprocess.common.linear_algebra import solve_triangular
from odeprocess.data.series import Series
from odeprocess.data.tasks import Task

from .aggregation import AGGREGATIONS
from .encoder import AbstractEncoder, Summary, summarise
from .networks import Linear

SERIES_A_PART, MOST_PARTS = 25, 16  # of a mixture
MEMBERS = 32  # of each part
START = -2.0  # what the sigmoid of σ begins at


class AbstractHead(eqx.Module):
    """To write a head, say what a vector makes one believe of the latents."""

    @abstractmethod
    def __call__(self, x: Float[Array, " in_dim"]) -> Normal:
        """The belief."""


class Head(AbstractHead):
    """A ReLU layer, then a linear map to means and to σ = floor + (1 − floor)·sigmoid(·), or ·softplus(·) if `free`.

    σ begins at about 0.2, not 0.55: from so much noise the first epochs learn little.
    """

    hidden: Linear
    out: Linear
    floor: float = eqx.field(static=True)
    free: bool = eqx.field(static=True)

    def __init__(self, in_dim: int, out_dim: int, width: int, floor: float, *, free: bool = False, key: Any):
        hidden_key, out_key = jr.split(key)
        self.hidden = Linear(in_dim, width, key=hidden_key)
        self.out = Linear(width, 2 * out_dim, key=out_key)
        self.floor, self.free = floor, free

    def __call__(self, x: Float[Array, " in_dim"]) -> Normal:
        loc, raw = jnp.split(self.out(jax.nn.relu(self.hidden(x))), 2)
        scale = (jax.nn.softplus if self.free else jax.nn.sigmoid)(raw + START)
        return Normal(loc, self.floor + (1.0 - self.floor) * scale)


class Prior(eqx.Module):
    """What is believed of the latents before any observation: normal, its mean linear in the static covariates.

    With it the process is a generative model of whole series, and a posterior can be worked out beyond the encoder's
    guess.
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
    """What is believed of the latents, in more detail: one of several normal distributions, each with a probability.

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
        """How many distributions so many series can tell apart, with the one of them all."""
        return 1 if count < 2 * SERIES_A_PART else 1 + min(MOST_PARTS, count // SERIES_A_PART)


class Inference(eqx.Module):
    """The amortised belief q(l(t0), d | context).

    With `first` absent, one head gives both latents from the aggregate. With it, l(t0) comes from the first
    observation alone and the head gives d. Static covariates join the aggregate (and the first observation). If `counted`,
    so does log(1 + number of observations).
    """

    encoder: AbstractEncoder
    head: AbstractHead
    first: AbstractHead | None
    counted: bool = eqx.field(static=True, default=False)

    def summarise(self, series: Series) -> Summary:
        """The summary of one series' observations."""
        return summarise(self.encoder, self.encoder.features(series), series, series.mask)

    def belief(self, summary: Summary, static: Float[Array, " k"]) -> Normal:
        """The belief over z that a summary stands for."""
        parts = [AGGREGATIONS[self.encoder.aggregation].read(summary.total, summary.count), static]
        if self.counted:
            parts.append(jnp.log1p(summary.count)[None])
        q = self.head(jnp.concatenate(parts))
        if self.first is None:
            return q
        first_y = summary.first_y / jnp.maximum(summary.first_count, 1.0)
        seen = (summary.first_count > 0).astype(static.dtype)
        q_l = self.first(jnp.concatenate([first_y, seen, static]))
        return Normal(jnp.concatenate([q_l.loc, q.loc]), jnp.concatenate([q_l.scale, q.scale]))

    def beliefs(self, task: Task) -> tuple[Normal, Normal]:
        """The beliefs given the context and given the target, points being encoded once where that is the same."""
        points, static = task.points, task.points.static
        features = None if self.encoder.missing else self.encoder.features(points)

        def belief(mask):
            if features is None:
                return self.belief(self.summarise(task.masked(mask)), static)
            return self.belief(summarise(self.encoder, features, points, mask), static)

        # Both at once: half as many operations, twice as large.
        both = jax.vmap(belief)(jnp.stack([task.context, task.target]))
        (context, target), (narrow, wide) = jnp.unstack(both.loc), jnp.unstack(both.scale)
        return Normal(context, narrow), Normal(target, wide)
