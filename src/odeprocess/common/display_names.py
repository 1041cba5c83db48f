"""Names that somebody chose (folders, columns, titles), made fit to be shown and to name a file. They are data, never code."""

import unicodedata
from collections.abc import Iterable

LONGEST = 80  # characters
DEVICES = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{kind}{i}" for kind in ("com", "lpt") for i in range(1, 10)),
}  # no file names on Windows


def one_line(text: str) -> str:
    """A text with names in it, for a terminal or a log: line ends and other controls are written as escapes, and do nothing."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def readable(name: str, longest: int = LONGEST) -> str:
    """The name on one line: what cannot be shown (controls, surrogates, marks that turn the order of letters) becomes �."""
    shown = "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in name)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def file_name(name: str, ending: str) -> str:
    """A name for a file with that ending: letters, digits, `-`, `_` and dots inside, so that it is never a path or an option."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)[:LONGEST]
    kept = kept.strip("._-")
    return f"{'model' if not kept or kept.split('.')[0].lower() in DEVICES else kept}{ending}"


def distinct(names: Iterable[str]) -> dict[str, str]:
    """Readable forms of names, no two alike, and the name behind each."""
    found: dict[str, str] = {}
    for name in names:
        shown, again = readable(name), 1
        while shown in found:
            again += 1
            shown = f"{readable(name)} ({again})"
        found[shown] = name
    return found
