"""Amortised inference: from a summary of the context to a normal distribution over the latents z = (l(t0), d)."""

from abc import abstractmethod
from collections.abc import Sequence
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
from .networks import MLP

# Added to what the sigmoid (or softplus) of σ takes, so that σ begins near 0.2: with σ near 0.55, as the formula alone gives, the
# first epochs learn little (docs/notation.md, "Where the paper is silent").
LATENT_START = -2.0


class AbstractHead(eqx.Module):
    """A map from a vector to a normal distribution over latents. To write one, give it this one method."""

    @abstractmethod
    def __call__(self, x: Float[Array, " in_dim"]) -> Normal:
        """The distribution over latents for one series."""


class Head(AbstractHead):
    """A network with `depth` hidden ReLU layers to means and to σ = floor + (1 − floor)·sigmoid(·), or ·softplus(·) if `free`.

    σ begins near sigmoid(`start`).
    """

    net: MLP
    floor: float = eqx.field(static=True)
    free: bool = eqx.field(static=True)
    start: float = eqx.field(static=True)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        width: int,
        floor: float,
        *,
        depth: int = 1,
        free: bool = False,
        start: float = LATENT_START,
        key: Any,
    ):
        self.net = MLP(in_dim, 2 * out_dim, width, depth, "relu", key=key)
        self.floor, self.free, self.start = floor, free, start

    def __call__(self, x: Float[Array, " in_dim"]) -> Normal:
        loc, raw = jnp.split(self.net(x), 2)
        scale = (jax.nn.softplus if self.free else jax.nn.sigmoid)(raw + self.start)
        return Normal(loc, self.floor + (1.0 - self.floor) * scale)


class SeparateHeads(AbstractHead):
    """A `Head` for each group of latents, such as l(t0) and d, with no layer in common: as in the paper's released code."""

    heads: tuple[Head, ...]

    def __init__(self, in_dim: int, out_dims: Sequence[int], width: int, floor: float, *, key: Any, **options: Any):
        keys = jr.split(key, len(out_dims))
        self.heads = tuple(Head(in_dim, n, width, floor, **options, key=k) for n, k in zip(out_dims, keys, strict=True))

    def __call__(self, x: Float[Array, " in_dim"]) -> Normal:
        each = [head(x) for head in self.heads]
        return Normal(jnp.concatenate([q.loc for q in each]), jnp.concatenate([q.scale for q in each]))


class Inference(eqx.Module):
    """The amortised posterior q(l(t0), d | context).

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
        """The amortised posterior over z, given a summary of the observations."""
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
        """The amortised posteriors given the context and given the target; points are encoded once unless channels miss."""
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
