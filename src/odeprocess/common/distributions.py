"""Elementwise distributions: normal and Bernoulli, and a base for continuous ones of one's own.

The same `Normal` serves as the belief over latents (`kl` between two of them is analytic) and as the likelihood of
observations. Parameters have the shape of the variable; reductions are left to the caller, who knows the mask.
"""

import math
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import ndtr
from jaxtyping import Array, Float


class AbstractDistribution(eqx.Module):
    """An elementwise distribution. To write one, give it these methods and return it from a likelihood."""

    @property
    @abstractmethod
    def mean(self) -> Float[Array, "..."]:
        """The mean, elementwise."""

    @property
    @abstractmethod
    def std(self) -> Float[Array, "..."]:
        """The standard deviation, elementwise."""

    @abstractmethod
    def log_prob(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log density (or mass) of `y`, elementwise."""

    @abstractmethod
    def sample(self, key: Any) -> Float[Array, "..."]:
        """One independent draw for each element."""

    @abstractmethod
    def mixture_quantile(self, q: Float[Array, ""]) -> Float[Array, "..."]:
        """The `q`-quantile of the equal mixture over the leading axis."""

    def rescale(self, centre: Any, factor: Any) -> "AbstractDistribution | None":
        """The distribution with distances from `centre` and spread multiplied by `factor`; `None` where that has no meaning.

        Calibration needs it.
        """
        return None


class Normal(AbstractDistribution):
    """Normal with mean `loc` and standard deviation `scale`."""

    loc: Float[Array, "..."]
    scale: Float[Array, "..."]

    @property
    def mean(self):
        return self.loc

    @property
    def std(self):
        return self.scale

    def log_prob(self, y):
        return -0.5 * ((y - self.loc) / self.scale) ** 2 - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def sample(self, key):
        return self.reparametrise(jr.normal(key, self.loc.shape, self.loc.dtype))

    def rescale(self, centre, factor):
        return Normal(centre + factor * (self.loc - centre), factor * self.scale)

    def reparametrise(self, noise: Float[Array, "..."]) -> Float[Array, "..."]:
        """The draw that standard normal `noise` stands for."""
        return self.loc + self.scale * noise

    def kl(self, other: "Normal") -> Float[Array, "..."]:
        """KL(self ‖ other), elementwise."""
        ratio = (self.scale / other.scale) ** 2
        return 0.5 * (ratio + ((self.loc - other.loc) / other.scale) ** 2 - 1.0 - jnp.log(ratio))

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The probability of a value up to `y`, elementwise."""
        return ndtr((y - self.loc) / self.scale)

    def mixture_quantile(self, q):
        ends = self.loc + self.scale * jax.scipy.stats.norm.ppf(q).astype(self.loc.dtype)
        return _bisect(self, q, ends.min(0), ends.max(0))


class AbstractContinuous(AbstractDistribution):
    """A continuous distribution with a finite variance. To write one, give it `mean`, `std`, `log_prob`, `sample` and `cdf`.

    Quantiles of mixtures follow from these, and so does the rescaled distribution that calibration needs.
    """

    @abstractmethod
    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """The probability of a value up to `y`, elementwise."""

    def mixture_quantile(self, q):
        # Cantelli's inequality: a quantile lies no further from the mean than this, whatever the distribution.
        mean, std, q = self.mean, self.std, jnp.asarray(q, self.mean.dtype)
        low = mean - std * jnp.sqrt((1.0 - q) / q)
        high = mean + std * jnp.sqrt(q / (1.0 - q))
        return _bisect(self, q, low.min(0), high.max(0))

    def rescale(self, centre, factor):
        shape = self.mean.shape
        return Rescaled(self, jnp.broadcast_to(centre, shape), jnp.broadcast_to(factor, shape))


class Rescaled(AbstractContinuous):
    """The distribution of c + f·(Y − c), where Y has the distribution `inner`, c is `centre` and f is `factor`."""

    inner: AbstractContinuous
    centre: Float[Array, "..."]
    factor: Float[Array, "..."]

    @property
    def mean(self):
        return self._out(self.inner.mean)

    @property
    def std(self):
        return self.factor * self.inner.std

    def log_prob(self, y):
        return self.inner.log_prob(self._in(y)) - jnp.log(self.factor)

    def sample(self, key):
        return self._out(self.inner.sample(key))

    def cdf(self, y):
        return self.inner.cdf(self._in(y))

    def _out(self, y):
        return self.centre + self.factor * (y - self.centre)

    def _in(self, y):
        return self.centre + (y - self.centre) / self.factor


class Bernoulli(AbstractDistribution):
    """Bernoulli with the given logits. Soft targets in [0, 1] are scored by cross-entropy."""

    logits: Float[Array, "..."]

    @property
    def mean(self):
        return jax.nn.sigmoid(self.logits)

    @property
    def std(self):
        p = self.mean
        return jnp.sqrt(p * (1.0 - p))

    def log_prob(self, y):
        return y * jax.nn.log_sigmoid(self.logits) + (1.0 - y) * jax.nn.log_sigmoid(-self.logits)

    def sample(self, key):
        return self._unless_unknown(jr.bernoulli(key, self.mean).astype(self.logits.dtype), self.logits)

    def mixture_quantile(self, q):
        mean = self.mean.mean(0)
        return self._unless_unknown((mean > 1.0 - q).astype(self.logits.dtype), mean)

    @staticmethod
    def _unless_unknown(value, parameter):
        """NaN in, NaN out, as for numbers: comparisons would make it 0."""
        return jnp.where(jnp.isnan(parameter), jnp.nan, value)


def _bisect(components: Any, q: Float[Array, ""], low: Float[Array, "..."], high: Float[Array, "..."]) -> Float[Array, "..."]:
    """The `q`-quantile of the equal mixture over the leading axis of `components`; it lies between `low` and `high`.

    The mixture's distribution function is monotone and its quantile lies between the smallest and largest of the
    components', so bisection always ends well; 26 halvings reach the resolution of float32, 55 that of float64.
    """

    def halve(_, bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        below = components.cdf(middle[None]).mean(0) < q
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    steps = 26 if low.dtype == jnp.float32 else 55
    low, high = jax.lax.stop_gradient(jax.lax.fori_loop(0, steps, halve, (low, high)))
    found = 0.5 * (low + high)
    # Zero in value; its gradient is the implicit one, dx = −dF(x) / f(x).
    below = components.cdf(found[None]).mean(0)
    density = jax.lax.stop_gradient(jnp.exp(components.log_prob(found[None])).mean(0))
    density = jnp.where(density > 0, density, jnp.inf)  # it underflows where draws lie very far apart
    return found - (below - jax.lax.stop_gradient(below)) / density
