"""Python's objects as a column of Arrow, which would guess at them: it drops nanoseconds, times of day and time zones."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from .column_types import Unsound
from .message_text import cut, quoted


def from_objects(values: Sequence[Any]) -> Any:
    """Python's objects as an Arrow column; a mix of text and other things becomes text.

    Raises:
        Unsound: at an object that says nothing about itself.
    """
    import pyarrow as pa

    values = list(values)
    if {str} >= set(map(type, values)) - {type(None)}:
        return _texts(values)
    values = [None if _is_missing(x) else _simple(x) for x in values]
    kinds = {_kind_of(x) for x in values if x is not None}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {"whole"}:
        return _whole(values)
    if kinds <= {"whole", "float"} and all(abs(x) <= 2**53 for x in values if isinstance(x, int)):
        return pa.array([None if x is None else float(x) for x in values], pa.float64())
    if kinds <= {"date", "naive"} or kinds == {"aware"}:
        return _moments(values, kinds)
    if len(kinds) == 1:
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass
    return _texts([None if x is None else _spoken(x, row) for row, x in enumerate(values)])


def _is_missing(x: Any) -> bool:
    if isinstance(x, (float, np.floating, Decimal)):
        return x != x
    if isinstance(x, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(x))
    return x is None or type(x).__name__ in ("NAType", "NaTType")


def _simple(x: Any) -> Any:
    """NumPy's scalars as Python's own; dates and durations as text, since some of them would become numbers."""
    if isinstance(x, (np.datetime64, np.timedelta64)):
        return str(x)
    if isinstance(x, (np.bool_, np.integer, np.str_, np.bytes_)):
        return x.item() if not isinstance(x, np.str_) else str(x)
    if isinstance(x, np.floating):
        return float(x)
    return x


def _kind_of(x: Any) -> str:
    if isinstance(x, bool):
        return "bool"
    if isinstance(x, datetime):
        return "naive" if x.tzinfo is None else "aware"
    kinds = {str: "text", int: "whole", float: "float", Decimal: "decimal", date: "date", bytes: "bytes"}
    return next((word for kind, word in kinds.items() if isinstance(x, kind)), type(x).__name__)


def _texts(values: list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError:
        row = next(i for i, x in enumerate(values) if x is not None and re.search("[\ud800-\udfff]", x))
        raise Unsound(row, f"{quoted(values[row])} holds half a character, which UTF-8 cannot say.") from None


def _whole(values: list[Any]) -> Any:
    """The shortest type that holds them; decimal numbers, where 64 bits do not."""
    import pyarrow as pa

    for kind in (pa.int64(), pa.uint64()):
        try:
            return pa.array(values, kind)
        except (OverflowError, pa.ArrowInvalid):
            pass
    try:
        return pa.array([None if x is None else Decimal(x) for x in values])
    except (pa.ArrowInvalid, OverflowError, ValueError):
        row = next(i for i, x in enumerate(values) if x is not None and abs(x) >= 10**76)
        raise Unsound(row, "the whole number has more than 76 digits.") from None


def _moments(values: list[Any], kinds: set[str]) -> Any:
    """Dates and times of day as they are; a date among them means its midnight."""
    import pyarrow as pa

    if kinds == {"date"}:
        return pa.array(values, pa.date32())
    unit = "ns" if any(getattr(x, "nanosecond", 0) for x in values) else "us"
    zone = pa.infer_type([x for x in values if x is not None]).tz if kinds == {"aware"} else None
    whole = [x if x is None or isinstance(x, datetime) else datetime(x.year, x.month, x.day) for x in values]
    try:
        return pa.array(whole, pa.timestamp(unit, zone))
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise Unsound(0, "the column holds dates that lie too far apart, or too close together, to be kept.") from error


def _type_name(x: Any) -> str:
    return cut(type(x).__name__)


def _spoken(x: Any, row: int) -> str:
    """An object as text, if it says anything."""
    silent = type(x).__str__ is object.__str__ and type(x).__repr__ is object.__repr__
    if silent or isinstance(x, (list, tuple, dict, set, np.ndarray)):
        raise Unsound(row, f"the cell holds an object of the type {_type_name(x)}; expected text, a number or a date.")
    try:
        x = x.decode() if isinstance(x, bytes) else x
        return x if isinstance(x, str) else x.isoformat(" ") if isinstance(x, datetime) else str(x)
    except Exception as error:  # whatever a stranger's class does
        raise Unsound(row, f"the cell holds an object of the type {_type_name(x)} that cannot be written as text.") from error
