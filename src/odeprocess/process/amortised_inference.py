"""From a summary of the context to a belief over the latents z = (l(t0), d)."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from odeprocess.common.distributions import Normal
from odeprocess.data.series import Series
from odeprocess.data.tasks import Task

from .aggregation import AGGREGATIONS
from .encoder import AbstractEncoder, Summary, summarise
from .networks import Linear

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
