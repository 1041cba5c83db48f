"""Columns of data frames as Arrow arrays; Python's objects one by one, since Arrow's guess drops nanoseconds and time zones."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from odeprocess.common import checks

from . import arrow as pa
from .column_types import BadCell
from .csv_files import check_column_names
from .exact_times import WHOLE
from .message_text import quote, shorten


def check_frame(table: Any) -> None:
    """Raises unless every column of a data frame has a name of its own."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    odd = next((name for name in names if not isinstance(name, str)), None)
    checks.require(
        all(isinstance(name, str) for name in names),
        f"A column of the table is called {quote(odd)}; expected text. Rename the columns first.",
    )
    check_column_names(names, "The table")


def read_frame_column(frame: Any, name: str) -> Any:
    """Returns a column of a narwhals data frame as an Arrow array."""
    column = frame.get_column(name)
    kind = getattr(column.to_native(), "dtype", "")
    kinds = {str(kind).lower(), str(getattr(getattr(kind, "categories", ""), "dtype", "")).lower()}
    if "object" not in kinds:
        try:
            return column.to_arrow()
        except (pa.ArrowException, OverflowError, TypeError, ValueError, NotImplementedError):
            pass
    return convert_objects(column.to_list())


def convert_objects(values: Sequence[Any]) -> Any:
    """Returns Python's objects as an Arrow array; a mix of text and other things becomes text.

    Raises:
        BadCell: at an object that cannot be written as text.
    """
    values = list(values)
    if {str} >= set(map(type, values)) - {type(None)}:
        return _convert_text(values)
    values = [None if _is_missing(x) else _to_builtin(x) for x in values]
    kinds = {_kind_of(x) for x in values if x is not None}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {"whole"}:
        return _convert_whole(values)
    if kinds <= {"whole", "float"} and all(abs(x) <= WHOLE for x in values if isinstance(x, int)):
        return pa.array([None if x is None else float(x) for x in values], pa.float64())
    if kinds <= {"date", "naive"} or kinds == {"aware"}:
        return _convert_dates(values, kinds)
    if len(kinds) == 1:
        try:
            return pa.array(values, from_pandas=True)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass
    return _convert_text([None if x is None else _to_text(x, row) for row, x in enumerate(values)])


def _is_missing(x: Any) -> bool:
    if isinstance(x, (float, np.floating, Decimal)):
        return x != x
    if isinstance(x, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(x))
    return x is None or type(x).__name__ in ("NAType", "NaTType")


def _to_builtin(x: Any) -> Any:
    """Returns NumPy's scalars as Python's own; dates and durations as text, since `item` turns some of them into numbers."""
    if isinstance(x, (np.datetime64, np.timedelta64, np.str_)):
        return str(x)
    if isinstance(x, np.floating):
        return float(x)
    return x.item() if isinstance(x, (np.bool_, np.integer, np.bytes_)) else x


def _kind_of(x: Any) -> str:
    if isinstance(x, bool):
        return "bool"
    if isinstance(x, datetime):
        return "naive" if x.tzinfo is None else "aware"
    kinds = {str: "text", int: "whole", float: "float", Decimal: "decimal", date: "date", bytes: "bytes"}
    return next((name for kind, name in kinds.items() if isinstance(x, kind)), type(x).__name__)


def _convert_text(values: list[Any]) -> Any:
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError:
        row = next(i for i, x in enumerate(values) if x is not None and re.search("[\ud800-\udfff]", x))
        raise BadCell(row, f"{quote(values[row])} holds half a character, which UTF-8 cannot encode.") from None


def _convert_whole(values: list[Any]) -> Any:
    """Returns whole numbers as integers where 64 bits hold them, otherwise as decimals."""
    for kind in (pa.int64(), pa.uint64()):
        try:
            return pa.array(values, kind)
        except (OverflowError, pa.ArrowInvalid):
            pass
    try:
        return pa.array([None if x is None else Decimal(x) for x in values])
    except (pa.ArrowInvalid, OverflowError, ValueError):
        row = next(i for i, x in enumerate(values) if x is not None and abs(x) >= 10**76)
        raise BadCell(row, "the whole number has more than 76 digits.") from None


def _convert_dates(values: list[Any], kinds: set[str]) -> Any:
    """Returns dates with all their digits; a day among times of day means its midnight."""
    if kinds == {"date"}:
        return pa.array(values, pa.date32())
    unit = "ns" if any(getattr(x, "nanosecond", 0) for x in values) else "us"
    zone = pa.infer_type([x for x in values if x is not None]).tz if kinds == {"aware"} else None
    moments = [x if x is None or isinstance(x, datetime) else datetime(x.year, x.month, x.day) for x in values]
    try:
        return pa.array(moments, pa.timestamp(unit, zone))
    except (pa.ArrowInvalid, OverflowError, ValueError) as error:
        raise BadCell(0, "the column holds dates that lie too far apart, or too close together, to be kept.") from error


def _to_text(x: Any, row: int) -> str:
    """Returns an object as text, if its type defines any."""
    kind = shorten(type(x).__name__)
    no_text = type(x).__str__ is object.__str__ and type(x).__repr__ is object.__repr__
    if no_text or isinstance(x, (list, tuple, dict, set, np.ndarray)):
        raise BadCell(row, f"the cell holds an object of the type {kind}; expected text, a number or a date.")
    try:
        x = x.decode() if isinstance(x, bytes) else x
        return x if isinstance(x, str) else x.isoformat(" ") if isinstance(x, datetime) else str(x)
    except Exception as error:  # the class of a user may raise anything
        raise BadCell(row, f"the cell holds an object of the type {kind} that cannot be written as text.") from error
