"""The types of columns: the many that Arrow has become few, and each has a name in plain words."""

from typing import Any

import numpy as np

from .message_text import cut


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
    return _decoded(chunk) if pa.types.is_run_end_encoded(chunk.type) else chunk.storage


def _decoded(chunk: Any) -> Any:
    import pyarrow.compute as pc

    return pc.call_function("run_end_decode", [chunk])


def is_text(kind: Any) -> bool:
    """Whether a type is one of Arrow's for text."""
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind, "string")


def _is_bytes(kind: Any) -> bool:
    import pyarrow as pa

    return (
        pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or _is_view(kind, "binary")
    )


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
    cells = cells.cast(pa.binary()) if pa.types.is_fixed_size_binary(cells.type) else cells
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
        "bytes that are not text": _is_bytes,
    }
    return next(
        (word for word, asks in words.items() if asks(kind)),
        f"cells of the type {cut(getattr(kind, 'extension_name', kind), 40)}",
    )
