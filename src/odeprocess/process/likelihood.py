"""Likelihoods: from the decoder's raw output to a distribution over observations."""

from abc import abstractmethod
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from odeprocess.common.distributions import AbstractDistribution, Bernoulli, Normal

# A shared σ is floor + exp(GAIN·raw + start). An optimiser such as Adam moves all weights about as fast; without the factor a σ
# that has to fall a thousandfold would arrive long after the others. Chosen by hand.
GAIN = 4.0
LEAST_ABOVE = 1e-3  # of the floor: the least distance of σ above it that `with_std_times` sets, so that its logarithm is finite


class AbstractLikelihood(eqx.Module):
    """To write a likelihood, say how many raw numbers it takes and which distribution they stand for.

    Attributes:
        normal: whether that distribution is normal; exact inference needs it.
        scales_values: whether `fit` standardises the observed values. Not where they are probabilities or counts, say.
    """

    normal: ClassVar[bool] = False
    scales_values: ClassVar[bool] = True

    @abstractmethod
    def num_raw(self, channels: int) -> int:
        """How many raw numbers the decoder must give for each time."""

    @abstractmethod
    def __call__(self, raw: Float[Array, "n out"]) -> AbstractDistribution:
        """The distribution of the observations, with parameters of shape `[n, channels]`."""


class GaussianLikelihood(AbstractLikelihood):
    """Normal observations.

    σ is `"decoder"`: a function of the state and time, floor + (1 − floor)·softplus(·), which begins near
    softplus(`start`); `"shared"`: one learned number a channel, floor + exp(·), which begins at exp(`start`); or
    `"fixed"`: the constant `std`.
    """

    normal: ClassVar[bool] = True

    noise: Literal["decoder", "shared", "fixed"] = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    std: float = eqx.field(static=True)
    start: float = eqx.field(static=True)
    raw_std: Float[Array, " channels"] | None

    def __init__(
        self,
        channels: int,
        *,
        noise: Literal["decoder", "shared", "fixed"] = "decoder",
        floor: float = 0.1,
        std: float = 0.1,
        start: float = 0.0,
    ):
        self.noise, self.floor, self.std, self.start = noise, floor, std, start
        self.raw_std = jnp.zeros(channels) if noise == "shared" else None

    def num_raw(self, channels):
        return 2 * channels if self.noise == "decoder" else channels

    def __call__(self, raw):
        if self.noise == "decoder":
            loc, raw_std = jnp.split(raw, 2, -1)
            return Normal(loc, self._positive(raw_std))
        if self.raw_std is not None:
            std = self.floor + jnp.exp(GAIN * self.raw_std + self.start)
            return Normal(raw, jnp.broadcast_to(std[None], raw.shape))
        return Normal(raw, jnp.full_like(raw, self.std))

    def with_std_times(self, factor: Float[Array, " channels"]) -> "GaussianLikelihood":
        """The same with the σ of each channel, where that is one learned number, so many times as large."""
        assert self.raw_std is not None
        std = factor * (self.floor + jnp.exp(GAIN * self.raw_std + self.start))
        above = jnp.maximum(std - self.floor, LEAST_ABOVE * self.floor)
        return eqx.tree_at(lambda own: own.raw_std, self, (jnp.log(above) - self.start) / GAIN)

    def _positive(self, raw):
        return self.floor + (1.0 - self.floor) * jax.nn.softplus(raw + self.start)


class BernoulliLikelihood(AbstractLikelihood):
    """Observations in {0, 1}, or soft targets between."""

    scales_values: ClassVar[bool] = False

    def num_raw(self, channels):
        return channels

    def __call__(self, raw):
        return Bernoulli(raw)
