"""The types of columns: Arrow's many are reduced to a few, and each has a name for error messages."""

from typing import Any

import numpy as np

from . import arrow as pa
from .message_text import shorten


class BadCell(ValueError):
    """A cell that cannot be read; `row` is its row, counted from 0."""

    def __init__(self, row: int, message: str):
        super().__init__(message)
        self.row = row


def simplify(column: Any) -> Any:
    """Returns an Arrow column as one array of a simple type: text as `large_string`, floats as `double` without NaN.

    Raises:
        BadCell: where text is not UTF-8.
    """
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    chunks = column.chunks or [pa.nulls(0, column.type)]
    while _is_packed(chunks[0].type):
        chunks = [_unpack(chunk) for chunk in chunks]
    column = pa.chunked_array(chunks)
    kind = column.type
    if getattr(kind, "extension_name", "") == "arrow.uuid":
        column = pa.chunked_array([pa.array([None if x is None else str(x) for x in column.to_pylist()], pa.large_string())])
    elif pa.types.is_float16(kind) or pa.types.is_float32(kind):
        column = column.cast(pa.float32()).cast(pa.float64())
    elif is_text(kind) or _is_bytes(kind):
        column = _decode_text(column)
    elif pa.types.is_date64(kind):
        column = column.cast(pa.timestamp("ms"))  # it may hold times of day, which Python's dates do not
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_float64(array.type):
        values = array.fill_null(np.nan).to_numpy(zero_copy_only=False)
        array = pa.array(values, from_pandas=True) if np.isnan(values).any() else array
    return array


def _is_packed(kind: Any) -> bool:
    """Returns whether a type is a dictionary, run lengths, or an extension that only renames a plain type."""
    renames = getattr(kind, "extension_name", "") in ("arrow.json", "arrow.bool8")
    return renames or pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)


def _unpack(chunk: Any) -> Any:
    if pa.types.is_dictionary(chunk.type):
        return chunk.dictionary_decode()
    return pa.compute.run_end_decode(chunk) if pa.types.is_run_end_encoded(chunk.type) else chunk.storage


def is_text(kind: Any) -> bool:
    """Returns whether an Arrow type is text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_bytes(kind: Any) -> bool:
    tests = (pa.types.is_fixed_size_binary, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests)


def is_number(kind: Any) -> bool:
    """Returns whether an Arrow type is a number."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_date(kind: Any) -> bool:
    """Returns whether an Arrow type is a date, with a time of day or without."""
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _decode_text(column: Any) -> Any:
    """Returns text, and bytes that are UTF-8, as `large_string`; other bytes stay as they are."""
    text = is_text(column.type)
    column = column.cast(pa.binary()) if pa.types.is_fixed_size_binary(column.type) else column
    try:
        column.validate(full=True)
        return column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:  # views, in older versions of Arrow
        return pa.chunked_array([pa.array(column.to_pylist(), pa.large_string())])
    except pa.ArrowInvalid:
        if not text:
            return column
    for row, x in enumerate(column.cast(pa.large_binary()).to_pylist()):
        try:
            (x or b"").decode()
        except UnicodeDecodeError:
            raise BadCell(row, "the text is not UTF-8. Write the file again, in UTF-8.") from None
    raise BadCell(0, "the text is damaged. Write the file again.")


def describe_type(kind: Any) -> str:
    """Returns what a column of this Arrow type holds, in plain words."""
    descriptions = {
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
        "bytes that are not text": _is_bytes,
    }
    unknown = f"cells of the type {shorten(getattr(kind, 'extension_name', kind), 40)}"
    return next((description for description, test in descriptions.items() if test(kind)), unknown)
