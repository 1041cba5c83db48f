"""Transforms of values: positive values stay positive in every draw and every interval."""

import dataclasses
from typing import Any, Literal

import numpy as np

from odeprocess.common import checks

Name = Literal["identity", "log", "log1p"]
NAMES = ("identity", "log", "log1p")
# Chosen by hand:
NEAR_ZERO = 0.02  # a part of the median; logarithms of values below it would dominate, so `log1p` is taken
SMALL_COUNT = 10  # whole numbers are counts where the smallest is below this, and otherwise rounded measurements
MAX_EXPONENT = 300.0  # of exp; its square still is a finite float64


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
    def domain(self) -> str:
        """The values that can be transformed, for a message."""
        return {"identity": "finite", "log": "above 0", "log1p": "of at least 0"}[self.name]

    def is_outside(self, y: Any) -> Any:
        """Returns where values lie outside the domain; missing ones do not."""
        return y <= 0 if self.name == "log" else (y < 0) & (self.name == "log1p")

    def forward(self, y: Any) -> Any:
        """Returns the model's values."""
        if self.name == "identity":
            return y
        if self.name == "log":
            return np.log(y) - np.log(self.unit)  # y / unit may be zero or infinite in float64
        with np.errstate(over="ignore"):
            return np.log1p(y / self.unit)

    def inverse(self, x: Any) -> Any:
        """Returns the user's values; never below zero, except for `"identity"`."""
        if self.name == "identity":
            return x
        x = np.clip(x, -MAX_EXPONENT, MAX_EXPONENT)
        return self.unit * np.exp(x) if self.name == "log" else np.maximum(self.unit * np.expm1(x), 0.0)

    def log_slope(self, y: Any) -> Any:
        """Returns log |dx/dy|, which turns a log density of x into that of y."""
        if self.name == "identity":
            return np.zeros_like(y)
        return -np.log(y if self.name == "log" else y + self.unit)

    def moments(self, loc: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation of y, where x is a mixture over the first axis of normal distributions."""
        if self.name == "identity":
            return loc.mean(0), np.sqrt(loc.var(0) + (scale**2).mean(0))
        first = np.exp(np.minimum(loc + 0.5 * scale**2, MAX_EXPONENT))
        second = np.exp(np.minimum(2.0 * loc + 2.0 * scale**2, 2.0 * MAX_EXPONENT)).mean(0)
        mean = first.mean(0)
        std = self.unit * np.sqrt(np.maximum(second - mean**2, 0.0))
        return (self.unit * mean if self.name == "log" else np.maximum(self.unit * (mean - 1.0), 0.0)), std


def choose_transform(values: np.ndarray, name: Name | None = None) -> tuple[Transform, str]:
    """Returns a transform for one column, and the reason.

    Arguments:
        values: what was measured, NaN where it was not.
        name: the user's choice; by default chosen from the values.
    """
    seen = values[np.isfinite(values)]
    low, positive = seen.min(), seen[seen > 0]
    counts = 0 <= low < SMALL_COUNT and bool((seen == np.round(seen)).all()) and seen.max() > 1
    middle = float(np.median(positive)) if len(positive) else 1.0
    if name is not None:
        checks.choice("transform", name, NAMES)
        unit = 1.0 if name == "identity" or (counts and name == "log1p") else middle
        transform = Transform(name, unit)
        checks.require(
            not transform.is_outside(low),
            f"transform='{name}' needs values {transform.domain}, but the smallest is {low:g}. Use "
            f"{'log1p or ' if low == 0 else ''}identity.",
        )
        return transform, "follows your choice"
    if low < 0:
        return Transform(), "has negative values"
    if counts:
        return Transform("log1p"), "counts"
    if low == 0 or low < NEAR_ZERO * middle:
        return Transform("log1p", middle), "is never negative, and nearly zero at times"
    return Transform("log", middle), "is positive"
