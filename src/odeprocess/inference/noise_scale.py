"""The noise of a single series: a scaled inverse-χ² distribution of its variance (section 6 of `docs/inference.md`)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

# The least cube root of χ² over its degrees of freedom, so that no draw divides by nearly zero: χ² is at least 2.7 % of its mean.
# Chosen by hand.
LEAST_CUBE_ROOT = 0.3


class NoiseScale(NamedTuple):
    """The distribution of s², the factor of the noise variance of a series: scaled inverse χ²(ν, τ²) (eq. 16).

    A series that the process cannot fit as well as others, for example because it is unlike all series in training, gets more
    noise, and so wider predictions.

    Attributes:
        freedom: the degrees of freedom ν; small where series differ much in how well they are fitted.
        scale: the typical factor τ².
    """

    freedom: Any
    scale: Any

    def sample(self, cost: Any, count: Any, normal: Any) -> Any:
        """A factor s of the noise of a series given its observations (eq. 17), for each standard `normal` number.

        Arguments:
            cost: the sum of squared residuals at a mode, those of the latents included: latents that are far from the prior's
                mean are another sign of an unusual series.
            count: the number of observed values.
            normal: standard normal numbers, which Wilson and Hilferty's approximation turns into χ² ones.
        """
        freedom = self.freedom + count
        cube_root = 1.0 - 2.0 / (9.0 * freedom) + normal * jnp.sqrt(2.0 / (9.0 * freedom))
        return jnp.sqrt((self.freedom * self.scale + cost) / (freedom * jnp.maximum(cube_root, LEAST_CUBE_ROOT) ** 3))

    def log_likelihood(self, cost: Any, count: Any) -> Any:
        """The log likelihood of a sum of `count` squared residuals with s² integrated out (eq. 18), up to a constant."""
        return -0.5 * (self.freedom + count) * jnp.log(self.freedom * self.scale + cost)
