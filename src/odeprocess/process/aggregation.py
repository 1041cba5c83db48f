"""Aggregations: how the codes of observations become one.

Each keeps sums over observations and computes the aggregate from them: adding an observation costs O(1) however many came
before, and their order does not matter.

| aggregation | sums                      | what is read off                                                        |
|-------------|---------------------------|-------------------------------------------------------------------------|
| `mean`      | r                         | the mean, as in the paper                                               |
| `attention` | w·v and w, w = exp(score) | Σ w·v / Σ w: attention with queries that are learned, one a number of v |
| `precision` | w·v and w, w a precision  | mean and log precision of N(0, 1) once v was measured that precisely    |

Attention whose queries depend on the context would have to look at every observation again after each new one.
"""

from abc import ABC, abstractmethod

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .networks import Linear

Sums = Float[Array | np.ndarray, " sums"]
Count = Float[Array | np.ndarray, ""]
LARGEST_SCORE = 6.0  # either way: weights within a factor of e¹², so that float32 keeps a part of each in their sum


class AbstractAggregation(ABC):
    """An aggregation. To write one, give it what is summed over observations, what is computed from the sums, and the sizes."""

    @abstractmethod
    def sizes(self, r_dim: int) -> tuple[int, int, int]:
        """The sizes of one observation's code, of the sums, and of the aggregate that `read` returns."""

    @abstractmethod
    def sums(self, features: Float[Array, "n f"], seen: Bool[Array, " n"], last: Linear) -> Float[Array, " sums"]:
        """The sums over the observations that are `seen`; their codes are `last` of their features."""

    @abstractmethod
    def read(self, sums: Sums, count: Count) -> Float[Array, " read"]:
        """The aggregate of `count` observations, possibly none, from their sums."""


class Mean(AbstractAggregation):
    """The mean of all codes; zeros where there is none."""

    def sizes(self, r_dim: int) -> tuple[int, int, int]:
        return r_dim, r_dim, r_dim

    def sums(self, features: Float[Array, "n f"], seen: Bool[Array, " n"], last: Linear) -> Float[Array, " sums"]:
        # The linear map of a sum is one product, where the sum of linear maps is n.
        return _total(features, seen) @ last.weight.T + seen.sum(dtype=features.dtype) * last.bias

    def read(self, sums: Sums, count: Count) -> Float[Array, " read"]:
        return jnp.asarray(sums) / jnp.maximum(count, 1.0)


class AbstractWeighted(AbstractAggregation):
    """Sums of weighted values and of weights, each observation having a weight of its own for each value."""

    @abstractmethod
    def weight(self, raw: Float[Array, "n r"]) -> Float[Array, "n r"]:
        """Positive weights from raw numbers of the encoder."""

    def sums(self, features: Float[Array, "n f"], seen: Bool[Array, " n"], last: Linear) -> Float[Array, " sums"]:
        value, raw = jnp.split(jax.vmap(last)(features), 2, -1)
        weight = self.weight(raw)
        return _total(jnp.concatenate([weight * value, weight], -1), seen)


class Attention(AbstractWeighted):
    """The mean of values, weighted by a softmax over the observations of their scores."""

    def sizes(self, r_dim: int) -> tuple[int, int, int]:
        return 2 * r_dim, 2 * r_dim, r_dim

    def weight(self, raw: Float[Array, "n r"]) -> Float[Array, "n r"]:
        return jnp.exp(LARGEST_SCORE * jnp.tanh(raw / LARGEST_SCORE))

    def read(self, sums: Sums, count: Count) -> Float[Array, " read"]:
        value, weight = jnp.split(sums, 2)
        return value / jnp.where(count > 0, weight, 1.0)


class Precision(AbstractWeighted):
    """The posterior of a standard normal variable for each number, given measurements with precisions (Volpp et al., 2021)."""

    def sizes(self, r_dim: int) -> tuple[int, int, int]:
        return 2 * r_dim, 2 * r_dim, 2 * r_dim

    def weight(self, raw: Float[Array, "n r"]) -> Float[Array, "n r"]:
        return jax.nn.softplus(raw)

    def read(self, sums: Sums, count: Count) -> Float[Array, " read"]:
        value, weight = jnp.split(sums, 2)
        return jnp.concatenate([value / (1.0 + weight), jnp.log1p(weight)])


def _total(terms: Float[Array, "n k"], seen: Bool[Array, " n"]) -> Float[Array, " k"]:
    return jnp.where(seen[:, None], terms, 0.0).sum(0)


AGGREGATIONS: dict[str, AbstractAggregation] = {"mean": Mean(), "attention": Attention(), "precision": Precision()}
