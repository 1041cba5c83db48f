"""Transforms of values: what is positive stays positive, in every draw and every interval."""

import dataclasses
from typing import Any, Literal

import numpy as np

from odeprocess.common import checks

Name = Literal["identity", "log", "log1p"]
NAMES = ("identity", "log", "log1p")
NEAR_ZERO = 0.02  # positive values below this part of their median make a plain logarithm all about them
COUNTS_FROM = 10  # whole numbers that begin below this are counts, not measurements that were rounded
TALLEST = 300.0  # of an exponent, so that nothing overflows, and nothing becomes zero


@dataclasses.dataclass(frozen=True)
class Transform:
    """Between the user's values y and the model's x: x = y, log(y / unit) or log(1 + y / unit).

    Attributes:
        name: which.
        unit: the value that the logarithm counts from.
    """

    name: Name = "identity"
    unit: float = 1.0

    @property
    def allowed(self) -> str:
        """The values that it can take, in words."""
        return {"identity": "any values", "log": "values above 0", "log1p": "values of at least 0"}[self.name]

    def is_invalid(self, y: np.ndarray) -> np.ndarray:
        """Which values it cannot take; a missing one (NaN) is not among them."""
        return y <= 0 if self.name == "log" else (y < 0) & (self.name == "log1p")

    def forward(self, y: Any) -> Any:
        """The model's values."""
        if self.name == "identity":
            return y
        if self.name == "log":
            return np.log(y) - np.log(self.unit)  # their ratio may be zero or infinite in float64
        with np.errstate(over="ignore"):
            return np.log1p(y / self.unit)

    def inverse(self, x: Any) -> Any:
        """The user's values; never below zero, except for `"identity"`."""
        if self.name == "identity":
            return x
        x = np.clip(x, -TALLEST, TALLEST)
        return self.unit * np.exp(x) if self.name == "log" else np.maximum(self.unit * np.expm1(x), 0.0)

    def log_slope(self, y: Any) -> Any:
        """Log |dx/dy|: what to add to a log density of x to get that of y."""
        if self.name == "identity":
            return np.zeros_like(y)
        return -np.log(y if self.name == "log" else y + self.unit)

    def moments(self, loc: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y, where x is an even mixture over the first axis of normal distributions."""
        if self.name == "identity":
            mean = loc.mean(0)
            return mean, np.sqrt(loc.var(0) + (scale**2).mean(0))
        first = np.exp(np.minimum(loc + 0.5 * scale**2, TALLEST))
        second = np.exp(np.minimum(2.0 * loc + 2.0 * scale**2, 2.0 * TALLEST)).mean(0)
        mean = first.mean(0)
        std = self.unit * np.sqrt(np.maximum(second - mean**2, 0.0))
        return (self.unit * mean if self.name == "log" else np.maximum(self.unit * (mean - 1.0), 0.0)), std


def choose(values: np.ndarray, name: Name | None = None) -> tuple[Transform, str]:
    """A transform for one column, and why.

    Arguments:
        values: what was measured, NaN where it was not.
        name: the user's choice; chosen from the data if not given.
    """
    seen = values[np.isfinite(values)]
    low, positive = seen.min(), seen[seen > 0]
    counts = 0 <= low < COUNTS_FROM and bool((seen == np.round(seen)).all()) and seen.max() > 1
    middle = float(np.median(positive)) if len(positive) else 1.0
    if name is None:
        if low < 0:
            return Transform(), "has negative values"
        if counts:
            return Transform("log1p"), "counts"
        if low == 0 or low < NEAR_ZERO * middle:
            return Transform("log1p", middle), "is never negative, and nearly zero at times"
        return Transform("log", middle), "is positive"
    checks.choice("transform", name, NAMES)
    checks.require(
        name == "identity" or low > (0 if name == "log" else -np.finfo(float).tiny),
        f"transform='{name}' needs values {'above' if name == 'log' else 'of at least'} 0, but the smallest is {low:g}. Use "
        f"{'log1p or ' if low == 0 else ''}identity.",
    )
    if name == "identity":
        return Transform(), "is yours to say"
    return Transform(name, 1.0 if counts and name == "log1p" else middle), "is yours to say"
