"""The ledger: the observations of many series as they came, in columns that grow by doubling."""

from array import array

import numpy as np

LEAST = 1024


class ObservationLog:
    """Observations in the order in which they came, and which of them belong to each series.

    Attributes:
        t: times, `[capacity]`.
        y: values, `[capacity, channels]`, NaN where missing.
        size: rows in use.
    """

    def __init__(self, channels: int):
        self.t, self.y, self.size = np.zeros(LEAST), np.zeros((LEAST, channels)), 0
        self._of: dict[int, array] = {}
        self._dead = 0

    def add(self, who: np.ndarray, t: np.ndarray, y: np.ndarray) -> None:
        """Adds observations `t [n]`, `y [n, channels]` of series `who [n]`."""
        end = self.size + len(t)
        if end > len(self.t):
            capacity = max(end, 2 * len(self.t))
            self.t, self.y = (np.concatenate([x, np.zeros((capacity - len(x), *x.shape[1:]))]) for x in (self.t, self.y))
        self.t[self.size : end], self.y[self.size : end] = t, y
        for place, one in enumerate(who.tolist(), self.size):
            self._of.setdefault(one, array("q")).append(place)
        self.size = end

    def forget(self, who: list[int]) -> None:
        """Drops the observations of some series; the room they took is used again once it is half of all."""
        self._dead += sum(len(self._of.pop(one, ())) for one in who)
        if self._dead > max(LEAST, self.size // 2):
            alive = self.everything()
            self.__init__(self.y.shape[1])
            self.add(*alive)

    def of(self, who: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """`(t, y)` of each series, in the order in which they came."""
        places = [np.frombuffer(self._of[one], np.int64) if one in self._of else np.zeros(0, np.int64) for one in who]
        return [(self.t[each], self.y[each]) for each in places]

    def everything(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Series, time and values of all observations, in the order in which they came."""
        who = np.full(self.size, -1)
        for one, places in self._of.items():
            who[np.frombuffer(places, np.int64)] = one
        alive = who >= 0
        return who[alive], self.t[: self.size][alive], self.y[: self.size][alive]
