"""Names and cells for error messages: printable, on one line, and shortened where they are long or many."""

from collections.abc import Sequence
from typing import Any

MAX_LENGTH, MAX_NAMES = 60, 8  # characters of a text, and names of a list, that a message repeats; chosen by hand
MAX_PATH_LENGTH = 200  # characters; chosen by hand


def shorten(text: Any, length: int = MAX_LENGTH) -> str:
    """Returns the beginning of a text, with unprintable characters escaped."""
    text = str(text)
    shown = text[:length] + ("…" if len(text) > length else "")
    return shown if shown.isprintable() else repr(shown)[1:-1]


def quote(x: Any, length: int = MAX_LENGTH) -> str:
    """Returns the beginning of `repr(x)`, with its quotes closed."""
    if not isinstance(x, str):
        return shorten(repr(x), length)
    return repr(x) if len(x) <= length else f"{x[:length]!r}…"


def name_column(name: Any) -> str:
    """Returns how messages name a column."""
    return f"column `{shorten(name)}`" if name != "" else "the column without a name"


def name_file(path: Any) -> str:
    """Returns how messages name a file: of a long path, its end."""
    text = str(path)
    return shorten(text if len(text) <= MAX_PATH_LENGTH else f"…{text[-MAX_PATH_LENGTH:]}", MAX_PATH_LENGTH + 1)


def join_names(names: Sequence[Any], mark: str = "'", most: int = MAX_NAMES) -> str:
    """Returns the first names between marks, and how many more there are."""
    shown = ", ".join(f"{mark}{shorten(name)}{mark}" for name in names[:most])
    return f"{shown}, and {len(names) - most:,} more" if len(names) > most else shown
