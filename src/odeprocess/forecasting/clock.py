"""Columns of times, numbers or dates: how they are read, and counted from the origin of each series."""

import dataclasses
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from odeprocess.common import checks

from . import arrow as pa
from .check_table import CellPlaces
from .column_types import is_date, is_text
from .exact_times import EXACT, WHOLE, ExactTimes, parse_exactly
from .message_text import quote
from .number_columns import read_numbers
from .parse_dates import ADVICE, FIRST_SECOND, LAST_SECOND, YEARS, explain_bad_date, is_known_zone, parse_date, to_exact_times
from .parse_text import parse_number
from .read_table import Table
from .table_limits import MAX_DIGITS

UNITS = {"seconds": 1e6, "minutes": 6e7, "hours": 3.6e9, "days": 8.64e10}  # in microseconds
MAX_DECIMALS = 9  # of predicted times that fall between whole numbers; as nanoseconds have
MISSING_TIME = "the time is missing; fill it in or leave the row out."


@dataclasses.dataclass(frozen=True)
class Clock:
    """How a column of times is read.

    Attributes:
        kind: numbers, or dates.
        unit: of the model's time, where the column holds dates.
        zone: the time zone of dates, or `None`.
        zero: what absolute times are counted from: the first training time (microseconds since 1970, for dates).
    """

    kind: Literal["number", "date"]
    unit: str | None = None
    zone: str | None = None
    zero: float = 0.0

    @classmethod
    def of(cls, table: Table, column: str) -> "Clock":
        """Returns the clock of a training table, without a unit and a zero."""
        kind = table.times(column).type
        return cls("date", zone=getattr(kind, "tz", None)) if is_date(kind) else cls("number")

    def read(self, table: Table, column: str, places: CellPlaces) -> ExactTimes:
        """Returns the times as the table has them: numbers, or microseconds since 1970 for dates."""
        cells, text = table.times(column), table.text(column)
        dated, zone = is_date(cells.type), getattr(cells.type, "tz", None)
        places.refuse(np.asarray((cells if text is None else text).is_null()), column, MISSING_TIME)
        if text is not None and is_text(cells.type):
            _refuse_text(text.to_pylist(), column, places)
        names = {True: "dates", False: "numbers"}
        message = f"the column holds {names[dated]}, but the model was fitted on {names[self.kind == 'date']}."
        places.require(dated == (self.kind == "date"), column, 0, message)
        if not dated:
            return _read_exact_numbers(table, column, places)
        has, had = ("have no", "had one") if zone is None else ("have a", "had none")
        message = f"the dates {has} time zone, and those that the model was fitted on {had}. {ADVICE}"
        places.require((zone is None) == (self.zone is None), column, 0, message)
        known = zone is None or is_known_zone(zone)
        places.require(known, column, 0, f"the time zone {quote(zone)} is not known here; use UTC.")
        times, supported = to_exact_times(cells)
        places.refuse(~supported, column, f"the date is beyond those that can be read; {YEARS}")
        return times

    def choose_unit(self, t: np.ndarray, starts: np.ndarray, when: ExactTimes) -> "Clock":
        """Returns the clock with the first time as zero and, for dates, the largest unit of which half the series last two.

        Arguments:
            t: times from their origins as this clock reads them, sorted within each series.
            starts: where each series begins, and the end of the last.
            when: the times as the table has them.
        """
        span = np.median(t[starts[1:] - 1] - t[starts[:-1]])
        long_enough = [name for name, size in UNITS.items() if span >= 2 * size]
        unit = (long_enough or ["seconds"])[-1] if self.kind == "date" else None
        return dataclasses.replace(self, unit=unit, zero=when.min())

    def zeros(self, count: int) -> ExactTimes:
        """Returns the zero of absolute times as the origin of `count` series."""
        if self.kind == "number" and abs(self.zero) <= WHOLE:
            return ExactTimes(np.full(count, float(self.zero)))
        return ExactTimes.from_whole([int(self.zero)] * count)

    def relative(self, when: ExactTimes, origins: ExactTimes) -> np.ndarray:
        """Returns times from their origins, in the model's unit."""
        return when.minus(origins) / (UNITS[self.unit] if self.unit else 1.0)

    def after(self, origins: ExactTimes, relative: np.ndarray) -> ExactTimes:
        """Returns the times so long after each origin: the inverse of `relative`.

        Raises:
            ValueError: where a date would lie beyond the supported years, or a number has too many digits.
        """
        if self.kind == "date":
            return self._dates_after(origins, relative)
        if not origins.is_whole:
            with np.errstate(over="ignore"):  # the caller refuses infinities
                return ExactTimes(origins.counts + relative)
        whole = (relative == np.round(relative)).all()
        decimals = 0 if whole else max(0, min(MAX_DECIMALS, MAX_DIGITS - 1 - origins.digits))
        parts = ExactTimes.from_whole([int(x) * 10**decimals for x in origins.counts.tolist()], origins.per * 10**decimals)
        scaled = [round(Fraction(x) * 10**decimals) for x in relative.tolist()] if decimals else ()
        times = parts.plus(np.array(scaled, object) if decimals else np.round(relative), origins.per).reduce()
        checks.require(times.digits <= MAX_DIGITS, "`times` are so large that they cannot be added to where series begin.")
        return times

    def _dates_after(self, origins: ExactTimes, relative: np.ndarray) -> ExactTimes:
        micros = np.round(relative * UNITS[self.unit or "seconds"])
        good = bool((np.abs(micros) <= 1e6 * (LAST_SECOND - FIRST_SECOND)).all())
        times = origins.plus(micros, origins.per) if good else origins
        first, last = (second * 10**6 * times.per for second in (FIRST_SECOND, LAST_SECOND + 1))
        good = good and times.counts.dtype == np.int64 and bool(((times.counts >= first) & (times.counts < last)).all())
        checks.require(good, f"Some of `times` lie too far from where their series begin; {YEARS}")
        return times

    def to_arrow(self, when: ExactTimes) -> Any:
        """Returns times as an Arrow array, in the form of the table."""
        if self.kind == "date":
            fine = bool((when.counts % when.per != 0).any())
            counts = when.counts if fine else when.counts // when.per
            return pa.array(counts.tolist(), pa.int64()).cast(pa.timestamp("ns" if fine else "us", tz=self.zone))
        if not when.is_whole or (when.per == 1 and when.counts.dtype == np.int64):
            return pa.array(when.counts)
        places = len(str(when.per)) - 1
        return pa.array([Decimal(x).scaleb(-places, EXACT) for x in when.counts.tolist()], pa.decimal128(MAX_DIGITS, places))


def _read_exact_numbers(table: Table, column: str, places: CellPlaces) -> ExactTimes:
    cells, rounded = table.column(column), read_numbers(table, column, places)
    places.refuse(np.isnan(rounded), column, MISSING_TIME)
    if pa.types.is_integer(cells.type):
        long = np.abs(rounded).max(initial=0) >= WHOLE
        return ExactTimes.from_whole(cells.to_numpy(zero_copy_only=False)) if long else ExactTimes(rounded)
    texts = cells.cast(pa.large_string()) if pa.types.is_decimal(cells.type) else table.text(column)
    times = ExactTimes(rounded) if texts is None else parse_exactly(texts, rounded)
    message = f"the times have too many digits to be kept; {MAX_DIGITS} are. Subtract the first time from all."
    places.require(times is not None, column, 0, message)
    assert times is not None
    return times


def _refuse_text(texts: list[str], column: str, places: CellPlaces) -> None:
    """Raises at the first cell of a column of times that is unlike most."""
    kinds = [_describe(text) for text in texts]
    usual = max(("number", "date with a time zone", "date without a time zone"), key=kinds.count)
    row = next((i for i, kind in enumerate(kinds) if kind != usual), 0)
    cell, kind = quote(texts[row], 40), kinds[row]
    if kind == "text":
        message = f"{cell} is neither a number nor a date.{explain_bad_date(texts[row])}"
    elif kind == usual:
        message = "the column holds dates so far apart, and so exact, that they cannot be kept."
    else:
        message = f"{cell} is a {kind}, where most are a {usual}."
    raise ValueError(f"{places.at(column, row)}: {message} {ADVICE}")


def _describe(text: str) -> str:
    if parse_number(text) is not None:
        return "number"
    date = parse_date(text)
    return "text" if date is None else f"date with{'' if date[2] else 'out'} a time zone"
