"""The rows of a table as arrays, sorted by series and time, in the model's units."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import Series, bucket, pack

from .check_table import CellPlaces
from .exact_times import ExactTimes
from .message_text import join_names
from .read_table import Table
from .table_limits import MAX_PADDED_POINTS


@dataclasses.dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table.

    Attributes:
        table: where they came from.
        rows: the row of the table behind each row here.
        names: of the series, an Arrow array in sorted order.
        codes: the series of each row of the table.
        starts: where the rows of each series begin, `[series + 1]`.
        t: times from the origin, `[rows]`.
        when: the same as the table has them.
        y: transformed values, NaN where missing, `[rows, channels]`.
        values: the same in the user's units.
        static: covariates, `[series, k]`.
        origins: where each series' time begins, as the table has it, `[series]`.
    """

    table: Table
    rows: np.ndarray
    names: Any
    codes: np.ndarray
    starts: np.ndarray
    t: np.ndarray
    when: ExactTimes
    y: np.ndarray
    values: np.ndarray
    static: np.ndarray
    origins: ExactTimes

    def __len__(self) -> int:
        return len(self.starts) - 1

    def name(self, i: Any) -> Any:
        """Returns the name of series `i`."""
        return self.names[int(i)].as_py()

    @property
    def places(self) -> CellPlaces:
        """Names cells of the table in messages."""
        return CellPlaces(self.table, self.names, self.codes)

    @property
    def appearance(self) -> np.ndarray:
        """The series in the order in which the table first names them."""
        return np.argsort(np.minimum.reduceat(self.rows, self.starts[:-1]))

    @functools.cached_property
    def observed(self) -> list[np.ndarray]:
        """The rows of each series that hold a value."""
        kept = np.flatnonzero(np.isfinite(self.y).any(-1))
        return np.split(kept, np.searchsorted(kept, self.starts[1:-1]))

    def in_table_order(self, x: np.ndarray) -> np.ndarray:
        """Returns numbers by row here, in the order of the table's rows."""
        ordered = np.empty_like(x)
        ordered[self.rows] = x
        return ordered

    def gather(self, picked: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Returns times and values of the rows `picked` for each series, padded to a common length with NaN."""
        length = bucket(max((len(rows) for rows in picked), default=0))
        t, y = np.zeros((len(picked), length)), np.full((len(picked), length, self.y.shape[1]), np.nan)
        for i, rows in enumerate(picked):
            if len(rows):
                t[i], t[i, : len(rows)], y[i, : len(rows)] = self.t[rows[0]], self.t[rows], self.y[rows]
        return t, y

    def find(self, names: Sequence[Any]) -> np.ndarray:
        """Returns the places of series by name, or by its text.

        Raises:
            ValueError: where the table has no such series.
        """
        known = {str(name): i for i, name in enumerate(self.names.to_pylist())}
        unknown = [name for name in names if str(name) not in known]
        checks.require(
            not unknown,
            f"{self.table.source} has no series {join_names(unknown, most=3)}; it has {join_names(list(known), '')}.",
        )
        return np.array([known[str(name)] for name in names])

    def grid(self, first: float, last: float, points: int) -> np.ndarray:
        """Returns an even grid of times, rounded where the table has whole numbers too long for float64."""
        even = np.linspace(first, last, points)
        return np.unique(np.round(even)) if self.origins.is_whole and last - first >= points and self.when.per == 1 else even

    def part(self, index: np.ndarray) -> "TableRows":
        """Returns some of the series, in the order of `index`."""
        rows = [np.arange(int(self.starts[i]), int(self.starts[i + 1])) for i in index]
        inside, starts = np.concatenate(rows), np.cumsum([0] + [len(each) for each in rows])
        fields = {name: getattr(self, name)[inside] for name in ("t", "when", "y", "values", "rows")}
        return dataclasses.replace(
            self, **fields, starts=starts, names=self.names.take(index), static=self.static[index], origins=self.origins[index]
        )

    def series(self, index: np.ndarray) -> Series:
        """Returns some series to train on; where padding would need too much memory, the longest are thinned at random."""
        picked = [self.observed[i] for i in index]
        lengths = np.array([len(rows) for rows in picked])
        most = max(int(np.quantile(lengths, 0.9)), MAX_PADDED_POINTS // len(picked), 1)
        rng = np.random.default_rng(0)
        picked = [rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False)) for rows in picked]
        t, y = self.gather(picked)
        longest = min(int(lengths.max()), most)
        return pack(t[:, :longest], y[:, :longest], self.static[index])
