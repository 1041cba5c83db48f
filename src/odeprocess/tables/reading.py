"""Tables in and out: CSV, Parquet or any data frame becomes one Arrow table that knows what its rows are called."""

import dataclasses
import io
import itertools
import os
from pathlib import Path
from typing import Any

from .. import checks
from ..storage import replacing

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet")
MISSING = "Tables need narwhals, pandas and pyarrow: pip install 'odeprocess[table]'."


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A table as it came.

    Attributes:
        arrow: its columns.
        kind: the library that results are given back in, as narwhals knows it.
        source: what messages call it.
        csv: the CSV file it came from: messages call its rows as spreadsheets do, those of a data frame from 0.
    """

    arrow: Any
    kind: Any
    source: str
    csv: Path | None = None

    def __len__(self) -> int:
        return self.arrow.num_rows

    @property
    def names(self) -> list[str]:
        """Its columns, in order."""
        return self.arrow.column_names

    def row(self, i: Any) -> str:
        """What messages call row `i`, counted from 0."""
        return f"row {int(i) if self.csv is None else _line(self.csv, int(i) + 2)}"

    def column(self, name: str) -> Any:
        """One column, in one piece."""
        found = self.arrow.column(name).combine_chunks()
        return found.dictionary_decode() if _is_dictionary(found) else found


def read(table: Any, *, separator: str = ",") -> Table:
    """Reads a file, or takes a data frame: pandas, polars, pyarrow and whatever else narwhals knows.

    Raises:
        ValueError: where it is no table; the message says what is wrong and where.
    """
    if isinstance(table, Table):
        return table
    try:
        import narwhals as nw
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(MISSING) from None
    if isinstance(table, (str, os.PathLike)):
        return _read_file(Path(table), separator)
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise ValueError(
            f"The table is a {type(table).__name__}; expected a data frame (pandas, polars, pyarrow) or the name of a CSV or "
            "Parquet file. A lazy frame must be collected first."
        ) from None
    except nw.exceptions.DuplicateError:
        names = list(table.columns)
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The table has {names.count(twice)} columns `{twice}`; rename or drop all but one.") from None
    return Table(_to_arrow(frame), frame.implementation, "the table")


def native(arrow: Any, kind: Any) -> Any:
    """An Arrow table as a data frame of the kind that came in."""
    import narwhals as nw

    return nw.from_arrow(arrow, backend=kind).to_native()


def write(path: Path, frame: Any) -> None:
    """Writes a data frame to a CSV or Parquet file, by its suffix; the file is there whole or not at all."""
    import narwhals as nw
    import pyarrow.csv
    import pyarrow.parquet

    check_suffix(path)
    arrow = nw.from_native(frame, eager_only=True).to_arrow()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(arrow, temporary)
            return
        options = pyarrow.csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ",", quoting_style="needed")
        with pyarrow.CompressedOutputStream(str(temporary), "gzip") if path.suffix == ".gz" else open(temporary, "wb") as file:
            pyarrow.csv.write_csv(arrow, file, options)


def check_suffix(path: Path) -> None:
    """Raises unless the name says which kind of file it is."""
    checks.require(
        path.name.lower().endswith(SUFFIXES),
        f"{path} has the ending {path.suffix or 'of no file'!r}; expected one of {', '.join(SUFFIXES)}. "
        "Spreadsheets must be saved as CSV.",
    )


def _to_arrow(frame: Any) -> Any:
    """Column by column: one that mixes text and numbers is kept as text, and refused later if numbers were wanted."""
    import pyarrow as pa

    columns = {}
    for name in frame.columns:
        checks.require(
            isinstance(name, str), f"A column of the table is called {name!r}; expected text. Rename the columns first."
        )
        try:
            columns[name] = frame.select(name).to_arrow().column(0)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            columns[name] = pa.chunked_array([pa.array([None if _is_nan(x) else str(x) for x in frame[name]], pa.string())])
    return pa.table(columns)


def _is_nan(x: Any) -> bool:
    return x is None or x != x


def _is_dictionary(array: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_dictionary(array.type)


def _read_file(path: Path, separator: str) -> Table:
    import narwhals as nw
    import pyarrow as pa
    import pyarrow.parquet

    if not path.exists():
        raise FileNotFoundError(f"{path} is not there. Expected a CSV or Parquet file.")
    checks.require(path.is_file(), f"{path} is a folder; expected a CSV or Parquet file.")
    check_suffix(path)
    checks.require(path.stat().st_size > 0, f"{path} is empty; expected a header with the names of the columns, then rows.")
    if path.suffix == ".parquet":
        try:
            return Table(pyarrow.parquet.read_table(path), nw.Implementation.PANDAS, path.name)
        except pa.ArrowInvalid:
            raise ValueError(f"{path} is not a Parquet file, or is damaged. Write it again.") from None
    return Table(_read_csv(path, separator), nw.Implementation.PANDAS, path.name, path)


def _read_csv(path: Path, separator: str) -> Any:
    import pyarrow as pa
    import pyarrow.csv as csv

    checks.require(len(separator) == 1, f"`separator` is {separator!r}; expected one character, such as ';'.")
    separator = "\t" if path.suffix == ".tsv" else separator
    with pa.input_stream(str(path)) as file:
        try:
            start = file.read(4)
        except OSError:
            raise ValueError(f"{path} is not compressed as its name says, or is damaged. Write it again.") from None
    checks.require(
        start[:2] not in (b"\xff\xfe", b"\xfe\xff"), f"{path} is written in UTF-16; save it as UTF-8 (in Excel: 'CSV UTF-8')."
    )
    checks.require(start[:4] != b"PK\x03\x04", f"{path} is a spreadsheet or a zip archive, not CSV. Save the sheet as CSV.")
    options = csv.ConvertOptions(strings_can_be_null=True)
    try:
        table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator), convert_options=options)
    except pa.ArrowInvalid as error:
        raise ValueError(_csv_trouble(path, separator, str(error))) from None
    except OSError as error:
        raise ValueError(f"{path} is damaged: {error}. Write it again.") from None
    for name in table.column_names:
        checks.require(
            table.column_names.count(name) == 1,
            f"{path} has {table.column_names.count(name)} columns `{name}`; rename or drop one.",
        )
        checks.require(
            not pa.types.is_binary(table.schema.field(name).type),
            f"{path}, column `{name}`: the text is not UTF-8. Save the file as UTF-8 (in Excel: 'CSV UTF-8').",
        )
    if len(table.column_names) == 1:
        other = next((s for s in ";\t|, " if s in table.column_names[0] and s != separator), None)
        checks.require(
            other is None,
            f"{path} has one column, `{table.column_names[0]}`: it seems to be separated by {other!r}, not by {separator!r}. "
            f"Pass separator={other!r} (--separator {other!r}).",
        )
    return table


def _csv_trouble(path: Path, separator: str, said: str) -> str:
    """What is wrong with a file that could not be parsed: the first row with too many or too few cells."""
    import pyarrow as pa
    import pyarrow.csv as csv

    bad: list[Any] = []

    def remember(row: Any) -> str:
        bad.append(row)
        return "skip"

    options = csv.ParseOptions(delimiter=separator, invalid_row_handler=remember)
    try:
        csv.read_csv(path, read_options=csv.ReadOptions(use_threads=False), parse_options=options)
    except pa.ArrowInvalid:
        pass
    if not bad:
        return f"{path} could not be read as CSV: {said}."
    row = bad[0]
    return (
        f"{path}, row {_line(path, row.number)}: {row.actual_columns} cells where the header names {row.expected_columns} "
        f"columns: {row.text[:60]!r}. Mend that row; text that holds a {separator!r} must be quoted."
    )


def _line(path: Path, row: int) -> int:
    """The line of a CSV file that holds a row of its table, the header being row 1: blank lines are no rows."""
    import pyarrow as pa

    with pa.input_stream(str(path)) as file:
        lines = enumerate(io.TextIOWrapper(file, encoding="utf-8", errors="replace"), 1)
        filled = (number for number, text in lines if text != "\n")
        return next(itertools.islice(filled, row - 1, None))
