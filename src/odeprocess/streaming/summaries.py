"""Running summaries of many series, on the host, in arrays that grow by doubling.

A series is a row. Sums are in float64, so that neither the order of observations nor millions of them change the result.
"""

import numpy as np

from odeprocess.process import Summary

INITIAL_CAPACITY = 64  # series; chosen by hand


class RunningSummaries:
    """Running summaries, one row a series.

    Attributes:
        state: the rows; those that are not in use are empty.
    """

    def __init__(self, sums: int, channels: int):
        # The arrays of an empty summary share memory, so they are copied before anything is written to them.
        empty = Summary.empty(INITIAL_CAPACITY, sums, channels, np.float64)
        self.state = Summary(*(x.copy() for x in as_arrays(empty)))

    def __len__(self) -> int:
        return len(self.state.count)

    def reserve(self, rows: int) -> None:
        """Makes room for `rows` rows."""
        if rows > len(self):
            more = max(rows, 2 * len(self)) - len(self)
            blank = Summary.empty(more, self.state.total.shape[1], self.state.first_y.shape[1], np.float64)
            pairs = zip(as_arrays(self.state), as_arrays(blank), strict=True)
            self.state = Summary(*(np.concatenate(pair) for pair in pairs))

    def add(self, rows: np.ndarray, each: Summary) -> None:
        """Adds the summaries `each [n]` to their `rows [n]`; a row may occur more than once."""
        order = np.argsort(rows, kind="stable")
        rows, starts = np.unique(rows[order], return_index=True)
        total, count, first_t, first_y, first_count = (np.asarray(x, np.float64)[order] for x in as_arrays(each))
        state, sizes = self.state, np.diff(np.append(starts, len(order)))
        first = np.minimum(state.first_t[rows], np.minimum.reduceat(first_t, starts))
        # The first value of a series is the mean of those at its first time: of the old ones, the new ones, or both.
        old_is_first, new_is_first = (state.first_t[rows] == first)[:, None], (first_t == np.repeat(first, sizes))[:, None]
        for old, new in ((state.first_y, first_y), (state.first_count, first_count)):
            old[rows] = np.where(old_is_first, old[rows], 0.0) + np.add.reduceat(np.where(new_is_first, new, 0.0), starts)
        state.first_t[rows] = first
        state.total[rows] += np.add.reduceat(total, starts)
        state.count[rows] += np.add.reduceat(count, starts)

    def clear(self, rows: np.ndarray) -> None:
        """Empties `rows`."""
        for array, blank in zip(as_arrays(self.state), (0.0, 0.0, np.inf, 0.0, 0.0), strict=True):
            array[rows] = blank

    def read(self, rows: np.ndarray, dtype: np.dtype) -> Summary:
        """The summaries in `rows`, in the float type of the model."""
        return Summary(*(x[rows].astype(dtype) for x in as_arrays(self.state)))


def as_arrays(summary: Summary) -> tuple[np.ndarray, ...]:
    """The arrays of a summary, in the order of its fields."""
    return summary.total, summary.count, summary.first_t, summary.first_y, summary.first_count  # type: ignore[return-value]
