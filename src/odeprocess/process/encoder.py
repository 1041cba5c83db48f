"""From observations to a running summary: the point encoder and the mean aggregator.

The summary is a sum and a count, so adding observations costs O(1) however many came before.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .. import checks
from ..series import Series
from .nets import MLP


class Summary(eqx.Module):
    """What the model remembers of a context.

    `first_t` is the time of the earliest observation (infinity before there is one), `first_y` and `first_count` the
    sums and counts of the values at that time, by channel: ties leave the order of observations without a say.
    """

    total: Float[Array | np.ndarray, "*batch r"]
    count: Float[Array | np.ndarray, "*batch"]
    first_t: Float[Array | np.ndarray, "*batch"]
    first_y: Float[Array | np.ndarray, "*batch channels"]
    first_count: Float[Array | np.ndarray, "*batch channels"]

    @classmethod
    def empty(cls, count: int, r_dim: int, channels: int, dtype: Any) -> "Summary":
        """The summaries of `count` series without observations (NumPy, which compiled functions take in as it is)."""
        first = np.zeros((count, channels), dtype)
        return cls(np.zeros((count, r_dim), dtype), np.zeros(count, dtype), np.full(count, np.inf, dtype), first, first)

    @property
    def mean(self) -> Float[Array | np.ndarray, " r"]:
        """The aggregate r; zeros for an empty context."""
        return self.total / jnp.maximum(self.count, 1.0)

    def merge(self, other: "Summary") -> "Summary":
        """The summary of both sets of observations together."""
        first_t = jnp.minimum(self.first_t, other.first_t)
        mine, theirs = self.first_t == first_t, other.first_t == first_t

        def firsts(a, b):
            return jnp.where(mine, a, 0.0) + jnp.where(theirs, b, 0.0)

        return Summary(
            self.total + other.total,
            self.count + other.count,
            first_t,
            firsts(self.first_y, other.first_y),
            firsts(self.first_count, other.first_count),
        )


class AbstractEncoder(eqx.Module):
    """The code r_i of every observation: a linear map, the last layer of `net`, of features of it.

    Only the sum of codes is ever asked for, and the linear map of a sum is one product. To write an encoder, give it a network,
    this method, and say if it is told what is missing.
    """

    net: eqx.AbstractVar[MLP]
    missing: eqx.AbstractVar[bool]

    @abstractmethod
    def features(self, series: Series) -> Float[Array, "n f"]:
        """The features of every point; masked values must not enter."""


class PointEncoder(AbstractEncoder):
    """r_i = f_e(t_i, y_i), or of (t_i, y_i, mask_i) when built for missing channels."""

    net: MLP
    missing: bool = eqx.field(static=True)

    def __init__(self, channels: int, r_dim: int, width: int, *, missing: bool, key: Any):
        checks.positive("channels", channels, integer=True)
        self.net = MLP(1 + channels * (2 if missing else 1), r_dim, width, 2, "relu", key=key)
        self.missing = missing

    def features(self, series: Series) -> Float[Array, "n f"]:
        y = jnp.where(series.mask, series.y, 0.0)
        parts = [series.t[:, None], y]
        if self.missing:
            parts.append(series.mask.astype(y.dtype))
        return jax.vmap(self.net.features)(jnp.concatenate(parts, -1))


def summarise(
    encoder: AbstractEncoder, features: Float[Array, "n f"], series: Series, mask: Bool[Array, "n channels"]
) -> Summary:
    """Sums the codes of the points of `series` that `mask` keeps."""
    seen, last = mask.any(-1), encoder.net.layers[-1]
    count = seen.sum(dtype=features.dtype)
    first_t = jnp.where(seen, series.t, jnp.inf).min()
    at_first = mask & (series.t == first_t)[:, None]
    return Summary(
        jnp.where(seen[:, None], features, 0.0).sum(0) @ last.weight.T + count * last.bias,
        count,
        first_t,
        jnp.where(at_first, series.y, 0.0).sum(0),
        at_first.sum(0, dtype=features.dtype),
    )
