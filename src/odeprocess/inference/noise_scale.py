"""What is known of the noise of single series."""

from typing import Any, NamedTuple

import jax.numpy as jnp


class NoiseScale(NamedTuple):
    """How well a process fits series it has not seen, as the noise in units of σ: squared, it is `scale`·ν/χ²(ν) for a series.

    With it a series that cannot be fitted as well as others (it may be unlike any in training) is trusted less, and its
    future is less certain.

    Attributes:
        freedom: ν; small where series differ much.
        scale: the typical square.
    """

    freedom: Any
    scale: Any

    def draws(self, cost: Any, count: Any, normal: Any) -> Any:
        """Factors of the noise of a series with `count` values and a sum of squares `cost`, one for each standard `normal`.

        How far its latents are from all others counts among the squares: that too is a sign of a strange series.
        """
        freedom = self.freedom + count
        cube = 1.0 - 2.0 / (9.0 * freedom) + normal * jnp.sqrt(2.0 / (9.0 * freedom))  # Wilson and Hilferty's χ²
        return jnp.sqrt((self.freedom * self.scale + cost) / (freedom * jnp.maximum(cube, 0.3) ** 3))

    def log_likelihood(self, cost: Any, count: Any) -> Any:
        """Of a sum of squares of `count` values, whatever the noise of the series is; up to a constant."""
        return -0.5 * (self.freedom + count) * jnp.log(self.freedom * self.scale + cost)
