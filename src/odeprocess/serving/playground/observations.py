"""The observations of one series as a user edits them: add, move, set, delete, load, clear, undo. Plain Python."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from odeprocess.common import checks

CAPACITY = 64  # of them; as many are compiled for
UNDO = 200  # changes that can be taken back


class Observation(NamedTuple):
    """One time of the series.

    Attributes:
        t: when.
        y: a value for each channel, NaN where it was not measured.
        error: the standard normal error of each value, scaled by the noise that a user asks for.
    """

    t: float
    y: tuple[float, ...]
    error: tuple[float, ...]


class Observations:
    """A list of observations that remembers what it was.

    Every change is checked first, so a bad one raises and changes nothing.
    """

    def __init__(self, channels: int, *, seed: int = 0):
        """No observations yet; `seed` is that of their errors."""
        self.channels = channels
        self.rows: tuple[Observation, ...] = ()
        self._past: deque[tuple[Observation, ...]] = deque(maxlen=UNDO)
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, t: float, y: Sequence[float]) -> int:
        """One more; returns its place."""
        self._check_room(1)
        self._become((*self.rows, self._row(t, y)))
        return len(self.rows) - 1

    def remember(self) -> None:
        """What is now is what `undo` comes back to, whatever `move` does; call it when a drag begins."""
        self._past.append(self.rows)

    def move(self, place: int, t: float, channel: int, value: float) -> None:
        """Brings one value elsewhere, as a step of a drag: `undo` goes back to the last `remember`."""
        self._replace(place, t, channel, value, remember=False)

    def set(self, place: int, t: float, channel: int, value: float) -> None:
        """Changes one value and the time it was measured; NaN takes the value away."""
        self._replace(place, t, channel, value, remember=True)

    def delete(self, place: int) -> None:
        """Takes one away."""
        self._check_place(place)
        self._become((*self.rows[:place], *self.rows[place + 1 :]))

    def load(self, rows: Iterable[tuple[float, Sequence[float]]]) -> None:
        """Takes others in place of these."""
        rows = list(rows)
        checks.require(
            len(rows) <= CAPACITY, f"There are {len(rows)} observations; the playground takes {CAPACITY} at most. Leave some out."
        )
        self._become(tuple(self._row(t, y) for t, y in rows))

    def clear(self) -> None:
        """Takes all away."""
        if self.rows:
            self._become(())

    def undo(self) -> bool:
        """Takes the last change back; says whether there was one."""
        while self._past:
            before = self._past.pop()
            if before != self.rows:
                self.rows = before
                return True
        return False

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times `[n]`, values `[n, channels]` and their errors."""
        t = np.array([row.t for row in self.rows], np.float64)
        parts = ([row.y for row in self.rows], [row.error for row in self.rows])
        y, error = (np.array(part, np.float64).reshape(len(t), self.channels) for part in parts)
        return t, y, error

    def _replace(self, place: int, t: float, channel: int, value: float, *, remember: bool) -> None:
        self._check_place(place)
        checks.require(0 <= channel < self.channels, f"There is no channel {channel}; there are {self.channels}.")
        old = self.rows[place]
        y = (*old.y[:channel], value, *old.y[channel + 1 :])
        new = Observation(*self._checked(t, y), old.error)
        self._become((*self.rows[:place], new, *self.rows[place + 1 :]), remember=remember)

    def _row(self, t: float, y: Sequence[float]) -> Observation:
        t, y = self._checked(t, y)
        return Observation(t, y, tuple(self._random.standard_normal(self.channels).tolist()))

    def _checked(self, t: float, y: Sequence[float]) -> tuple[float, tuple[float, ...]]:
        checks.require(math.isfinite(t), f"A time is {t!r}; expected a finite number.")
        checks.require(len(y) == self.channels, f"An observation has {len(y)} value(s); expected {self.channels}.")
        checks.require(not any(math.isinf(v) for v in y), "A value is infinite; expected a finite number, or nothing.")
        checks.require(not all(math.isnan(v) for v in y), "An observation has no value at all. Delete it instead.")
        return float(t), tuple(float(v) for v in y)

    def _check_room(self, more: int) -> None:
        checks.require(
            len(self.rows) + more <= CAPACITY, f"The playground takes {CAPACITY} observations at most. Delete one to add another."
        )

    def _check_place(self, place: int) -> None:
        checks.require(0 <= place < len(self.rows), f"There is no observation {place}; there are {len(self.rows)}.")

    def _become(self, rows: tuple[Observation, ...], *, remember: bool = True) -> None:
        if remember:
            self._past.append(self.rows)
        self.rows = rows
