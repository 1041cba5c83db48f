"""How far the training series reached: so that whoever goes beyond is told."""

import dataclasses
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .series import Series

SLACK = 0.05  # of the training times' range: what lies beyond it by less is rounding, or the margin of a plot
SPARE = 0.5  # of the training values' range: fresh series go a little beyond those that were seen
ROUNDING = 1e-6  # of the numbers themselves: what never varied in training need not be the same to the last digit


class ExtrapolationWarning(UserWarning):
    """An observation or a query lies outside what the model was trained on."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reach:
    """Between which numbers all training series lay, in the user's units: the least and the greatest, `[2, …]` each.

    Attributes:
        t: times, counted from where each series' time begins.
        y: values, by channel.
        static: covariates.
        relative: whether each series has a beginning of its own to count from, or all share one clock.
    """

    t: np.ndarray
    y: np.ndarray
    static: np.ndarray
    relative: bool = False

    @classmethod
    def of(cls, series: Series, origins: np.ndarray, *, relative: bool, alike: bool = False) -> "Reach":
        """That of some series, whose times begin at `origins`; if channels are all `alike`, like pixels, they share one range."""
        t = np.asarray(series.t, np.float64) - origins[:, None]
        y, static = np.asarray(series.y, np.float64), np.asarray(series.static, np.float64)
        values = _ends(y, np.asarray(series.mask))
        if alike:
            values = np.stack([np.full_like(values[0], values[0].min()), np.full_like(values[1], values[1].max())])
        return cls(_ends(t[np.asarray(series.observed)]), values, _ends(static), relative)

    def beyond_times(self, t: np.ndarray) -> np.ndarray:
        """Which times, counted from where their series begin, lie outside."""
        return _beyond(t, self.t, SLACK)

    def beyond_values(self, y: np.ndarray) -> np.ndarray:
        """Which values `[…, channels]` lie far outside; a missing one does not."""
        return _beyond(y, self.y, SPARE)

    def times_note(self, t: np.ndarray) -> str | None:
        """What to tell whoever asks about these times, or observed something at them."""
        outside = t[self.beyond_times(t)]
        if not outside.size:
            return None
        return (
            f"Times from {outside.min():.10g} to {outside.max():.10g} lie outside those of the training series, "
            f"{self.t[0]:.10g} to {self.t[1]:.10g}{' (counted from where a series begins)' if self.relative else ''}. What the "
            "model says there is extrapolated: the further away, the less its intervals can be relied on. Train on series that "
            "go as far."
        )

    def values_note(self, y: np.ndarray) -> str | None:
        """What to tell whoever observed these values `[…, channels]`."""
        return self._note(y, self.beyond_values(y), self.y, "Observed values", "channel")

    def static_note(self, static: np.ndarray) -> str | None:
        """What to tell whoever has series with these covariates `[series, k]`."""
        return self._note(static, _beyond(static, self.static, SPARE), self.static, "Static covariates", "covariate")

    @staticmethod
    def _note(x: np.ndarray, outside: np.ndarray, ends: np.ndarray, what: str, each: str) -> str | None:
        if not outside.any():
            return None
        place = tuple(np.argwhere(outside)[0])
        low, high = ends[:, place[-1]]
        return (
            f"{what} lie far outside those of the training series ({outside.sum()} of {outside.size}): {each} {place[-1]} is "
            f"{x[place]:.6g}, and was between {low:.6g} and {high:.6g}. The model has not learned what such series do. Check "
            "their units, or train on series like them."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain lists."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Reach":
        """The inverse of `to_json`."""
        arrays = {name: np.asarray(fields[name], np.float64) for name in ("t", "y", "static")}
        return cls(**arrays, relative=fields["relative"])


def warn(*notes: str | None) -> None:
    """Passes notes on as warnings that point at a line of the user's."""
    for note in notes:
        if note is not None:
            warnings.warn(note, ExtrapolationWarning, stacklevel=depth_of_user())


def depth_of_user() -> int:
    """How many frames above the caller of this function the caller of this package is."""
    frame, depth, here = sys._getframe(1), 1, str(Path(__file__).parent)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame, depth = frame.f_back, depth + 1
    return depth


def _ends(x: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    mask = np.ones(x.shape, bool) if mask is None else mask
    axes = tuple(range(x.ndim - 1)) if x.ndim > 1 else 0
    return np.stack([np.where(mask, x, np.inf).min(axes, initial=np.inf), np.where(mask, x, -np.inf).max(axes, initial=-np.inf)])


def _beyond(x: np.ndarray, ends: np.ndarray, margin: float) -> np.ndarray:
    low, high = ends
    room = margin * np.maximum(high - low, 0.0) + ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return (x < low - room) | (x > high + room)
