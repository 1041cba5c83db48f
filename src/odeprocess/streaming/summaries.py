"""The tally: running summaries of many series, on the host, in arrays that grow by doubling.

A row is a series. Sums are kept in float64, so neither the order of observations nor millions of them leave a trace.
"""

import numpy as np

from odeprocess.process import Summary

LEAST = 64


class RunningSummaries:
    """Running summaries, one row a series.

    Attributes:
        state: the rows; those beyond what is in use are empty.
    """

    def __init__(self, sums: int, channels: int):
        # An empty summary shares its arrays of zeros; what is written to must not.
        self.state = Summary(*(x.copy() for x in fields(Summary.empty(LEAST, sums, channels, np.float64))))

    def __len__(self) -> int:
        return len(self.state.count)

    def reserve(self, rows: int) -> None:
        """Makes room for `rows` rows."""
        if rows > len(self):
            more = max(rows, 2 * len(self)) - len(self)
            blank = Summary.empty(more, self.state.total.shape[1], self.state.first_y.shape[1], np.float64)
            pairs = zip(fields(self.state), fields(blank), strict=True)
            self.state = Summary(*(np.concatenate(pair) for pair in pairs))

    def add(self, rows: np.ndarray, each: Summary) -> None:
        """Adds the summaries `each [n]` to their `rows [n]`; a row may come more than once."""
        order = np.argsort(rows, kind="stable")
        rows, starts = np.unique(rows[order], return_index=True)
        total, count, first_t, first_y, first_count = (np.asarray(x, np.float64)[order] for x in fields(each))
        state, sizes = self.state, np.diff(np.append(starts, len(order)))
        first = np.minimum(state.first_t[rows], np.minimum.reduceat(first_t, starts))
        held, came = (state.first_t[rows] == first)[:, None], (first_t == np.repeat(first, sizes))[:, None]
        for kept, new in ((state.first_y, first_y), (state.first_count, first_count)):
            kept[rows] = np.where(held, kept[rows], 0.0) + np.add.reduceat(np.where(came, new, 0.0), starts)
        state.first_t[rows] = first
        state.total[rows] += np.add.reduceat(total, starts)
        state.count[rows] += np.add.reduceat(count, starts)

    def clear(self, rows: np.ndarray) -> None:
        """Forgets what was added to `rows`."""
        for array, blank in zip(fields(self.state), (0.0, 0.0, np.inf, 0.0, 0.0), strict=True):
            array[rows] = blank

    def take(self, rows: np.ndarray, dtype: np.dtype) -> Summary:
        """The summaries in `rows`, as the model takes them."""
        return Summary(*(x[rows].astype(dtype) for x in fields(self.state)))


def fields(summary: Summary) -> tuple[np.ndarray, ...]:
    """The arrays of a summary, in order."""
    return summary.total, summary.count, summary.first_t, summary.first_y, summary.first_count  # type: ignore[return-value]
