"""The observations that a user edits: add, move, set, delete, load, clear, undo."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from odeprocess.common import checks

MAX_OBSERVATIONS = 64  # of a series: `predictions.warm_up` compiles for as many
MAX_UNDO = 200  # changes that can be undone; chosen by hand


class Observation(NamedTuple):
    """The values at one time.

    Attributes:
        t: the time.
        y: a value for each channel, NaN where it was not measured.
        error: a standard normal number for each value, which the page's noise setting scales.
    """

    t: float
    y: tuple[float, ...]
    error: tuple[float, ...]


class Observations:
    """A list of observations with undo. A change is checked first, so an invalid one raises and changes nothing."""

    def __init__(self, channels: int, *, seed: int = 0):
        """Makes an empty list; `seed` is that of the errors."""
        self.channels = channels
        self.rows: tuple[Observation, ...] = ()
        self._history: deque[tuple[Observation, ...]] = deque(maxlen=MAX_UNDO)
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, t: float, y: Sequence[float]) -> int:
        """Adds an observation and returns its index."""
        message = f"The playground takes {MAX_OBSERVATIONS} observations at most. Delete one to add another."
        checks.require(len(self.rows) < MAX_OBSERVATIONS, message)
        self._replace_rows((*self.rows, self._make_row(t, y)))
        return len(self.rows) - 1

    def start_drag(self) -> None:
        """Makes the rows as they are the state to which `undo` returns after any number of `move`s."""
        self._history.append(self.rows)

    def move(self, place: int, t: float, channel: int, value: float) -> None:
        """Changes one value and its time, as a step of a drag: `undo` returns to the last `start_drag`."""
        self._set_value(place, t, channel, value, undoable=False)

    def set(self, place: int, t: float, channel: int, value: float) -> None:
        """Changes one value and its time; NaN removes the value."""
        self._set_value(place, t, channel, value, undoable=True)

    def delete(self, place: int) -> None:
        """Deletes an observation."""
        self._check_place(place)
        self._replace_rows((*self.rows[:place], *self.rows[place + 1 :]))

    def load(self, rows: Iterable[tuple[float, Sequence[float]]]) -> None:
        """Replaces all observations."""
        rows = list(rows)
        message = f"There are {len(rows)} observations; the playground takes {MAX_OBSERVATIONS} at most. Leave some out."
        checks.require(len(rows) <= MAX_OBSERVATIONS, message)
        self._replace_rows(tuple(self._make_row(t, y) for t, y in rows))

    def clear(self) -> None:
        """Deletes all observations."""
        if self.rows:
            self._replace_rows(())

    def undo(self) -> bool:
        """Undoes the last change, and returns whether there was one."""
        while self._history:
            before = self._history.pop()
            if before != self.rows:
                self.rows = before
                return True
        return False

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times `[n]`, values `[n, channels]` and their errors `[n, channels]`."""
        t = np.array([row.t for row in self.rows], np.float64)
        parts = ([row.y for row in self.rows], [row.error for row in self.rows])
        y, error = (np.array(part, np.float64).reshape(len(t), self.channels) for part in parts)
        return t, y, error

    def _set_value(self, place: int, t: float, channel: int, value: float, *, undoable: bool) -> None:
        self._check_place(place)
        checks.require(0 <= channel < self.channels, f"There is no channel {channel}; there are {self.channels}.")
        old = self.rows[place]
        y = (*old.y[:channel], value, *old.y[channel + 1 :])
        new = Observation(*self._check_row(t, y), old.error)
        self._replace_rows((*self.rows[:place], new, *self.rows[place + 1 :]), undoable=undoable)

    def _make_row(self, t: float, y: Sequence[float]) -> Observation:
        t, y = self._check_row(t, y)
        return Observation(t, y, tuple(self._random.standard_normal(self.channels).tolist()))

    def _check_row(self, t: float, y: Sequence[float]) -> tuple[float, tuple[float, ...]]:
        checks.require(math.isfinite(t), f"A time is {t!r}; expected a finite number.")
        checks.require(len(y) == self.channels, f"An observation has {len(y)} value(s); expected {self.channels}.")
        checks.require(not any(math.isinf(v) for v in y), "A value is infinite; expected a finite number, or nothing.")
        checks.require(not all(math.isnan(v) for v in y), "An observation has no value at all. Delete it instead.")
        return float(t), tuple(float(v) for v in y)

    def _check_place(self, place: int) -> None:
        checks.require(0 <= place < len(self.rows), f"There is no observation {place}; there are {len(self.rows)}.")

    def _replace_rows(self, rows: tuple[Observation, ...], *, undoable: bool = True) -> None:
        if undoable:
            self._history.append(self.rows)
        self.rows = rows
