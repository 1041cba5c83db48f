"""One series from a CSV file: a header, a column of times, a column for each channel, empty cells where nothing was measured."""

import csv
import io
import math

from .. import checks
from ..tables.columns import SERIES, TIME
from .exhibit import Exhibit

MOST_BYTES = 1_000_000
Rows = list[tuple[float, list[float]]]


def read_csv(content: bytes, exhibit: Exhibit) -> tuple[Rows, str]:
    """The observations in a file, and what should be said of them.

    Of a file with several series the first is taken.

    Raises:
        ValueError: where it cannot be read; the message names row and column.
    """
    checks.require(len(content) <= MOST_BYTES, f"The file has {len(content):,} bytes; expected {MOST_BYTES:,} at most.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("The file is not UTF-8 text. Save it as CSV in UTF-8.") from None
    checks.require("\0" not in text, "The file is not text. Save the sheet as CSV.")
    lines = list(csv.reader(io.StringIO(text), delimiter=_separator(text)))
    checks.require(bool(lines), "The file is empty; expected a header such as t,y and rows of numbers.")
    header, *rows = [[cell.strip() for cell in line] for line in lines]
    time, values, series = _roles(header, exhibit)
    found: Rows = []
    names: list[str] = []
    for number, row in enumerate(rows, 2):
        if not any(row):
            continue
        checks.require(len(row) == len(header), f"Row {number} has {len(row)} cells; the header names {len(header)} columns.")
        if series is not None:
            names.append(row[series])
            if row[series] != names[0]:
                continue
        y = [_number(row[k], number, header[k], empty=True) for k in values]
        if not all(map(math.isnan, y)):
            found.append((_number(row[time], number, header[time]), y))
    checks.require(bool(found), "The file has no rows with a value; expected a header such as t,y and rows of numbers.")
    others = len(set(names)) - 1
    said = f" of {names[0]}, the first of {others + 1} series" if others > 0 else ""
    return found, f"Loaded {len(found)} observation{'s' if len(found) > 1 else ''}{said}."


def _separator(text: str) -> str:
    head = text.split("\n", 1)[0]
    return max(",;\t", key=head.count)


def _roles(header: list[str], exhibit: Exhibit) -> tuple[int, list[int], int | None]:
    """The places of the time, of the values, and of the name of the series if there is one."""
    lower = [name.lower() for name in header]
    times = [name for name in (exhibit.time.lower(), *TIME) if name in lower]
    wanted = " or ".join(dict.fromkeys((exhibit.time, "t")))
    checks.require(bool(times), f"No column of times among {', '.join(header)[:200]}; expected one called {wanted}.")
    time = lower.index(times[0])
    series = next((lower.index(name) for name in SERIES if name in lower), None)
    if all(name.lower() in lower for name in exhibit.values):
        return time, [lower.index(name.lower()) for name in exhibit.values], series
    rest = [k for k in range(len(header)) if k not in (time, series)]
    checks.require(
        len(rest) == exhibit.channels,
        f"The file has {len(rest)} column(s) of values ({', '.join(header[k] for k in rest)[:200] or 'none'}); "
        f"expected {', '.join(exhibit.values)}.",
    )
    return time, rest, series


def _number(cell: str, row: int, column: str, *, empty: bool = False) -> float:
    if empty and cell.lower() in ("", "na", "nan"):
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    checks.require(math.isfinite(value), f"Row {row}, column {column[:80]}: {checks.shown(cell)} is not a number.")
    return value
