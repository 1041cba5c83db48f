"""Times of a table: numbers or dates, counted from where each series begins."""

import dataclasses
import re
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from odeprocess.common import checks

from . import column_types
from .check_table import CellPlaces, numbers
from .exact_times import MOST_DIGITS, WHOLE, Instants, from_text
from .message_text import quoted
from .parse_text import FIRST, LAST, TICKS, as_number, doubtful, moment, whole_numbers
from .read_table import Table

UNITS = {"seconds": 1e6, "minutes": 6e7, "hours": 3.6e9, "days": 8.64e10}  # in microseconds
ISO = "Write dates as 2026-11-15 or 2026-11-15T20:05:00, all with a time zone or all without."
YEARS = "dates go from the year 1 to the year 9999."
WIDE = Context(prec=100)
FINEST = 9  # decimals of a time between the whole numbers of an exact clock


@dataclasses.dataclass(frozen=True)
class Clock:
    """How a time column is read.

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
        """The clock of a training table; unit and zero are still open."""
        kind = table.times(column).type
        return cls("date", zone=getattr(kind, "tz", None)) if column_types.is_date(kind) else cls("number")

    def read(self, table: Table, column: str, places: CellPlaces) -> Instants:
        """The column as it is: numbers, or microseconds since 1970 for dates."""
        given = table.times(column)
        dated = column_types.is_date(given.type)
        missing = "the time is missing; fill it in or leave the row out."
        text = table.text(column)
        places.refuse(np.asarray((given if text is None else text).is_null()), column, missing)
        if text is not None and column_types.is_text(given.type):
            _refuse_text(text.to_pylist(), column, places)
        places.require(
            dated == (self.kind == "date"),
            column,
            0,
            f"the column holds {'dates' if dated else 'numbers'}, but the model was fitted on "
            f"{'dates' if self.kind == 'date' else 'numbers'}.",
        )
        if not dated:
            return _numbers(table, column, places)
        zone = getattr(given.type, "tz", None)
        places.require(
            (zone is None) == (self.zone is None),
            column,
            0,
            f"the dates {'lack a' if zone is None else 'have a'} time zone, and those that the model was fitted on "
            f"{'did not' if zone is None else 'had none'}. {ISO}",
        )
        places.require(zone is None or is_zone(zone), column, 0, f"the time zone {quoted(zone)} is not known here; use UTC.")
        found, sound = as_instants(given)
        places.refuse(~sound, column, f"the date is beyond those that can be read; {YEARS}")
        return found

    def settled(self, t: np.ndarray, starts: np.ndarray, when: Instants) -> "Clock":
        """With a unit that suits the spans of the series, and the first time as zero.

        Arguments:
            t: times from their origins as this clock reads them, sorted within each series.
            starts: where each series begins, and the end of the last.
            when: the times as the table has them.
        """
        span = np.median(t[starts[1:] - 1] - t[starts[:-1]])
        long_enough = [name for name, size in UNITS.items() if span >= 2 * size]
        unit = (long_enough or ["seconds"])[-1] if self.kind == "date" else None
        return dataclasses.replace(self, unit=unit, zero=when.least())

    def since_zero(self, count: int) -> Instants:
        """Zero, as the origin of so many series."""
        if self.kind == "number" and abs(self.zero) <= WHOLE:
            return Instants(np.full(count, float(self.zero)))
        return Instants.whole([int(self.zero)] * count)

    def relative(self, when: Instants, origins: Instants) -> np.ndarray:
        """Times from their origins, in the model's unit."""
        return when.minus(origins) / (UNITS[self.unit] if self.unit else 1.0)

    def after(self, origins: Instants, relative: np.ndarray) -> Instants:
        """The inverse: so long after each origin.

        Raises:
            ValueError: where dates would lie beyond those that there are.
        """
        if self.kind == "date":
            ticks = np.round(relative * UNITS[self.unit or "seconds"])
            near = bool((np.abs(ticks) <= 1e6 * (LAST - FIRST)).all())
            found = origins.plus(ticks, origins.per) if near else origins
            first, last = (edge * 10**6 * found.per for edge in (FIRST, LAST + 1))
            near = near and bool(((found.counts >= first) & (found.counts < last)).all()) and found.counts.dtype == np.int64
            checks.require(near, f"Some times that are asked about lie too far from where their series begin; {YEARS}")
            return found
        if not origins.exact:
            with np.errstate(over="ignore"):  # what becomes infinite is refused by whoever asked
                return Instants(origins.counts + relative)
        finer = 0 if (relative == np.round(relative)).all() else max(0, min(FINEST, MOST_DIGITS - 1 - origins.digits))
        parts = Instants.whole([int(x) * 10**finer for x in origins.counts.tolist()], origins.per * 10**finer)
        steps = np.array([round(Fraction(x) * 10**finer) for x in relative.tolist()], object) if finer else np.round(relative)
        found = parts.plus(steps, origins.per).reduced()
        checks.require(found.digits <= MOST_DIGITS, "`times` are so large that they cannot be added to where series begin.")
        return found

    def written(self, when: Instants) -> Any:
        """Times as an Arrow array, as a table has them."""
        import pyarrow as pa

        if self.kind == "date":
            fine = bool((when.counts % when.per != 0).any())
            counts = when.counts if fine else when.counts // when.per
            return pa.array(counts.tolist(), pa.int64()).cast(pa.timestamp("ns" if fine else "us", tz=self.zone))
        if not when.exact:
            return pa.array(when.counts)
        if when.per == 1 and when.counts.dtype == np.int64:
            return pa.array(when.counts)
        places = len(str(when.per)) - 1
        return pa.array([Decimal(x).scaleb(-places, WIDE) for x in when.counts.tolist()], pa.decimal128(MOST_DIGITS, places))


def is_zone(name: str) -> bool:
    """Whether a time zone is known here."""
    import pyarrow as pa

    try:
        pa.scalar(0, pa.timestamp("us", tz=name)).as_py()
    except (ValueError, KeyError, OSError):  # what `zoneinfo` says of a name that it does not know, and of an odd one
        return False
    return True


def as_instants(given: Any) -> tuple[Instants, np.ndarray]:
    """Arrow's dates as microseconds since 1970, and which of them lie within the years that there are."""
    import pyarrow as pa

    kind = given.type
    if pa.types.is_date32(kind):
        days = given.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        sound = (days >= FIRST // 86_400) & (days <= LAST // 86_400)
        return Instants(np.where(sound, days, 0) * (86_400 * 10**6)), sound
    counts, ticks = given.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), TICKS[kind.unit]
    seconds = counts // ticks
    sound = (seconds >= FIRST) & (seconds <= LAST)
    counts = np.where(sound, counts, 0)
    if kind.unit != "ns":
        return Instants(counts * (10**6 // ticks)), sound
    fine = (counts % 1000 != 0).any()
    return Instants(counts if fine else counts // 1000, 1000 if fine else 1), sound


def _numbers(table: Table, column: str, places: CellPlaces) -> Instants:
    """Times that are numbers, with all their digits."""
    import pyarrow as pa

    given, rounded = table.column(column), numbers(table, column, places)
    places.refuse(np.isnan(rounded), column, "the time is missing; fill it in or leave the row out.")
    long = np.abs(rounded).max(initial=0) >= WHOLE
    if pa.types.is_integer(given.type):
        return Instants.whole(given.to_numpy(zero_copy_only=False)) if long else Instants(rounded)
    texts = given.cast(pa.large_string()) if pa.types.is_decimal(given.type) else table.text(column)
    suspects = np.zeros(0, np.int64) if texts is None else doubtful(texts, rounded)
    if texts is None or not len(suspects):
        return Instants(rounded)
    whole = whole_numbers(texts) if long else None
    found = from_text(texts, rounded, suspects) if whole is None else Instants.whole(whole)
    message = f"the times have too many digits to be kept; {MOST_DIGITS} are. Subtract the first time from all."
    places.require(found is not None, column, 0, message)
    assert found is not None
    return found


def _refuse_text(texts: list[str], column: str, places: CellPlaces) -> None:
    """Raises at the first cell of a time column that is unlike most."""
    kinds = [_kind(text) for text in texts]
    usual = max(("number", "date with a time zone", "date without a time zone"), key=kinds.count)
    row = next((i for i, kind in enumerate(kinds) if kind != usual), 0)
    said, kind = quoted(texts[row], 40), kinds[row]
    if kind == "text":
        why = next((why for pattern, why in REASONS.items() if re.search(pattern, texts[row])), "")
        message = f"{said} is neither a number nor a date.{why} {ISO}"
    elif kind == usual:
        message = f"the column holds dates so far apart, and so exact, that they cannot be kept. {ISO}"
    else:
        message = f"{said} is a {kind}, where most are a {usual}. {ISO}"
    raise ValueError(f"{places.at(column, row)}: {message}")


REASONS = {
    r":60(\D|$)": " Leap seconds cannot be told from others: write :59, or the minute after.",
    r"[T ]24:?0": " The end of a day is the beginning of the next: write 00:00 and its date.",
    r"[.,]\d{10}": " Seconds may have nine decimals.",
}


def _kind(text: str) -> str:
    if as_number(text) is not None:
        return "number"
    found = moment(text)
    return "text" if found is None else f"date with{'' if found[2] else 'out'} a time zone"
