"""Names that users choose (folders, columns, titles), made safe for display and for file names."""

import unicodedata
from collections.abc import Iterable

LONGEST = 80  # characters of a name; chosen by hand
DEVICES = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{kind}{i}" for kind in ("com", "lpt") for i in range(1, 10)),
}  # names of devices, which cannot be files on Windows


def one_line(text: str) -> str:
    """A text for a terminal or a log: line ends and other control characters become escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def readable(name: str, longest: int = LONGEST) -> str:
    """The name on one line: controls, surrogates and marks that change the direction of text become �."""
    shown = "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in name)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def file_name(name: str, ending: str) -> str:
    """A name for a file with that ending: letters, digits, `-`, `_` and dots inside, so that it is never a path or an option."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)[:LONGEST]
    kept = kept.strip("._-")
    return f"{'model' if not kept or kept.split('.')[0].lower() in DEVICES else kept}{ending}"


def distinct(names: Iterable[str]) -> dict[str, str]:
    """The names by their readable forms, which are made different by numbers."""
    found: dict[str, str] = {}
    for name in names:
        shown, again = readable(name), 1
        while shown in found:
            again += 1
            shown = f"{readable(name)} ({again})"
        found[shown] = name
    return found
