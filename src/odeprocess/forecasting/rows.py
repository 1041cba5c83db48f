"""A checked table as arrays: its rows sorted by series and time, in the model's units."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import Series, bucket, pack

from . import column_types
from .check_table import CellPlaces
from .csv_files import LONGEST_NAME
from .exact_times import Instants
from .message_text import listed, quoted
from .read_table import Table

MOST_PADDED = 4_000_000  # points of all training series together, padding included


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
    when: Instants
    y: np.ndarray
    values: np.ndarray
    static: np.ndarray
    origins: Instants

    def __len__(self) -> int:
        return len(self.starts) - 1

    def name(self, i: Any) -> Any:
        """What series `i` is called."""
        return self.names[int(i)].as_py()

    @property
    def places(self) -> CellPlaces:
        """Names places of the table in messages."""
        return CellPlaces(self.table, NamesByRow(self.names, self.codes))

    @property
    def appearance(self) -> np.ndarray:
        """The series in the order in which the table first names them."""
        return np.argsort(np.minimum.reduceat(self.rows, self.starts[:-1]))

    @functools.cached_property
    def observed(self) -> list[np.ndarray]:
        """The rows of each series that hold a value."""
        kept = np.flatnonzero(np.isfinite(self.y).any(-1))
        return np.split(kept, np.searchsorted(kept, self.starts[1:-1]))

    def table_rows(self, values: np.ndarray) -> np.ndarray:
        """Numbers by row here, in the order of the table."""
        found = np.empty_like(values)
        found[self.rows] = values
        return found

    def gather(self, picked: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Times and values of given rows, an array of them for each series, padded to a bucket with NaN."""
        length = bucket(max((len(rows) for rows in picked), default=0))
        t, y = np.zeros((len(picked), length)), np.full((len(picked), length, self.y.shape[1]), np.nan)
        for i, rows in enumerate(picked):
            if len(rows):
                t[i], t[i, : len(rows)], y[i, : len(rows)] = self.t[rows[0]], self.t[rows], self.y[rows]
        return t, y

    def find(self, names: Sequence[Any]) -> np.ndarray:
        """The series of these names; a name's text will do.

        Raises:
            ValueError: where the table has no such series.
        """
        known = {str(name): i for i, name in enumerate(self.names.to_pylist())}
        unknown = [name for name in names if str(name) not in known]
        checks.require(
            not unknown,
            f"{self.table.source} has no series {listed(unknown, most=3)}; it has {listed(list(known), '')}.",
        )
        return np.array([known[str(name)] for name in names])

    def grid(self, first: float, last: float, points: int) -> np.ndarray:
        """An even grid of times; whole numbers where the table has such, too long for anything between them to be told apart."""
        even = np.linspace(first, last, points)
        return np.unique(np.round(even)) if self.origins.exact and last - first >= points and self.when.per == 1 else even

    def part(self, index: np.ndarray) -> "TableRows":
        """Some of the series, in the order given."""
        rows = [np.arange(int(self.starts[i]), int(self.starts[i + 1])) for i in index]
        inside, starts = np.concatenate(rows), np.cumsum([0] + [len(each) for each in rows])
        fields = {name: getattr(self, name)[inside] for name in ("t", "when", "y", "values", "rows")}
        return dataclasses.replace(
            self, **fields, starts=starts, names=self.names.take(index), static=self.static[index], origins=self.origins[index]
        )

    def series(self, index: np.ndarray) -> Series:
        """Some series, to train on; where lengths vary so much that padding would explode, the longest are thinned at random."""
        picked = [self.observed[i] for i in index]
        lengths = np.array([len(rows) for rows in picked])
        most = max(int(np.quantile(lengths, 0.9)), MOST_PADDED // len(picked), 1)
        rng = np.random.default_rng(0)
        picked = [rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False)) for rows in picked]
        t, y = self.gather(picked)
        longest = min(int(lengths.max()), most)
        return pack(t[:, :longest], y[:, :longest], self.static[index])


class NamesByRow:
    """The series of each row, looked up only where a message needs it."""

    def __init__(self, names: Any, codes: np.ndarray):
        self.names, self.codes = names, codes

    def __getitem__(self, row: int) -> Any:
        return self.names[int(self.codes[row])].as_py()


def series_of(table: Table, column: str) -> tuple[Any, np.ndarray]:
    """The names of the series, sorted, and which one each row belongs to."""
    import pyarrow as pa

    places, written = CellPlaces(table), table.text(column)
    found = written if table.csv is not None else table.column(column)
    kind, good = (
        found.type,
        (column_types.is_text, column_types.is_number, column_types.is_date, pa.types.is_boolean, pa.types.is_null),
    )
    if not any(asks(kind) for asks in good):
        raise ValueError(f"{places.at(column, 0)}: the column holds {column_types.kind_name(kind)}; expected names of series.")
    missing = np.asarray((found if written is None else written).is_null())
    places.refuse(missing, column, "the row does not say which series it belongs to; fill it in or leave the row out.")
    if pa.types.is_floating(kind):
        found = pa.array(found.to_numpy(zero_copy_only=False) + 0.0)  # -0.0 is 0.0
    found = found.dictionary_encode()
    try:
        names = found.dictionary.to_pylist()
    except (ValueError, OverflowError, KeyError):  # dates beyond those of Python, or in a time zone that nobody knows
        raise ValueError(f"{places.at(column, 0)}: the column holds dates that cannot be written; expected names.") from None
    places.require(len(set(names)) == len(names), column, 0, "some names cannot be told from each other; write them as text.")
    indices = found.indices.to_numpy(zero_copy_only=False)
    if column_types.is_text(found.dictionary.type):
        _check_names(names, indices, column, places)
        names, dictionary = _as_written(names, found.dictionary) if table.csv is not None else (names, found.dictionary)
    else:
        dictionary = found.dictionary
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return dictionary.take(pa.array(order)), rank[indices]


def _check_names(names: list[str], indices: np.ndarray, column: str, places: CellPlaces) -> None:
    """Raises at names that are none: a missing quote makes such of whole rows."""
    known: dict[str, str] = {}
    for i, name in enumerate(names):
        short, wrong = quoted(name, 30), ""
        if len(name) > LONGEST_NAME or "\n" in name or "\r" in name:
            what = f"has {len(name):,} characters" if len(name) > LONGEST_NAME else "holds a line end"
            wrong = f"the name {short} {what}; expected a short name. Is a quote missing?"
        elif (other := known.setdefault(name.strip(), name)) != name:
            wrong = f"{short} and {quoted(other, 30)} differ by blanks only; expected one way to write a name."
        if wrong:
            raise ValueError(f"{places.at(column, np.flatnonzero(indices == i)[0])}: {wrong}")


def _as_written(names: list[str], texts: Any) -> tuple[list[Any], Any]:
    """The names in a CSV file as numbers, where that loses nothing of how they are written: 007 and 7 are two names."""
    import pyarrow as pa

    for kind, arrow in ((int, pa.int64()), (float, pa.float64())):
        try:
            read = [kind(name) for name in names]
            if all(repr(x) == name and math.isfinite(x) for x, name in zip(read, names, strict=True)):
                return read, pa.array(read, arrow)
        except (ValueError, OverflowError):
            pass
    return names, texts
