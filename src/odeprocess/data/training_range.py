"""Training ranges, and the warnings for observations and queries outside them."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.checks import depth_of_user
from odeprocess.common.dataclass_json import read_array, read_dataclass

from .series import Series

# Margins around the training range without a warning, chosen by hand.
TIME_MARGIN = 0.05  # of the range of times: rounding, and the margins of plots
VALUE_MARGIN = 0.5  # of the range of values or covariates: those of new series may be somewhat larger
ROUNDING = 1e-6  # of a number that was the same in all training series


class ExtrapolationWarning(UserWarning):
    """An observation or a query lies outside the training range."""


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingRange:
    """The smallest and largest numbers of the training series, in the user's units, `[2, …]` each.

    NaN for a channel that was never observed, for which nothing is outside the range.

    Attributes:
        t: times, counted from where each series' time begins.
        y: values, by channel.
        static: covariates.
        relative: whether times count from the origin of each series, or from one that all share.
    """

    t: np.ndarray
    y: np.ndarray
    static: np.ndarray
    relative: bool = False

    @classmethod
    def of(cls, series: Series, origins: np.ndarray, *, relative: bool, alike: bool = False) -> "TrainingRange":
        """The range of series whose times count from `origins`; channels that are all `alike`, like pixels, share one range."""
        t = np.asarray(series.t, np.float64) - origins[:, None]
        y, static = np.asarray(series.y, np.float64), np.asarray(series.static, np.float64)
        values = _ends(y, np.asarray(series.mask))
        if alike:
            values = np.stack([np.full_like(values[0], np.nanmin(values)), np.full_like(values[1], np.nanmax(values))])
        return cls(_ends(t[np.asarray(series.observed)]), values, _ends(static), relative)

    def beyond_times(self, t: np.ndarray) -> np.ndarray:
        """Which times, counted from the origins of their series, lie outside."""
        return _beyond(t, self.t, TIME_MARGIN)

    def beyond_values(self, y: np.ndarray) -> np.ndarray:
        """Which values `[…, channels]` lie far outside; missing ones do not."""
        return _beyond(y, self.y, VALUE_MARGIN)

    def times_note(self, t: np.ndarray) -> str | None:
        """The warning for observations or queries at these times, `None` if none is due."""
        outside = t[self.beyond_times(t)]
        if not outside.size:
            return None
        counted = " (counted from where a series begins)" if self.relative else ""
        return (
            f"Times from {outside.min():.10g} to {outside.max():.10g} lie outside those of the training series, "
            f"{self.t[0]:.10g} to {self.t[1]:.10g}{counted}. Predictions there are extrapolations, and their intervals are less "
            "reliable the further away they are. Train on series that cover these times."
        )

    def values_note(self, y: np.ndarray) -> str | None:
        """The warning for observed values `[…, channels]`, `None` if none is due."""
        return self._note(y, self.beyond_values(y), self.y, "Observed values", "channel")

    def static_note(self, static: np.ndarray) -> str | None:
        """The warning for covariates `[series, k]`, `None` if none is due."""
        return self._note(static, _beyond(static, self.static, VALUE_MARGIN), self.static, "Static covariates", "covariate")

    @staticmethod
    def _note(x: np.ndarray, outside: np.ndarray, ends: np.ndarray, what: str, each: str) -> str | None:
        if not outside.any():
            return None
        place = tuple(np.argwhere(outside)[0])
        low, high = ends[:, place[-1]]
        return (
            f"{what} lie far outside those of the training series ({outside.sum()} of {outside.size}): {each} {place[-1]} is "
            f"{x[place]:.6g}, and was between {low:.6g} and {high:.6g}. The model was not trained on such series. Check their "
            "units, or train on series like them."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain lists, with `None` for NaN, which JSON does not have."""

        def plain(x: np.ndarray) -> list[Any]:
            known = x.astype(object)
            known[np.isnan(x)] = None
            return known.tolist()

        return {"t": plain(self.t), "y": plain(self.y), "static": plain(self.static), "relative": self.relative}

    @classmethod
    def from_json(cls, fields: dict[str, Any], channels: int, static_dim: int) -> "TrainingRange":
        """The inverse of `to_json`; a `ValueError` names the field that is wrong."""
        checks.require(
            isinstance(fields, dict), f"`scaling.training_range` is a {type(fields).__name__}; expected fields by name."
        )
        shapes = {"t": (2,), "y": (2, channels), "static": (2, static_dim)}
        arrays = {k: read_array(fields.get(k), shape, f"scaling.training_range.{k}", holes=True) for k, shape in shapes.items()}
        return read_dataclass(cls, {k: v for k, v in fields.items() if k not in arrays}, "scaling.training_range", **arrays)


def warn(*notes: str | None) -> None:
    """Issues notes as warnings that point at the user's line."""
    for note in notes:
        if note is not None:
            warnings.warn(note, ExtrapolationWarning, stacklevel=depth_of_user())


def _ends(x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    mask = np.ones(x.shape, bool) if mask is None else mask
    axes = tuple(range(x.ndim - 1)) if x.ndim > 1 else 0
    low = np.where(mask, x, np.inf).min(axes, initial=np.inf)
    high = np.where(mask, x, -np.inf).max(axes, initial=-np.inf)
    return np.where(low <= high, np.stack([low, high]), np.nan)


def _beyond(x: np.ndarray, ends: np.ndarray, margin: float) -> np.ndarray:
    low, high = ends
    room = np.where(high > low, margin * (high - low), ROUNDING * np.abs(low))
    return (x < low - room) | (x > high + room)
