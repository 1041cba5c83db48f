"""Tables as columns of Arrow: CSV and Parquet files, and data frames of any library that narwhals supports."""

import dataclasses
import functools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odeprocess.common import checks

from . import arrow as pa
from .column_types import BadCell, is_text, simplify
from .csv_files import find_line, read_csv
from .data_frames import check_frame, read_frame_column
from .message_text import name_column, name_file, shorten
from .parquet_files import read_parquet
from .parse_text import infer_column, strip_text

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet")


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table; each is converted when it is first used.

    Attributes:
        names: of the columns, in order.
        rows: how many there are.
        load: returns the Arrow array of a column, given its name.
        backend: the library of the data frame, as narwhals names it; results are given back in it.
        source: what messages call the table.
        csv: the CSV file that it was read from, and its separator. Messages count the rows of a CSV file as editors count
            lines, and those of other tables from 0.
    """

    names: tuple[str, ...]
    rows: int
    load: Callable[[str], Any]
    backend: Any
    source: str
    csv: tuple[Path, str] | None = None
    _cache: dict[tuple[str, str], Any] = dataclasses.field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return self.rows

    def __contains__(self, name: str) -> bool:
        return name in self._name_set

    @functools.cached_property
    def _name_set(self) -> frozenset[str]:
        return frozenset(self.names)

    def row(self, i: Any) -> str:
        """Returns what messages call row `i`, counted from 0."""
        return f"row {int(i) if self.csv is None else find_line(*self.csv, int(i) + 1)}"

    def text(self, name: str) -> Any:
        """Returns a column of text without blanks around its cells; `None` where the column is not text."""

        def convert() -> Any:
            cells = self._simplify(name)
            return strip_text(cells) if is_text(cells.type) else None

        return self._remember("text", name, convert)

    def column(self, name: str) -> Any:
        """Returns a column of a simple type; text of a CSV file as numbers or dates, where all cells are such."""
        return self._remember("column", name, lambda: self._simplify(name) if self.csv is None else infer_column(self.text(name)))

    def times(self, name: str) -> Any:
        """Returns a column as `column` does, and text of data frames as numbers or dates too."""

        def convert() -> Any:
            cells = self.column(name)
            return infer_column(self.text(name)) if is_text(cells.type) else cells

        return self._remember("times", name, convert)

    def _remember(self, what: str, name: str, convert: Callable[[], Any]) -> Any:
        if (what, name) not in self._cache:
            self._cache[what, name] = convert()
        return self._cache[what, name]

    def _simplify(self, name: str) -> Any:
        try:
            return simplify(self.load(name))
        except BadCell as error:
            raise ValueError(f"{self.source}, {name_column(name)}, {self.row(error.row)}: {error}") from None
        except (pa.ArrowException, OverflowError, UnicodeError) as error:
            raise ValueError(
                f"{self.source}, {name_column(name)}: the column cannot be read. Build or write it again."
            ) from error


def read(table: Any, *, separator: str = ",") -> Table:
    """Returns a file or a data frame (pandas, polars, pyarrow and others that narwhals supports) as a `Table`.

    Raises:
        ValueError: where it is no table; the message says what is wrong and where.
    """
    if isinstance(table, Table):
        return table
    try:
        import narwhals as nw
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError("Tables need narwhals, pandas and pyarrow: pip install 'odeprocess[table]'.") from None
    if isinstance(table, (str, os.PathLike)):
        return _read_file(Path(table), separator)
    message = (
        f"The table is a {type(table).__name__}; expected a data frame (pandas, polars, pyarrow) or the name of a CSV or "
        "Parquet file. A lazy frame must be collected first."
    )
    if isinstance(table, (list, tuple, dict)) or not hasattr(table, "columns"):
        raise ValueError(message)
    try:
        check_frame(table)
        frame = nw.from_native(table, eager_only=True)
    except (TypeError, nw.exceptions.NarwhalsError):
        raise ValueError(message) from None
    load = functools.partial(read_frame_column, frame)
    return Table(tuple(frame.columns), len(frame), load, frame.implementation, "the table")


def check_suffix(path: Path) -> None:
    """Raises unless the name of a file says that it is CSV or Parquet."""
    checks.require(
        path.name.lower().endswith(SUFFIXES),
        f"{name_file(path)} has the ending {shorten(path.suffix) or 'of no file'!r}; expected one of {', '.join(SUFFIXES)}. "
        "Spreadsheets must be saved as CSV.",
    )


def is_parquet(path: Path) -> bool:
    """Returns whether the name of a file says that it is Parquet."""
    return path.name.lower().endswith(".parquet")


def _read_file(path: Path, separator: str) -> Table:
    import narwhals as nw

    where = name_file(path)
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"{where} is not there. Expected a CSV or Parquet file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the name is no name of a file"
        raise ValueError(f"{where} cannot be opened: {reason}.") from None
    kinds = {"a folder": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}
    kind = next((name for name, test in kinds.items() if test(status.st_mode)), "a device")
    checks.require(stat.S_ISREG(status.st_mode), f"{where} is {kind}; expected a CSV or Parquet file.")
    check_suffix(path)
    checks.require(status.st_size > 0, f"{where} is empty; expected a header with the names of the columns, then rows.")
    try:
        table = read_parquet(path) if is_parquet(path) else read_csv(path, separator)
    except (OSError, MemoryError) as error:
        reason = "it does not fit into memory" if isinstance(error, MemoryError) else error.strerror or "it is damaged"
        raise ValueError(f"{where} cannot be read: {reason}.") from None
    csv = None if is_parquet(path) else (path, separator)
    names = tuple(table.column_names)
    return Table(names, table.num_rows, table.column, nw.Implementation.PANDAS, shorten(path.name, 200), csv)
