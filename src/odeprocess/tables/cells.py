"""What cells are: text becomes numbers or dates, the many types of Arrow become few, and Python's objects become Arrow's."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from .instants import DIGITS, WHOLE
from .wording import cut, quoted

TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
# What a CSV file may hold where nothing was measured; the list that Arrow and pandas know.
NOTHING = tuple(",#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,N/A,NA,NULL,NaN,n/a,nan,null".split(","))
EPOCH = datetime(1970, 1, 1)
FIRST, LAST = (int((day - EPOCH).total_seconds()) for day in (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
MOMENT = re.compile(
    r"(?P<day>[0-9W-]{7,10})(?:[T ](?P<time>[0-9:]{2,8})(?:[.,](?P<part>[0-9]{1,9})0*)?(?P<zone>Z|[+-][0-9:]{2,8})?)?"
)


def _compute() -> Any:
    """Arrow's functions, which it makes when it is imported."""
    import pyarrow.compute

    return pyarrow.compute


class Unsound(ValueError):
    """A column that cannot be read: which row, and what is wrong there."""

    def __init__(self, row: int, message: str):
        super().__init__(message)
        self.row = row


def plain(cells: Any) -> Any:
    """An Arrow column in one piece: text is `large_string`, floats are `double` and never NaN; the rest stays as it is.

    Raises:
        Unsound: at text that is not UTF-8.
    """
    import pyarrow as pa

    cells = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])
    while (inner := _inner(cells.type)) is not None:
        cells = pa.chunked_array([_opened(chunk) for chunk in cells.chunks], inner)
    kind = cells.type
    if getattr(kind, "extension_name", "") == "arrow.uuid":
        cells = pa.chunked_array([pa.array([None if x is None else str(x) for x in cells.to_pylist()], pa.large_string())])
    elif pa.types.is_float16(kind):
        cells = cells.cast(pa.float32()).cast(pa.float64())
    elif pa.types.is_float32(kind):
        cells = cells.cast(pa.float64())
    elif is_text(kind) or _is_bytes(kind):
        cells = _as_text(cells)
    elif pa.types.is_date64(kind):
        cells = cells.cast(pa.timestamp("ms"))  # it may hold times of day, which Python's dates do not
    found = cells.combine_chunks() if cells.num_chunks != 1 else cells.chunk(0)
    if pa.types.is_float64(found.type):
        values = found.fill_null(np.nan).to_numpy(zero_copy_only=False)
        found = pa.array(values, from_pandas=True) if np.isnan(values).any() else found
    return found


def _inner(kind: Any) -> Any:
    """The type of what is packed in a dictionary or in runs, or of an extension that only names a plain type."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_run_end_encoded(kind):
        return kind.value_type
    if getattr(kind, "extension_name", "") in ("arrow.json", "arrow.bool8"):
        return kind.storage_type
    return None


def _opened(chunk: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(chunk.type):
        return chunk.dictionary_decode()
    return _compute().run_end_decode(chunk) if pa.types.is_run_end_encoded(chunk.type) else chunk.storage


def is_text(kind: Any) -> bool:
    """Whether a type is one of Arrow's for text."""
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind, "string")


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_view(kind, "binary")


def _is_view(kind: Any, of: str) -> bool:
    return str(kind) == f"{of}_view"


def is_number(kind: Any) -> bool:
    """Whether a type is one of Arrow's for numbers."""
    import pyarrow as pa

    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_date(kind: Any) -> bool:
    """Whether a type is one of Arrow's for dates, with a time of day or without."""
    import pyarrow as pa

    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _as_text(cells: Any) -> Any:
    """Text as `large_string`; bytes too, if they are UTF-8, and as they are if not."""
    import pyarrow as pa

    said = is_text(cells.type)
    try:
        cells.validate(full=True)
        return cells.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # views, in older versions of Arrow
        return pa.chunked_array([pa.array(cells.to_pylist(), pa.large_string())])
    except pa.ArrowInvalid:
        if not said:
            return cells
    for row, x in enumerate(cells.cast(pa.large_binary()).to_pylist()):
        try:
            (x or b"").decode()
        except UnicodeDecodeError:
            raise Unsound(row, "the text is not UTF-8. Write the file again, in UTF-8.") from None
    raise Unsound(0, "the text is damaged. Write the file again.")


def kind_name(kind: Any) -> str:
    """What a column holds whose cells are neither numbers, text nor dates, in plain words."""
    import pyarrow as pa

    words = {
        "times of day": pa.types.is_time,
        "durations": pa.types.is_duration,
        "dates or times": pa.types.is_temporal,
        "structs": pa.types.is_struct,
        "maps": pa.types.is_map,
        "unions": pa.types.is_union,
        "lists": pa.types.is_nested,
        "true or false": pa.types.is_boolean,
        "text": is_text,
        "numbers": is_number,
        "nothing": pa.types.is_null,
        "bytes that are not text": lambda kind: _is_bytes(kind) or pa.types.is_fixed_size_binary(kind),
    }
    return next(
        (word for word, asks in words.items() if asks(kind)),
        f"cells of the type {cut(getattr(kind, 'extension_name', kind), 40)}",
    )


def sniffed(texts: Any) -> Any:
    """The text of a CSV file as what all of it can be read as: true or false, numbers, dates; or as the text that it is.

    Arguments:
        texts: trimmed, null where there is nothing.
    """
    import pyarrow as pa

    if texts.null_count == len(texts):
        return pa.nulls(len(texts))
    first = texts[_compute().index(texts.is_valid(), True).as_py()].as_py()
    if first in TRUE + FALSE:
        if not _compute().all(_compute().is_in(texts, pa.array([*TRUE, *FALSE, None], texts.type))).as_py():
            return texts
        true = _compute().is_in(texts, pa.array(TRUE, texts.type))
        return _compute().if_else(texts.is_valid(), true, pa.scalar(None, pa.bool_()))
    found = numbers(texts)
    if found is None:
        found = dates(texts)
    return texts if found is None else found


def trimmed(texts: Any) -> Any:
    """Text without blanks around it, null where nothing is left."""
    import pyarrow as pa

    texts = _compute().utf8_trim_whitespace(texts)
    return _compute().if_else(_compute().equal(texts, ""), pa.scalar(None, texts.type), texts)


def numbers(texts: Any) -> Any:
    """Trimmed text as float64, or `None` where some of it is no number in plain digits."""
    import pyarrow as pa

    try:
        return _compute().cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None


def doubtful(texts: Any, rounded: np.ndarray) -> np.ndarray:
    """The places of numbers that may have more digits than float64 holds: a quick look at all."""
    import pyarrow as pa

    long = np.asarray(_compute().greater(_compute().utf8_length(texts), DIGITS))
    other = np.asarray(_compute().not_equal(pa.array(rounded).cast(texts.type), texts))
    return np.flatnonzero(long & (other | (np.abs(rounded) >= WHOLE)))


def whole_numbers(texts: Any) -> np.ndarray | None:
    """Text that stands for numbers as int64, or `None` where some are not whole, or too long."""
    import pyarrow as pa

    try:
        return texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None


def number(text: str) -> float | None:
    """One cell; where Arrow and Python differ (1_000, ٣, 0x10) it is no number."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def dates(texts: Any) -> Any:
    """Trimmed text as time stamps, all with a time zone (they become UTC) or all without; `None` where some is no date."""
    import pyarrow as pa

    first = texts[_compute().index(texts.is_valid(), True).as_py()].as_py() if texts.null_count < len(texts) else ""
    found = moment(first)
    if found is None:
        return None
    zone = "UTC" if found[2] else None
    for unit in ("us", "ns"):
        try:
            return _compute().cast(texts, pa.timestamp(unit, zone))
        except pa.ArrowInvalid:
            pass
    listed = texts.to_pylist()
    each = [None if text is None else moment(text) for text in listed]
    if any(text is not None and (x is None or x[2] != found[2]) for x, text in zip(each, listed, strict=True)):
        return None
    finer = any(x is not None and x[1] for x in each)
    ticks = [None if x is None else x[0] * 1000 + x[1] if finer else x[0] for x in each]
    try:
        return pa.array(ticks, pa.int64()).cast(pa.timestamp("ns" if finer else "us", zone))
    except (pa.ArrowInvalid, OverflowError):  # parts of microseconds far from 1970
        return None


def moment(text: str) -> tuple[int, int, bool] | None:
    """A date in a form of ISO 8601: microseconds since 1970, nanoseconds beyond them, and whether it has a time zone."""
    found = MOMENT.fullmatch(text)
    if found is None or (found["day"].isdigit() and found["time"] is None):  # such as 20260105: a number
        return None
    clock = (found["time"] or "00").replace(":", "")
    if clock.startswith("24") or (found["part"] and len(clock) != 6):
        return None
    try:
        at = datetime.fromisoformat(f"{found['day']}T{found['time'] or '00'}{found['zone'] or ''}")
        zoned = at.tzinfo is not None
        at = at.astimezone(UTC).replace(tzinfo=None) if zoned else at
    except (ValueError, OverflowError):
        return None
    part = int((found["part"] or "").ljust(9, "0"))
    return (at - EPOCH) // timedelta(microseconds=1) + part // 1000, part % 1000, zoned


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
    """NumPy's scalars as Python's own."""
    if isinstance(x, (np.bool_, np.integer, np.str_, np.bytes_)):
        return x.item() if not isinstance(x, np.str_) else str(x)
    if isinstance(x, np.floating):
        return float(x)
    return str(x) if isinstance(x, np.datetime64) else x


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
