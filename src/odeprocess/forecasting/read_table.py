"""Tables in and out: CSV, Parquet or any data frame becomes columns of Arrow that know what their rows are called."""

import dataclasses
import functools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odeprocess.common import checks
from odeprocess.common.storage import replacing

from . import column_types, csv_files, parquet_files, parse_text, python_objects
from .csv_files import check_names, row_at
from .message_text import column_name, cut, place_of, quoted

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet")
MISSING = "Tables need narwhals, pandas and pyarrow: pip install 'odeprocess[table]'."


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A table as it came; a column is converted when it is asked for, once.

    Attributes:
        names: its columns, in order.
        rows: how many it has.
        given: a column as it came, an Arrow array, by its name.
        kind: the library that results are given back in, as narwhals knows it.
        source: what messages call it.
        csv: the CSV file it came from, and its separator: messages call its rows as spreadsheets do, those of others from 0.
    """

    names: tuple[str, ...]
    rows: int
    given: Callable[[str], Any]
    kind: Any
    source: str
    csv: tuple[Path, str] | None = None
    _known: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return self.rows

    def __contains__(self, name: str) -> bool:
        return name in self._set

    @functools.cached_property
    def _set(self) -> frozenset[str]:
        return frozenset(self.names)

    def row(self, i: Any) -> str:
        """What messages call row `i`, counted from 0."""
        return f"row {int(i) if self.csv is None else row_at(*self.csv, int(i) + 1)}"

    def text(self, name: str) -> Any:
        """A column of text without blanks around it, as it is written; `None` where the column holds something else."""
        return self._once("text", name)

    def column(self, name: str) -> Any:
        """A column in one piece, its type one of few; those of a CSV file are numbers or dates where all cells are."""
        return self._once("column", name)

    def times(self, name: str) -> Any:
        """The same; text is read as dates, where all of it can be."""
        return self._once("times", name)

    def _once(self, what: str, name: str) -> Any:
        if (what, name) not in self._known:
            self._known[what, name] = getattr(self, f"_{what}")(name)
        return self._known[what, name]

    def _text(self, name: str) -> Any:
        found = self._plain(name)
        return parse_text.trimmed(found) if column_types.is_text(found.type) else None

    def _column(self, name: str) -> Any:
        return self._plain(name) if self.csv is None else parse_text.sniffed(self.text(name))

    def _times(self, name: str) -> Any:
        found = self.column(name)
        return found if not column_types.is_text(found.type) else parse_text.sniffed(self.text(name))

    def _plain(self, name: str) -> Any:
        import pyarrow as pa

        try:
            return column_types.plain(self.given(name))
        except column_types.Unsound as error:
            raise ValueError(f"{self.source}, {column_name(name)}, {self.row(error.row)}: {error}") from None
        except (pa.ArrowException, OverflowError, UnicodeError) as error:
            raise ValueError(
                f"{self.source}, {column_name(name)}: the column cannot be read. Build or write it again."
            ) from error


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
    if isinstance(table, (list, tuple, dict)) or not hasattr(table, "columns"):
        raise ValueError(_no_frame(table))
    try:
        _check_frame(table)
        frame = nw.from_native(table, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError):
        raise ValueError(_no_frame(table)) from None
    return Table(tuple(frame.columns), len(frame), lambda name: _cells_of(frame, name), frame.implementation, "the table")


def _no_frame(table: Any) -> str:
    return (
        f"The table is a {type(table).__name__}; expected a data frame (pandas, polars, pyarrow) or the name of a CSV or "
        "Parquet file. A lazy frame must be collected first."
    )


def _check_frame(table: Any) -> None:
    """Raises unless the columns of a data frame have names, each its own."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    odd = next((name for name in names if not isinstance(name, str)), None)
    checks.require(
        all(isinstance(name, str) for name in names),
        f"A column of the table is called {quoted(odd)}; expected text. Rename the columns first.",
    )
    check_names(names, "The table")


def _cells_of(frame: Any, name: str) -> Any:
    """A column of a data frame as an Arrow array."""
    import pyarrow as pa

    column = frame.get_column(name)
    kind = getattr(column.to_native(), "dtype", "")
    kinds = {str(kind).lower(), str(getattr(getattr(kind, "categories", ""), "dtype", "")).lower()}
    if "object" not in kinds:  # Python's objects, which Arrow would guess at
        try:
            return column.to_arrow()
        except (pa.ArrowException, OverflowError, TypeError, ValueError, NotImplementedError):
            pass
    return python_objects.from_objects(column.to_list())


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
        if _is_parquet(path):
            pyarrow.parquet.write_table(arrow, temporary, write_page_checksum=True)
            return
        options = pyarrow.csv.WriteOptions(delimiter=csv_files.separator_of(path, ","), quoting_style="needed")
        packed = csv_files.is_packed(path)
        with pyarrow.CompressedOutputStream(str(temporary), "gzip") if packed else open(temporary, "wb") as file:
            pyarrow.csv.write_csv(arrow, file, options)


def check_suffix(path: Path) -> None:
    """Raises unless the name says which kind of file it is."""
    checks.require(
        path.name.lower().endswith(SUFFIXES),
        f"{place_of(path)} has the ending {cut(path.suffix) or 'of no file'!r}; expected one of {', '.join(SUFFIXES)}. "
        "Spreadsheets must be saved as CSV.",
    )


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(".parquet")


def _read_file(path: Path, separator: str) -> Table:
    import narwhals as nw

    where, pandas = place_of(path), nw.Implementation.PANDAS
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{where} is not there. Expected a CSV or Parquet file.") from None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{where} cannot be opened: {getattr(error, 'strerror', None) or 'the name is no name of a file'}."
        ) from None
    checks.require(stat.S_ISREG(status.st_mode), f"{where} is {_what(status.st_mode)}; expected a CSV or Parquet file.")
    check_suffix(path)
    checks.require(status.st_size > 0, f"{where} is empty; expected a header with the names of the columns, then rows.")
    try:
        table = parquet_files.read(path) if _is_parquet(path) else csv_files.read(path, separator)
    except (OSError, MemoryError) as error:
        why = "it does not fit into memory" if isinstance(error, MemoryError) else error.strerror or "it is damaged"
        raise ValueError(f"{where} cannot be read: {why}.") from None
    csv = None if _is_parquet(path) else (path, separator)
    return Table(tuple(table.column_names), table.num_rows, table.column, pandas, cut(path.name, 200), csv)


def _what(mode: int) -> str:
    kinds = {"a folder": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}
    return next((name for name, asks in kinds.items() if asks(mode)), "a device")
