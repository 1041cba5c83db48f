"""Reads one series from a CSV file: a header, a column of times and one for each channel, empty cells for missing values."""

import csv
import io
import math

from odeprocess.common import checks
from odeprocess.forecasting.column_roles import SERIES, TIME
from odeprocess.forecasting.exact_times import is_exact
from odeprocess.forecasting.message_text import join_names, quote, shorten
from odeprocess.forecasting.parse_text import parse_number

from .model_view import ModelView

MAX_BYTES = 1_000_000  # far more than the rows that the page takes; chosen by hand
Rows = list[tuple[float, list[float]]]


def read_csv(content: bytes, view: ModelView) -> tuple[Rows, str]:
    """Returns the observations in a file, and a message about what was loaded. Of several series it reads the first.

    Raises:
        ValueError: if the file cannot be read; the message names row and column.
    """
    checks.require(len(content) <= MAX_BYTES, f"The file has {len(content):,} bytes; expected {MAX_BYTES:,} at most.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("The file is not UTF-8 text. Save it as CSV in UTF-8.") from None
    checks.require("\0" not in text, "The file is not text. Save the sheet as CSV.")
    (_, header), *rows = _rows(text)
    time, values, series = _roles(header, view)
    found: Rows = []
    names: list[str] = []
    for line, row in rows:
        cells = len(row)
        checks.require(cells == len(header), f"Row {line} has {cells:,} cells; the header names {len(header):,} columns.")
        if series is not None:
            names.append(row[series])
            if row[series] != names[0]:
                continue
        y = [_number(row[k], line, header[k], empty=True) for k in values]
        if not all(map(math.isnan, y)):
            found.append((_time(row[time], line, header[time]), y))
    checks.require(bool(found), "The file has no rows with a value; expected a header such as t,y and rows of numbers.")
    others = len(set(names)) - 1
    which = f" of {shorten(names[0])}, the first of {others + 1} series" if others > 0 else ""
    return found, f"Loaded {len(found)} observation{'s' if len(found) > 1 else ''}{which}."


def _rows(text: str) -> list[tuple[int, list[str]]]:
    """Each row's line number and stripped cells, with the header first."""
    reader, found, before = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text), strict=True), [], 0
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                found.append((before + 1, cells))
            before = reader.line_num
    except csv.Error:  # about quotes, or a cell that is too long
        raise ValueError(
            f"Row {before + 1}: a quote opens that is not closed, or a cell is longer than {csv.field_size_limit():,} characters."
        ) from None
    checks.require(bool(found), "The file is empty; expected a header such as t,y and rows of numbers.")
    return found


def _separator(text: str) -> str:
    """The most frequent separator in the header."""
    head = text.split("\n", 1)[0]
    return max(",;\t", key=head.count)


def _roles(header: list[str], view: ModelView) -> tuple[int, list[int], int | None]:
    """The columns of the time, of the values, and of the series' name if there is one."""
    lower = [name.lower() for name in header]
    times = [name for name in (view.time.lower(), *TIME) if name in lower]
    checks.require(
        bool(times),
        f"No column of times among {join_names(header, '')}; expected one called {' or '.join(dict.fromkeys((view.time, 't')))}.",
    )
    series_columns = [name for name in SERIES if name in lower][:1]
    has_all_values = all(name.lower() in lower for name in view.values)
    for name in (times[0], *series_columns, *(map(str.lower, view.values) if has_all_values else ())):
        count = lower.count(name)
        checks.require(count == 1, f"The file has {count} columns {shorten(name)}; rename or drop all but one.")
    time, series = lower.index(times[0]), lower.index(series_columns[0]) if series_columns else None
    if has_all_values:
        return time, [lower.index(name.lower()) for name in view.values], series
    rest = [k for k in range(len(header)) if k not in (time, series)]
    checks.require(
        len(rest) == view.channels,
        f"The file has {len(rest):,} column(s) of values ({join_names([header[k] for k in rest], '') or 'none'}); "
        f"expected {join_names(view.values, '')}.",
    )
    return time, rest, series


def _number(cell: str, line: int, column: str, *, empty: bool = False) -> float:
    if empty and cell.lower() in ("", "na", "nan"):
        return math.nan
    value = parse_number(cell)
    good = value is not None and math.isfinite(value)
    checks.require(good, f"Row {line}, column {shorten(column)}: {quote(cell, 40)} is not a number.")
    assert value is not None
    return value


def _time(cell: str, line: int, column: str) -> float:
    value = _number(cell, line, column)
    checks.require(
        is_exact(value, cell),
        f"Row {line}, column {shorten(column)}: {quote(cell, 40)} has more digits than can be kept. Subtract the first time.",
    )
    return value
