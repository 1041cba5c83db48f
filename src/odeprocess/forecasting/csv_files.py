"""CSV files as columns of text: every fault of the file is found here, and named by its row."""

import codecs
import csv
import gzip
import io
import itertools
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odeprocess.common import checks

from .message_text import column_name, cut, place_of, quoted
from .parse_text import NOTHING

MOST_COLUMNS = 16_384  # as many as a spreadsheet has; a long table needs a few, and each costs time whether it is used or not
LONGEST_NAME = 1_000  # characters of a column's name
LONGEST_ROW = 16 * 2**20  # bytes
BLOCK = 2**20  # bytes that are looked at together
BOMB, LEAST_BOMB = 100, 256 * 2**20  # a packed file may grow to so many times its size, or to so many bytes


def is_packed(path: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return path.name.lower().endswith(".gz")


def separator_of(path: Path, separator: str) -> str:
    """What stands between the cells of a file."""
    good = isinstance(separator, str) and len(separator) == 1 and separator.isascii() and separator not in '"\r\n\0'
    checks.require(good, f"`separator` is {quoted(separator)}; expected one character, such as ';'.")
    return "\t" if path.name.lower().endswith(".tsv") else separator


def read(path: Path, separator: str) -> Any:
    """The file as an Arrow table whose columns are all text, null where nothing is said.

    Raises:
        ValueError: where it is damaged, or no CSV; the message names file and row.
    """
    import pyarrow as pa
    import pyarrow.csv

    separator = separator_of(path, separator)
    quotes, longest = _scan(path, separator)
    names = _header(path, separator)
    check_names(names, place_of(path))
    if len(names) == 1:
        _check_separator(path, separator, names[0])
    if quotes:
        longest = max(longest, _check_quotes(path, separator, len(names)))
    options = {
        "read_options": pyarrow.csv.ReadOptions(block_size=min(max(BLOCK, 2 * longest), 2**30)),
        "parse_options": pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=quotes),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=NOTHING, strings_can_be_null=True
        ),
    }
    try:
        # Not through a file of Python's: Arrow's threads read ahead, and would be cut short where a program ends after an error.
        with pa.OSFile(os.fsencode(path)) as file:
            table = pyarrow.csv.read_csv(pa.CompressedInputStream(file, "gzip") if is_packed(path) else file, **options)
    except pa.ArrowInvalid as error:
        raise ValueError(_trouble(path, separator, len(names), str(error))) from None
    checks.require(table.column_names == names, f"{place_of(path)} could not be read as CSV: its header is odd.")
    return table


def check_names(names: list[str], source: str) -> None:
    """Raises where a table has too many columns, two of one name, or names that are no names."""
    checks.require(
        len(names) <= MOST_COLUMNS,
        f"{source} has {len(names):,} columns; expected {MOST_COLUMNS:,} at most. Keep those that are needed: a long table has "
        "one for the series, one for the time, and one for each variable.",
    )
    odd = next((i for i, name in enumerate(names) if len(name) > LONGEST_NAME), None)
    if odd is not None:
        raise ValueError(
            f"{source}: the name of column {odd + 1} has {len(names[odd]):,} characters ({quoted(names[odd], 20)}); expected "
            f"{LONGEST_NAME:,} at most. Is the header missing, or a line end?"
        )
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    what = f"columns `{cut(name)}`" if name else "columns without a name"
    checks.require(count < 2, f"{source} has {count:,} {what}; rename or drop all but one.")


def row_at(path: Path, separator: str, index: int) -> int:
    """The line of a CSV file on which row `index` of its table begins, the header being row 0: blank lines are no rows."""
    rows = _rows(path, separator_of(path, separator))
    return next(itertools.islice(rows, index, None), (index + 1, []))[0]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The bytes of a file, unpacked if its name says so."""
    try:
        with gzip.open(path) if is_packed(path) else open(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(
            f"{place_of(path)} is not compressed as its name says, or is damaged. Write it again, or fetch a sound copy."
        ) from None


def _scan(path: Path, separator: str) -> tuple[bool, int]:
    """Whether there are quotes, and how long the longest lines may be; raises where the file is not text."""
    decoder, quotes, longest, run, size = codecs.getincrementaldecoder("utf-8")(), False, 0, 0, 0
    most = max(LEAST_BOMB, BOMB * path.stat().st_size) if is_packed(path) else sys.maxsize
    with _opened(path) as file:
        while chunk := file.read(BLOCK):
            if not size:
                _check_start(path, chunk)
            _check_text(path, separator, decoder, chunk, size)
            quotes = quotes or b'"' in chunk
            size += len(chunk)
            checks.require(
                size <= most,
                f"{place_of(path)} grows to more than {most:,} bytes when it is unpacked. If that is right, unpack it yourself "
                "and pass the file that comes out.",
            )
            ends = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            begins = min((at for at in (chunk.find(b"\n"), chunk.find(b"\r")) if at >= 0), default=len(chunk))
            longest, run = max(longest, run + begins), len(chunk) - 1 - ends if ends >= 0 else run + len(chunk)
            checks.require(
                max(longest, run) <= LONGEST_ROW,
                f"{place_of(path)} has a row of more than {LONGEST_ROW:,} bytes. Are line ends missing?",
            )
    checks.require(size > 0, f"{place_of(path)} is empty; expected a header with the names of the columns, then rows.")
    _check_text(path, separator, decoder, b"", size, final=True)
    return quotes, max(longest, run)


def _check_start(path: Path, start: bytes) -> None:
    checks.require(
        start[:2] not in (b"\xff\xfe", b"\xfe\xff"),
        f"{place_of(path)} is written in UTF-16; save it as UTF-8 (in Excel: 'CSV UTF-8').",
    )
    checks.require(
        start[:4] != b"PK\x03\x04", f"{place_of(path)} is a spreadsheet or a zip archive, not CSV. Save the sheet as CSV."
    )
    checks.require(start[:4] != b"PAR1", f"{place_of(path)} is a Parquet file, not CSV. Give it the ending .parquet.")
    checks.require(
        start[:2] != b"\x1f\x8b",
        f"{place_of(path)} is compressed twice. Unpack it."
        if is_packed(path)
        else f"{place_of(path)} is compressed. Give it the ending .csv.gz, or unpack it.",
    )


def _check_text(path: Path, separator: str, decoder: Any, chunk: bytes, before: int, *, final: bool = False) -> None:
    """Raises unless the next bytes of a file are UTF-8, without NUL."""
    at = chunk.find(b"\0")
    if at >= 0:
        raise ValueError(
            f"{place_of(path)}, row {_line_of(path, before + at)[0]}: the file holds bytes that are 0, so it is not text, or is "
            "damaged. Save the table as CSV in UTF-8."
        )
    kept = len(decoder.getstate()[0])
    try:
        decoder.decode(chunk, final)
    except UnicodeDecodeError as error:
        row, line = _line_of(path, before - kept + error.start)
        raise ValueError(
            f"{place_of(path)}{_column_of(path, separator, line)}, row {row}: the text is not UTF-8. Save the file as UTF-8 (in "
            "Excel: 'CSV UTF-8')."
        ) from None


def _line_of(path: Path, at: int) -> tuple[int, bytes]:
    """The number of the line with byte `at`, and what it holds before that."""
    with _opened(path) as file:
        lines, rest, last = 1, b"", b""
        while at > 0 and (chunk := file.read(min(BLOCK, at))):
            at -= len(chunk)
            lines += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n") - (last == b"\r" and chunk[:1] == b"\n")
            last, rest = chunk[-1:], (rest + chunk)[max((rest + chunk).rfind(b"\n"), (rest + chunk).rfind(b"\r")) + 1 :]
    return lines, rest


def _column_of(path: Path, separator: str, line: bytes) -> str:
    """Which column the end of a line lies in, where that is plain."""
    try:
        _, names = next(_rows(path, separator))
    except (_Misquoted, StopIteration):
        return ""
    place = line.count(separator.encode())
    return f", {column_name(names[place])}" if place < len(names) and b'"' not in line else ""


def _rows(path: Path, separator: str, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Lines on which the rows of a file begin, and their cells; blank lines are no rows."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))  # of the whole process; raising it harms nobody
    with _opened(path) as file:
        reader = csv.reader(io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline=""), delimiter=separator, strict=strict)
        before = 0
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise _Misquoted(before + 1, str(error)) from None
            if cells:
                yield before + 1, cells
            before = reader.line_num


class _Misquoted(ValueError):
    def __init__(self, row: int, said: str):
        super().__init__(said)
        self.row = row


def _header(path: Path, separator: str) -> list[str]:
    try:
        found = next(_rows(path, separator, strict=True), None)
    except _Misquoted as error:
        raise ValueError(_misquoted(path, error.row)) from None
    checks.require(found is not None, f"{place_of(path)} could not be read as CSV: it holds blank lines only.")
    assert found is not None
    return found[1]


def _misquoted(path: Path, row: int) -> str:
    return (
        f"{place_of(path)}, row {row}: a quote opens here that is not closed before a separator or a line end. Close it; a quote "
        'inside a quoted cell is written twice ("").'
    )


def _check_quotes(path: Path, separator: str, columns: int) -> int:
    """Raises where a quote swallows cells or rows; returns how long the longest row may be that has several lines."""
    longest, size, last = 0, 0, 0
    try:
        for row, cells in _rows(path, separator, strict=True):
            if len(cells) != columns:
                raise ValueError(_ragged(path, row, cells, columns, separator))
            if row > last + 1:  # the row before had several lines, or blank ones follow it
                longest = max(longest, size)
            size, last = 4 * sum(map(len, cells)) + 3 * columns, row
        return max(longest, size)
    except _Misquoted as error:
        raise ValueError(_misquoted(path, error.row)) from None


def _check_separator(path: Path, separator: str, name: str) -> None:
    other = next((s for s in ";\t|, " if s in name and s != separator), None)
    checks.require(
        other is None,
        f"{place_of(path)} has one column, `{cut(name)}`: it seems to be separated by {other!r}, not by {separator!r}. "
        f"Pass separator={other!r} (--separator {other!r}).",
    )


def _ragged(path: Path, row: int, cells: list[str], columns: int, separator: str) -> str:
    return (
        f"{place_of(path)}, row {row}: {len(cells):,} cells where the header names {columns:,} columns: "
        f"{quoted(separator.join(cells[:40]))}. Mend that row; text that holds a {separator!r} must be quoted."
    )


def _trouble(path: Path, separator: str, columns: int, said: str) -> str:
    """What is wrong with a file that could not be parsed: the first row with too many or too few cells."""
    for row, cells in _rows(path, separator):
        if len(cells) != columns:
            return _ragged(path, row, cells, columns, separator)
    return f"{place_of(path)} could not be read as CSV: {cut(' '.join(said.split()), 200)}."
