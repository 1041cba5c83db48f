"""Times of a table: numbers or dates, counted from where each series begins."""

import dataclasses
from datetime import datetime
from typing import Any, Literal

import numpy as np

from .. import checks
from .checking import Places, numbers
from .reading import Table

UNITS = {"seconds": 1e6, "minutes": 6e7, "hours": 3.6e9, "days": 8.64e10}  # in microseconds
ISO = "Write dates as 2026-11-15 or 2026-11-15T20:05:00, all with a time zone or all without."


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
        import pyarrow as pa

        kind = table.column(column).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            return cls("number")
        return cls("date", zone=getattr(kind, "tz", None))

    def read(self, table: Table, column: str, places: Places) -> np.ndarray:
        """The column as it is: float64, or whole microseconds since 1970 for dates."""
        import pyarrow as pa

        cells = table.column(column)
        kind = cells.type
        places.refuse(np.asarray(cells.is_null()), column, "the time is missing; fill it in or leave the row out.")
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            _refuse_text(cells, column, places, dates=self.kind == "date")
        dated = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        checks.require(
            dated == (self.kind == "date"),
            f"{places.at(column, 0)}: the column holds {'dates' if dated else 'numbers'}, but the model was fitted on "
            f"{'dates' if self.kind == 'date' else 'numbers'}.",
        )
        if not dated:
            found = numbers(table, column, places)
            places.refuse(np.isnan(found), column, "the time is missing; fill it in or leave the row out.")
            return found
        zone = getattr(kind, "tz", None)
        checks.require(
            (zone is None) == (self.zone is None),
            f"{places.at(column, 0)}: the dates {'lack a' if zone is None else 'have a'} time zone, and those that the model was "
            f"fitted on {'did not' if zone is None else 'had none'}. {ISO}",
        )
        return cells.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.int64()).to_numpy(zero_copy_only=False)

    def settled(self, t: np.ndarray, origins: np.ndarray, starts: np.ndarray) -> "Clock":
        """With a unit that suits the spans of the series, and the first time as zero.

        Arguments:
            t: times from their origins as this clock reads them, sorted within each series.
            origins: of each series.
            starts: where each series begins, and the end of the last.
        """
        span = np.median(t[starts[1:] - 1] - t[starts[:-1]])
        long_enough = [name for name, size in UNITS.items() if span >= 2 * size]
        unit = (long_enough or ["seconds"])[-1] if self.kind == "date" else None
        return dataclasses.replace(self, unit=unit, zero=(origins + t[starts[:-1]]).min().item())

    def relative(self, raw: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """Times from their origins, in the model's unit."""
        return (raw - origins).astype(np.float64) / (UNITS[self.unit] if self.unit else 1.0)

    def to_user(self, relative: np.ndarray, origins: np.ndarray) -> Any:
        """The inverse, as an Arrow array."""
        import pyarrow as pa

        if self.kind == "number":
            return pa.array(relative + origins)
        whole = np.round(relative * UNITS[self.unit or "seconds"]).astype(np.int64) + origins.astype(np.int64)
        return pa.array(whole, pa.int64()).cast(pa.timestamp("us", tz=self.zone))


def _refuse_text(cells: Any, column: str, places: Places, *, dates: bool) -> None:
    """Raises at text in a time column, unless all of it can be read as numbers: at the first cell that is unlike most."""
    texts = cells.to_pylist()
    kinds = [_kind(text.strip()) for text in texts]
    if set(kinds) == {"number"} and not dates:
        return
    usual = max(("number", "date with a time zone", "date without a time zone"), key=kinds.count)
    row = next((i for i, kind in enumerate(kinds) if kind != usual), 0)
    if kinds[row] == "text":
        raise ValueError(f"{places.at(column, row)}: {texts[row][:40]!r} is neither a number nor a date. {ISO}")
    raise ValueError(f"{places.at(column, row)}: {texts[row][:40]!r} is a {kinds[row]}, where most are a {usual}. {ISO}")


def _kind(text: str) -> str:
    try:
        float(text)
        return "number"
    except ValueError:
        pass
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return "text"
    tail = text[10:]
    return "date with a time zone" if tail.endswith("Z") or "+" in tail or "-" in tail else "date without a time zone"
