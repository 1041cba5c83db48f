"""The log of a stream: the observations of many series in the order of arrival, in arrays that grow by doubling."""

from array import array

import numpy as np

INITIAL_CAPACITY = 1024  # observations; chosen by hand


class ObservationLog:
    """Observations in the order of arrival, and which of them belong to each series. A series is the number of its row.

    Attributes:
        t: times, `[capacity]`.
        y: values, `[capacity, channels]`, NaN where missing.
        size: observations in use.
    """

    def __init__(self, channels: int):
        self.t, self.y, self.size = np.zeros(INITIAL_CAPACITY), np.zeros((INITIAL_CAPACITY, channels)), 0
        self._places: dict[int, array] = {}  # the places of the observations of each series
        self._removed = 0

    def add(self, rows: np.ndarray, t: np.ndarray, y: np.ndarray) -> None:
        """Adds observations `t [n]`, `y [n, channels]` of the series `rows [n]`."""
        end = self.size + len(t)
        if end > len(self.t):
            capacity = max(end, 2 * len(self.t))
            self.t, self.y = (np.concatenate([x, np.zeros((capacity - len(x), *x.shape[1:]))]) for x in (self.t, self.y))
        self.t[self.size : end], self.y[self.size : end] = t, y
        for place, row in enumerate(rows.tolist(), self.size):
            self._places.setdefault(row, array("q")).append(place)
        self.size = end

    def remove(self, rows: list[int]) -> None:
        """Removes the observations of some series. Their memory is used again once half of all have been removed."""
        self._removed += sum(len(self._places.pop(row, ())) for row in rows)
        if self._removed > max(INITIAL_CAPACITY, self.size // 2):
            remaining = self.read_all()
            self.__init__(self.y.shape[1])
            self.add(*remaining)

    def read(self, rows: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """`(t, y)` of each series, in the order of arrival."""
        places = [np.frombuffer(self._places[row], np.int64) if row in self._places else np.zeros(0, np.int64) for row in rows]
        return [(self.t[each], self.y[each]) for each in places]

    def read_all(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Series, times and values of all observations, in the order of arrival."""
        rows = np.full(self.size, -1)
        for row, places in self._places.items():
            rows[np.frombuffer(places, np.int64)] = row
        kept = rows >= 0
        return rows[kept], self.t[: self.size][kept], self.y[: self.size][kept]
