"""From observations to a running summary: codes of single observations, and what is summed up of them.

The summary is made of sums and a count, so adding observations costs O(1) however many came before.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from odeprocess.common import checks
from odeprocess.data.series import Series

from .aggregation import AGGREGATIONS
from .networks import MLP


class Summary(eqx.Module):
    """The sums over the observations of a context from which the posterior is computed.

    `first_t` is the time of the earliest observation (infinity before there is one), `first_y` and `first_count` the
    sums and counts of the values at that time, by channel: with ties, the order of observations does not matter.
    """

    total: Float[Array | np.ndarray, "*batch sums"]
    count: Float[Array | np.ndarray, "*batch"]
    first_t: Float[Array | np.ndarray, "*batch"]
    first_y: Float[Array | np.ndarray, "*batch channels"]
    first_count: Float[Array | np.ndarray, "*batch channels"]

    @classmethod
    def empty(cls, count: int, sums: int, channels: int, dtype: Any) -> "Summary":
        """The summaries of `count` series without observations (NumPy, which compiled functions take in as it is)."""
        first = np.zeros((count, channels), dtype)
        return cls(np.zeros((count, sums), dtype), np.zeros(count, dtype), np.full(count, np.inf, dtype), first, first)

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

    To write an encoder, give it a network `net`, this method, the name of its `aggregation` (`spec.aggregation`), and whether
    single channels may be `missing` (`spec.missing`). The last layer of `net` gives `spec.code_dim` numbers.
    """

    net: eqx.AbstractVar[MLP]
    missing: eqx.AbstractVar[bool]
    aggregation: eqx.AbstractVar[str]

    @abstractmethod
    def features(self, series: Series) -> Float[Array, "n f"]:
        """The features of every point; masked values must not enter."""


class PointEncoder(AbstractEncoder):
    """r_i = f_e(t_i, y_i), or of (t_i, y_i, mask_i) when built for missing channels.

    With `waves` (a number), sines and cosines of the time are inputs too: the longest wave has the period `slowest`, each of the
    others half the period of the one before. Without them a ReLU network fits fast changes of time poorly.
    """

    net: MLP
    missing: bool = eqx.field(static=True)
    aggregation: str = eqx.field(static=True)
    waves: int = eqx.field(static=True)
    slowest: float = eqx.field(static=True)

    def __init__(
        self,
        channels: int,
        r_dim: int,
        width: int,
        *,
        missing: bool,
        aggregation: str = "mean",
        depth: int = 2,
        waves: int = 0,
        slowest: float = 1.0,
        key: Any,
    ):
        checks.positive("channels", channels, integer=True)
        inputs, codes = 1 + channels * (2 if missing else 1) + 2 * waves, AGGREGATIONS[aggregation].sizes(r_dim)[0]
        self.net = MLP(inputs, codes, width, depth, "relu", key=key)
        self.missing, self.aggregation, self.waves, self.slowest = missing, aggregation, waves, slowest

    def features(self, series: Series) -> Float[Array, "n f"]:
        y = jnp.where(series.mask, series.y, 0.0)
        parts = [series.t[:, None], y]
        if self.waves:
            angle = (2.0 * jnp.pi / self.slowest) * series.t[:, None] * 2.0 ** jnp.arange(self.waves, dtype=y.dtype)[None]
            parts += [jnp.sin(angle), jnp.cos(angle)]
        if self.missing:
            parts.append(series.mask.astype(y.dtype))
        return jax.vmap(self.net.features)(jnp.concatenate(parts, -1))


def summarise(
    encoder: AbstractEncoder, features: Float[Array, "n f"], series: Series, mask: Bool[Array, "n channels"]
) -> Summary:
    """The summary of the points of `series` that `mask` keeps."""
    seen = mask.any(-1)
    first_t = jnp.where(seen, series.t, jnp.inf).min()
    at_first = mask & (series.t == first_t)[:, None]
    return Summary(
        AGGREGATIONS[encoder.aggregation].sums(features, seen, encoder.net.layers[-1]),
        seen.sum(dtype=features.dtype),
        first_t,
        jnp.where(at_first, series.y, 0.0).sum(0),
        at_first.sum(0, dtype=features.dtype),
    )
