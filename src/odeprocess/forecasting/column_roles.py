"""Which column is what: as the user says, or guessed where it is obvious."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common import checks

from .check_table import has_columns, its_columns
from .column_types import is_number, is_text
from .message_text import cut, listed, quoted
from .read_table import Table
from .rows import series_of

SERIES = ("series", "id", "unique_id", "series_id", "subject", "subject_id", "patient", "patient_id", "unit", "group")
TIME = ("t", "time", "ds", "date", "datetime", "timestamp", "hours", "days", "minutes", "seconds", "year", "day", "hour")
RESERVED = ("variable", "draw", "value", "mean", "std")  # what results are called


@dataclasses.dataclass(frozen=True)
class Columns:
    """The roles of a table's columns.

    Attributes:
        series: says which series a row belongs to.
        time: when it was measured.
        values: what was measured, one column a variable.
        static: covariates that do not change within a series.
        origin: where a series' time begins: at its `"first"` row, nowhere (`"absolute"`), or a column that says it.
    """

    series: str
    time: str
    values: tuple[str, ...]
    static: tuple[str, ...] = ()
    origin: str = "first"

    def check(self, table: Table, *, values: bool = True, time: bool = True) -> None:
        """Raises unless `table` has these columns."""
        wanted = {self.series: "the series"}
        if time:
            wanted[self.time] = "the time"
        if values:
            wanted |= {name: "a value; if it was not measured, add it with empty cells" for name in self.values}
        wanted |= {name: "a static covariate" for name in self.static}
        if self.origin not in ("first", "absolute"):
            wanted[self.origin] = "the origin of time; 'first' and 'absolute' need no column"
        has_columns(table, wanted)


def resolve(
    table: Table, series: str | None, time: str | None, values: Any, static: Any, origin: str
) -> tuple[Columns, list[str]]:
    """The roles of the columns of a training table, and what was guessed, in sentences."""
    said = []
    named, chosen_static = _as_names("values", values), _as_names("static", static)
    taken = {series, time, origin, *(named or ()), *(chosen_static or ())}
    if series is None:
        series = _guess(table, SERIES, taken, "series")
        said.append(f"Column `{series}` says which series a row belongs to.")
    if time is None:
        time = _guess(table, TIME, {*taken, series}, "time")
        said.append(f"Column `{time}` is the time.")
    if named is None:
        has_columns(table, {series: "the series", time: "the time"})
        moving, still = _sorted_out(table, series, {*taken, series, time})
        checks.require(
            bool(moving), f"{table.source} has no column of numbers left for the values; name them: values=[…] (--values a,b)."
        )
        named = moving
        said.append(f"The values are {_listed(moving)}.")
        if chosen_static is None and still:
            chosen_static = still
            said.append(f"{_listed(still)} never change within a series: static covariates.")
    columns = Columns(series, time, named, chosen_static or (), origin)
    (name, count), *_ = Counter([columns.series, columns.time, *columns.values, *columns.static]).most_common(1)
    checks.require(count == 1, f"Column `{cut(name)}` has two roles; expected each of series, time, values and static once.")
    clash = next((name for name in (columns.series, columns.time) if name in RESERVED), None)
    checks.require(clash is None, f"Column `{clash}` has the name of a column of the results; rename it first.")
    columns.check(table)
    return columns, said


def _as_names(what: str, names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else names
    good = isinstance(names, tuple) and all(isinstance(name, str) and name for name in names)
    checks.require(good, f"`{what}` is {quoted(names)}; expected the name of a column, or a list of names.")
    checks.require(what == "static" or len(names) > 0, f"`{what}` names no column; expected at least one.")
    return names


def _guess(table: Table, known: Sequence[str], taken: set[Any], role: str) -> str:
    by_name = {name.lower().strip(): name for name in table.names if name not in taken}
    found = [by_name[name] for name in known if name in by_name]
    checks.require(
        len(found) == 1,
        f"{table.source} has no column that is obviously the {role}"
        + (f" ({' or '.join(map(quoted, found))}?)" if found else "")
        + f"; {its_columns(table)}. Name it: {role}=… (--{role} …).",
    )
    return found[0]


def _sorted_out(table: Table, series: str, taken: set[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that are left: numbers that change within series, and anything that does not but differs between them."""
    import pyarrow as pa

    codes = series_of(table, series)[1]
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order]) == 0
    moving, still = [], []
    for name in table.names:
        if name in taken or not name.strip():
            continue
        cells = table.column(name)
        plain = is_number(cells.type) or pa.types.is_boolean(cells.type) or is_text(cells.type)
        if not plain and not pa.types.is_temporal(cells.type):
            continue  # lists and the like, which are neither
        filled = cells.dictionary_encode()
        values = filled.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        changes = bool((np.diff(values[order]) != 0)[same].any())
        if changes and is_number(cells.type):
            moving.append(name)
        elif not changes and len(filled.dictionary) > 1 and (values >= 0).all() and plain:
            still.append(name)
    return tuple(moving), tuple(still)


def _listed(names: Sequence[str]) -> str:
    return listed(names, "`", most=20)
