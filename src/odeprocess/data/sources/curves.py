"""The one-dimensional tasks of the paper: four curve families."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.random as jr

from odeprocess.data.series import Series


@dataclasses.dataclass(frozen=True)
class CurveFamily:
    """Curves y = form(t, a, b) with a uniform on (−1, 1) and b uniform on (−1/2, 1/2).

    Attributes:
        name: of the task.
        form: the curve.
        interval: the times, both ends included.
        t0: where the flow starts in the paper's protocol, just before the first time.
        num_points: evenly spaced points of a series.
    """

    name: str
    form: Callable[[Any, Any, Any], Any]
    interval: tuple[float, float]
    t0: float
    num_points: int = 100

    def sample(self, num_series: int, *, key: Any, noise: float = 0.0) -> Series:
        """A batch of series, with independent normal noise of standard deviation `noise` if asked.

        Examples:
            >>> import jax, odeprocess as odp
            >>> odp.data.sines.sample(3, key=jax.random.key(0)).y.shape
            (3, 100, 1)
        """
        a_key, b_key, noise_key = jr.split(key, 3)
        a = jr.uniform(a_key, (num_series, 1), minval=-1.0, maxval=1.0)
        b = jr.uniform(b_key, (num_series, 1), minval=-0.5, maxval=0.5)
        t = jnp.broadcast_to(jnp.linspace(*self.interval, self.num_points)[None], (num_series, self.num_points))
        y = self.form(t, a, b)
        y = y + noise * jr.normal(noise_key, y.shape)
        return Series(t, y[..., None], jnp.ones((*y.shape, 1), bool), jnp.zeros((num_series, 0)))


sines = CurveFamily("sines", lambda t, a, b: a * jnp.sin(t - b), (-math.pi, math.pi), t0=-3.2)
exponentials = CurveFamily("exponentials", lambda t, a, b: a / 60 * jnp.exp(t - b), (-1.0, 4.0), t0=-1.1)
lines = CurveFamily("lines", lambda t, a, b: a * t + b, (0.0, 5.0), t0=-0.1)
oscillators = CurveFamily("oscillators", lambda t, a, b: a * jnp.sin(t - b) * jnp.exp(-t / 2), (0.0, 5.0), t0=-0.1)

CURVES = {family.name: family for family in (sines, lines, exponentials, oscillators)}
