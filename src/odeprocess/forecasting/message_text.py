"""Names and cells in messages: on one line, and cut where they are long or many."""

from collections.abc import Sequence
from typing import Any

LONGEST, MOST = 60, 8  # characters of a text, and texts of a list, that a message repeats
LONGEST_PATH = 200


def cut(text: Any, longest: int = LONGEST) -> str:
    """The beginning of a text, with whatever cannot be printed escaped."""
    text = str(text)
    shown = text[:longest] + ("…" if len(text) > longest else "")
    return shown if shown.isprintable() else repr(shown)[1:-1]


def quoted(x: Any, longest: int = LONGEST) -> str:
    """The beginning of `repr(x)`, quotes closed."""
    if not isinstance(x, str):
        return cut(repr(x), longest)
    return repr(x) if len(x) <= longest else f"{x[:longest]!r}…"


def column_name(name: Any) -> str:
    """A column as messages name it."""
    return f"column `{cut(name)}`" if name != "" else "the column without a name"


def place_of(path: Any) -> str:
    """A file as messages name it: the end of a long path says more than its beginning."""
    text = str(path)
    return cut(text if len(text) <= LONGEST_PATH else f"…{text[-LONGEST_PATH:]}", LONGEST_PATH + 1)


def listed(names: Sequence[Any], mark: str = "'", most: int = MOST) -> str:
    """The first names between marks, and how many more there are."""
    shown = ", ".join(f"{mark}{cut(name)}{mark}" for name in names[:most])
    return f"{shown}, and {len(names) - most:,} more" if len(names) > most else shown
