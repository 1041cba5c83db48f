"""The two elementwise distributions of the model: normal and Bernoulli.

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

    def mixture_quantile(self, q):
        # The mixture's distribution function is monotone and its quantile lies between the smallest and largest of
        # the components', so bisection always ends well; 26 halvings reach the resolution of float32.
        at = jax.scipy.stats.norm.ppf(q).astype(self.loc.dtype)
        ends = self.loc + self.scale * at
        low, high = ends.min(0), ends.max(0)

        def halve(_, bounds):
            low, high = bounds
            middle = 0.5 * (low + high)
            below = ndtr((middle[None] - self.loc) / self.scale).mean(0) < q
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        steps = 26 if self.loc.dtype == jnp.float32 else 55
        low, high = jax.lax.stop_gradient(jax.lax.fori_loop(0, steps, halve, (low, high)))
        found = 0.5 * (low + high)
        # Zero in value; its gradient is the implicit one, dx = −dF(x) / f(x).
        below = ndtr((found[None] - self.loc) / self.scale).mean(0)
        density = jax.lax.stop_gradient(jnp.exp(self.log_prob(found[None])).mean(0))
        density = jnp.where(density > 0, density, jnp.inf)  # it underflows where draws lie very far apart
        return found - (below - jax.lax.stop_gradient(below)) / density


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
