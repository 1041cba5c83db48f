"""The role of each column: series, time, value, static covariate or origin; as the user says, or guessed where it is obvious."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common import checks

from . import arrow as pa
from .check_table import describe_columns, require_columns
from .column_types import is_number, is_text
from .message_text import join_names, quote, shorten
from .read_table import Table
from .series_names import read_series_names

# Names by which the columns of series and time are guessed, in lower case.
SERIES = ("series", "id", "unique_id", "series_id", "subject", "subject_id", "patient", "patient_id", "unit", "group")
TIME = ("t", "time", "ds", "date", "datetime", "timestamp", "hours", "days", "minutes", "seconds", "year", "day", "hour")
RESERVED = ("variable", "draw", "value", "mean", "std")  # columns of results


@dataclasses.dataclass(frozen=True)
class Columns:
    """The roles of a table's columns.

    Attributes:
        series: names the series that a row belongs to.
        time: when it was measured.
        values: what was measured, one column for each variable.
        static: covariates that do not change within a series.
        origin: where a series' time begins: at its `"first"` row, nowhere (`"absolute"`), or in a column.
    """

    series: str
    time: str
    values: tuple[str, ...]
    static: tuple[str, ...] = ()
    origin: str = "first"

    def check(self, table: Table) -> None:
        """Raises unless `table` has these columns."""
        roles = {self.series: "the series", self.time: "the time"}
        roles |= {name: "a value; if it was not measured, add it with empty cells" for name in self.values}
        roles |= {name: "a static covariate" for name in self.static}
        if self.origin not in ("first", "absolute"):
            roles[self.origin] = "the origin of time; 'first' and 'absolute' need no column"
        require_columns(table, roles)


def resolve(
    table: Table, series: str | None, time: str | None, values: Any, static: Any, origin: str
) -> tuple[Columns, list[str]]:
    """Returns the roles of a training table's columns, and what was guessed, in sentences; `None` means: guess."""
    notes = []
    values, static = _check_choice("values", values), _check_choice("static", static)
    taken = {series, time, origin, *(values or ()), *(static or ())}
    if series is None:
        series = _guess_column(table, SERIES, taken, "series")
        notes.append(f"Column `{series}` says which series a row belongs to.")
    if time is None:
        time = _guess_column(table, TIME, {*taken, series}, "time")
        notes.append(f"Column `{time}` is the time.")
    if values is None:
        require_columns(table, {series: "the series", time: "the time"})
        values, constant = _guess_values(table, series, {*taken, series, time})
        found = f"{table.source} has no column of numbers left for the values; name them: values=[…] (--values a,b)."
        checks.require(bool(values), found)
        notes.append(f"The values are {join_names(values, '`', most=20)}.")
        if static is None and constant:
            static = constant
            notes.append(f"{join_names(constant, '`', most=20)} never change within a series: static covariates.")
    columns = Columns(series, time, values, static or (), origin)
    (name, count), *_ = Counter([columns.series, columns.time, *columns.values, *columns.static]).most_common(1)
    twice = f"Column `{shorten(name)}` has two roles; expected each of series, time, values and static once."
    checks.require(count == 1, twice)
    clash = next((name for name in (columns.series, columns.time) if name in RESERVED), None)
    checks.require(clash is None, f"Column `{clash}` has the name of a column of the results; rename it first.")
    columns.check(table)
    return columns, notes


def _check_choice(what: str, names: Any) -> tuple[str, ...] | None:
    """Returns the user's choice of columns as a tuple, or `None` where there is none."""
    if names is None:
        return None
    names = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else names
    good = isinstance(names, tuple) and all(isinstance(name, str) and name for name in names)
    checks.require(good, f"`{what}` is {quote(names)}; expected the name of a column, or a list of names.")
    checks.require(what == "static" or len(names) > 0, f"`{what}` names no column; expected at least one.")
    return names


def _guess_column(table: Table, known: Sequence[str], taken: set[Any], role: str) -> str:
    """Returns the only column with one of the `known` names."""
    by_name = {name.lower().strip(): name for name in table.names if name not in taken}
    found = [by_name[name] for name in known if name in by_name]
    several = f" ({' or '.join(map(quote, found))}?)" if found else ""
    missing = f"{table.source} has no column that is obviously the {role}{several}; {describe_columns(table)}."
    checks.require(len(found) == 1, f"{missing} Name it: {role}=… (--{role} …).")
    return found[0]


def _guess_values(table: Table, series: str, taken: set[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the numbers that change within series, and the columns that do not but differ between series."""
    codes = read_series_names(table, series)[1]
    order = np.argsort(codes, kind="stable")
    same = np.diff(codes[order]) == 0
    values, constant = [], []
    for name in table.names:
        if name in taken or not name.strip():
            continue
        cells = table.column(name)
        usable = is_number(cells.type) or pa.types.is_boolean(cells.type) or is_text(cells.type)
        if not usable:
            continue
        encoded = cells.dictionary_encode()
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        changes = bool((np.diff(places[order]) != 0)[same].any())
        if changes and is_number(cells.type):
            values.append(name)
        elif not changes and len(encoded.dictionary) > 1 and (places >= 0).all():
            constant.append(name)
    return tuple(values), tuple(constant)
