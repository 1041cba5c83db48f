"""CSV files as columns of text; a fault in a file raises an error that names its row."""

import csv
import dataclasses
import gzip
import io
import itertools
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common import checks

from . import arrow as pa
from .message_text import name_column, name_file, quote, shorten
from .parse_text import MISSING
from .table_limits import CSV_BYTES, CSV_RATIO, MAX_COLUMNS, MAX_NAME_LENGTH, MAX_ROW_BYTES


def is_compressed(path: Path) -> bool:
    """Returns whether a file is compressed, by its name."""
    return path.name.lower().endswith(".gz")


def choose_separator(path: Path, separator: str) -> str:
    """Returns the separator of a file's cells: a tab for `.tsv`, otherwise the user's choice, checked."""
    good = isinstance(separator, str) and len(separator) == 1 and separator.isascii() and separator not in '"\r\n\0'
    checks.require(good, f"`separator` is {quote(separator)}; expected one character, such as ';'.")
    return "\t" if path.name.lower().endswith(".tsv") else separator


def read_csv(path: Path, separator: str) -> Any:
    """Returns the file as an Arrow table whose columns are all text, null where a cell is missing.

    Raises:
        ValueError: where it is damaged, or no CSV; the message names file and row.
    """
    file = _CsvFile.load(path, separator)
    _check_text(file)
    _, names = next(file.rows(strict=True), (0, []))
    checks.require(bool(names), f"{file.name} could not be read as CSV: it holds blank lines only.")
    check_column_names(names, file.name)
    if len(names) == 1:
        _check_separator(file, names[0])
    has_quotes = b'"' in file.content
    if has_quotes:
        _check_rows(file, len(names))
    # A row must fit into two of Arrow's blocks; its characters have up to four bytes in UTF-8.
    read_options = pa.csv.ReadOptions(block_size=8 * MAX_ROW_BYTES)
    parse_options = pa.csv.ParseOptions(delimiter=file.separator, newlines_in_values=has_quotes)
    types = dict.fromkeys(names, pa.string())
    convert_options = pa.csv.ConvertOptions(column_types=types, null_values=MISSING, strings_can_be_null=True)
    try:
        table = pa.csv.read_csv(pa.BufferReader(file.content), read_options, parse_options, convert_options)
    except pa.ArrowInvalid as error:
        _check_rows(file, len(names))
        raise ValueError(f"{file.name} could not be read as CSV: {shorten(' '.join(str(error).split()), 200)}.") from None
    checks.require(table.column_names == names, f"{file.name} could not be read as CSV: its header is odd.")
    return table


def find_line(path: Path, separator: str, row: int) -> int:
    """Returns the line of a CSV file on which a row begins; the header is row 0, and blank lines are no rows."""
    rows = _CsvFile.load(path, separator).rows()
    return next(itertools.islice(rows, row, None), (row + 1, []))[0]


def check_column_names(names: list[str], source: str) -> None:
    """Raises where a table has too many columns, two of one name, or a name that is too long."""
    checks.require(
        len(names) <= MAX_COLUMNS,
        f"{source} has {len(names):,} columns; expected {MAX_COLUMNS:,} at most. Keep those that are needed: a long table has "
        "one for the series, one for the time, and one for each variable.",
    )
    long = next((i for i, name in enumerate(names) if len(name) > MAX_NAME_LENGTH), None)
    if long is not None:
        raise ValueError(
            f"{source}: the name of column {long + 1} has {len(names[long]):,} characters ({quote(names[long], 20)}); expected "
            f"{MAX_NAME_LENGTH:,} at most. Is the header missing, or a line end?"
        )
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    what = f"columns `{shorten(name)}`" if name else "columns without a name"
    checks.require(count < 2, f"{source} has {count:,} {what}; rename or drop all but one.")


@dataclasses.dataclass(frozen=True)
class _CsvFile:
    """The uncompressed bytes of a CSV file, and the separator of its cells."""

    name: str
    separator: str
    content: bytes = dataclasses.field(repr=False)

    @classmethod
    def load(cls, path: Path, separator: str) -> "_CsvFile":
        """Reads a file, and unpacks it if its name ends in `.gz`."""
        name, separator, packed = name_file(path), choose_separator(path, separator), is_compressed(path)
        most = max(CSV_BYTES, CSV_RATIO * path.stat().st_size)
        try:
            with gzip.open(path) if packed else open(path, "rb") as file:
                content = file.read(most + 1 if packed else -1)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(
                f"{name} is not compressed as its name says, or is damaged. Write it again, or fetch a sound copy."
            ) from None
        checks.require(
            not packed or len(content) <= most,
            f"{name} grows to more than {most:,} bytes when it is unpacked. If that is right, unpack it yourself and pass the "
            "file that comes out.",
        )
        return cls(name, separator, content)

    def rows(self, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yields the line on which each row begins, and its cells; blank lines are no rows."""
        csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))  # of the whole process; a higher one does no harm
        lines = io.TextIOWrapper(io.BytesIO(self.content), "utf-8-sig", errors="replace", newline="")
        reader = csv.reader(lines, delimiter=self.separator, strict=strict)
        before = 0
        try:
            for cells in reader:
                if cells:
                    yield before + 1, cells
                before = reader.line_num
        except csv.Error:
            raise ValueError(
                f"{self.name}, row {before + 1}: a quote opens here that is not closed before a separator or a line end. Close "
                'it; a quote inside a quoted cell is written twice ("").'
            ) from None


def _check_text(file: _CsvFile) -> None:
    """Raises unless a file is text in UTF-8 with lines of a sensible length."""
    where, content = file.name, file.content
    checks.require(len(content) > 0, f"{where} is empty; expected a header with the names of the columns, then rows.")
    twice = file.name.lower().endswith(".gz")
    starts = {
        b"\xff\xfe": "is written in UTF-16; save it as UTF-8 (in Excel: 'CSV UTF-8').",
        b"\xfe\xff": "is written in UTF-16; save it as UTF-8 (in Excel: 'CSV UTF-8').",
        b"PK\x03\x04": "is a spreadsheet or a zip archive, not CSV. Save the sheet as CSV.",
        b"PAR1": "is a Parquet file, not CSV. Give it the ending .parquet.",
        b"\x1f\x8b": f"is compressed{' twice. Unpack it.' if twice else '. Give it the ending .csv.gz, or unpack it.'}",
    }
    for start, fault in starts.items():
        checks.require(not content.startswith(start), f"{where} {fault}")
    zero = content.find(b"\0")
    if zero >= 0:
        raise ValueError(
            f"{where}, row {_locate(content, zero)[0]}: the file holds bytes that are 0, so it is not text, or is damaged. Save "
            "the table as CSV in UTF-8."
        )
    ends = pa.py_buffer(np.array([0, len(content)], np.int64))
    try:  # Arrow checks the whole file as one cell: Python's decoder would make a copy that is up to four times as large
        pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(content)]).validate(full=True)
    except pa.ArrowInvalid:
        _refuse_encoding(file)
    start = 0
    while len(content) - start > MAX_ROW_BYTES:
        start = 1 + max(content.rfind(end, start, start + MAX_ROW_BYTES + 1) for end in (b"\n", b"\r"))
        checks.require(start > 0, f"{where} has a row of more than {MAX_ROW_BYTES:,} bytes. Are line ends missing?")


def _refuse_encoding(file: _CsvFile) -> None:
    """Raises at the first byte that is not UTF-8."""
    try:
        file.content.decode()
    except UnicodeDecodeError as error:
        line, before = _locate(file.content, error.start)
        _, names = next(file.rows(), (0, []))
        column = before.count(file.separator.encode())
        at = f", {name_column(names[column])}" if column < len(names) and b'"' not in before else ""
        raise ValueError(
            f"{file.name}{at}, row {line}: the text is not UTF-8. Save the file as UTF-8 (in Excel: 'CSV UTF-8')."
        ) from None


def _locate(content: bytes, at: int) -> tuple[int, bytes]:
    """Returns the number of the line with byte `at`, and what the line holds before that byte."""
    before = content[:at]
    lines = 1 + before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")
    return lines, before[max(before.rfind(b"\n"), before.rfind(b"\r")) + 1 :]


def _check_rows(file: _CsvFile, columns: int) -> None:
    """Raises at the first row whose quotes are not closed, or that has too many or too few cells."""
    for row, cells in file.rows(strict=True):
        if len(cells) != columns:
            raise ValueError(
                f"{file.name}, row {row}: {len(cells):,} cells where the header names {columns:,} columns: "
                f"{quote(file.separator.join(cells[:40]))}. Mend that row; text that holds a {file.separator!r} must be quoted."
            )
        long = f"{file.name}, row {row}: the row has more than {MAX_ROW_BYTES:,} characters. Is a quote missing?"
        checks.require(sum(map(len, cells)) <= MAX_ROW_BYTES, long)


def _check_separator(file: _CsvFile, name: str) -> None:
    other = next((s for s in ";\t|, " if s in name and s != file.separator), None)
    checks.require(
        other is None,
        f"{file.name} has one column, `{shorten(name)}`: it seems to be separated by {other!r}, not by {file.separator!r}. "
        f"Pass separator={other!r} (--separator {other!r}).",
    )
