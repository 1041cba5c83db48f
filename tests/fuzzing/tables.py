"""Damaged CSV and Parquet files, and odd data frames: what is read must be what an independent reading of them says.

Of CSV files that is Python's own `csv`, `float`, `Decimal` and `datetime`; of Parquet files the cells that Arrow gives as
Python's objects, whatever their types; of data frames the objects that they were made of.
"""

import csv
import datetime as dt
import gzip
import io
import math
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

from odeprocess.forecasting.clock import Clock
from odeprocess.forecasting.column_roles import Columns, resolve
from odeprocess.forecasting.covariates import Covariate
from odeprocess.forecasting.predict import asked_times
from odeprocess.forecasting.read_table import read
from odeprocess.forecasting.rows import TableRows
from odeprocess.forecasting.table_layout import Layout
from odeprocess.forecasting.transforms import Transform

from .files import place
from .mutations import damaged
from .outcomes import REFUSED, outcome, refusal

Row = tuple[str, Fraction, tuple[float | None, float | None], float]  # series, time, values, covariate
COLUMNS = Columns("id", "t", ("x", "y"), ("dose",))
EPOCH = dt.datetime(1970, 1, 1)
NS = 1_700_000_000_000_000_000
CELLS = (
    *(
        "",
        " ",
        "NA",
        "NaN",
        "nan",
        "null",
        "inf",
        "-inf",
        "Infinity",
        "∞",
        "1e400",
        "-1e400",
        "1e-400",
        "1e308",
        "-0",
        "0",
        "+1",
        "01",
    ),
    *(
        "1_000",
        "0x10",
        "1,5",
        "1.5",
        "1.500",
        "1 000",
        "1.",
        ".5",
        "1e3",
        "1E+3",
        "1d3",
        "٣",
        "true",
        "False",
        "TRUE",
        "None",
        "-",
        ".",
    ),
    *(
        "9007199254740993",
        "18446744073709551615",
        "1700000000000000300",
        "-9223372036854775809",
        "123456789012345678901234567890",
    ),
    *("1700000000.000000300", "0.1234567890123456789", "9" * 50, "1" + "0" * 400, "0." + "0" * 400 + "1", "3.141592653589793"),
    *("2024-01-05", "2024-01-05T10:00", "2024-01-05 10:00:00.123456789", "2024-01-05T10:00:00Z", "2024-01-05T10:00+02:00"),
    *(
        "2024-W05-3",
        "20240105",
        "2024-02-30",
        "2016-12-31T23:59:60",
        "2024-01-05T24:00",
        "0001-01-01",
        "9999-12-31T23:59:59.999999",
    ),
    *("10000-01-01", "10:00", "2024-01", "a", " a", "a ", "b\u00a0", "\ufeffa", '"', '""', '"a', 'a"b', "#", "=1+1", "x" * 2000),
    *("\x00", "\x1a", "\x0b", "\u2028", "é", "😀", "\u202e"),
)


def damaged_csv(seed: int, count: int) -> Counter:
    """Files with cells, lines, quotes and bytes that do not belong there, packed and not."""
    rng, found = random.Random(seed), Counter()
    with place() as root:
        for _ in range(count):
            name = rng.choice(("d.csv", "d.csv", "d.csv", "d.tsv", "d.csv.gz"))
            content = _csv_text(rng, "\t" if name == "d.tsv" else ",").encode()
            if name.endswith("gz"):
                content = gzip.compress(content, 1, mtime=0)
            if rng.random() < 0.25:
                content = damaged(rng, content)
            path = root / name
            path.write_bytes(content)
            found[outcome(lambda path=path: _is_right(_read(path), _csv_rows(path)))] += 1
    return found


def damaged_parquet(seed: int, count: int) -> Counter:
    """Files of many types, whose bytes are flipped, cut, moved or zeroed."""
    rng, found = random.Random(seed), Counter()
    with place() as root:
        path, sound = root / "d.parquet", b""
        for i in range(count):
            if i % 20 == 0:
                sound = _parquet(rng)
            path.write_bytes(sound if rng.random() < 0.02 else damaged(rng, sound))
            found[outcome(lambda: _is_right(_read(path), _parquet_rows(path), name_of=_name))] += 1
    return found


def odd_tables(seed: int, count: int) -> Counter:
    """Data frames of pandas, polars and pyarrow, and files of theirs, with odd types and odd cells."""
    rng, found = random.Random(seed), Counter()
    with place() as root:
        for _ in range(count):
            frame, rows = _odd_frame(rng, root)
            if frame is not None:
                found[outcome(lambda frame=frame, rows=rows: _is_right(_read(frame), rows, frame, _name))] += 1
            else:
                found["right"] += 1  # a library that would not make it
    return found


def _read(table: Any) -> Callable[[], tuple[Layout, TableRows]]:
    """Reads a table as a model does that was fitted on times of the same kind."""

    def reading() -> tuple[Layout, TableRows]:
        came = read(table, separator=",")
        COLUMNS.check(came)
        clock = Clock.of(came, "t")
        clock = Clock(clock.kind, "days" if clock.kind == "date" else None, clock.zone)
        layout = Layout(COLUMNS, clock, (Transform(),) * 2, (Covariate("dose"),), ties="keep")
        return layout, layout.read(came)

    return reading


def _is_right(
    reading: Callable[[], tuple[Layout, TableRows]], rows: Any, echo: Any = None, name_of: Callable[[Any], str] = str
) -> bool:
    """Whether a table is read as `rows` says; `None` of it where it should have been refused."""
    layout, long = reading()
    rows = rows() if callable(rows) else rows
    if rows is None:
        return False
    day = Fraction(86_400 * 10**6) if layout.clock.kind == "date" else Fraction(1)
    firsts: dict[str, Fraction] = {}
    for name, t, _, _ in rows:
        firsts[name] = min(t, firsts.get(name, t))
    expected = list(rows)
    names = [name_of(long.name(i)) for i in range(len(long))]
    series = np.repeat(np.arange(len(long)), np.diff(long.starts))
    given = list(
        zip([names[i] for i in series], long.t.tolist(), long.values.tolist(), long.static[series, 0].tolist(), strict=True)
    )
    # rows of one time are in any order, and so are series whose names are sorted as numbers
    given.sort(key=lambda row: (row[0], row[1]))
    expected.sort(key=lambda row: (row[0], row[1]))
    if len(given) != len(expected):
        return False
    if Counter((row[0], _shown(row[2]), row[3]) for row in given) != Counter((x[0], _shown(x[2]), x[3]) for x in expected):
        return False
    same = all(_near(row[1], (x[1] - firsts[x[0]]) / day, x[1], firsts[x[0]]) for row, x in zip(given, expected, strict=True))
    return same and (echo is None or (_echoed(layout, long, echo, rows) and _is_learned_alike(echo, long)))


def _is_learned_alike(table: Any, long: TableRows) -> bool:
    """Whether a table to train on, whose columns are guessed, is the same table, or is refused."""
    try:
        came = read(table)
        columns, _ = resolve(came, None, None, ["x", "y"], None, "first")
        _, again, _ = Layout.learn(came, columns, ties="keep", min_points=0)
    except ValueError as error:
        return refusal(str(error)) == REFUSED
    return np.array_equal(again.values, long.values, equal_nan=True) and len(again) == len(long)


def _near(t: float, exact: Fraction, *ends: Fraction) -> bool:
    """Whether a difference was taken of whole numbers; of numbers that float64 holds, its own difference will do."""
    short = all(abs(x) <= 2**53 and _as_float(x) for x in ends)
    rounding = max(map(abs, ends)) * Fraction(1, 2**52) if short else Fraction(0)
    return abs(Fraction(t) - exact) <= abs(exact) * Fraction(1, 2**51) + rounding


def _name(x: Any) -> str:
    """A series' name as text; numbers are the same however they are written."""
    try:
        number = Decimal(x) if len(str(x)) < 50 and not isinstance(x, bool) else Decimal("nan")
        return str(Fraction(number)) if number.is_finite() and abs(int(number.adjusted())) < 50 else str(x)
    except (InvalidOperation, TypeError, ValueError):
        return str(x).removesuffix(" 00:00:00")  # a date is its midnight


def _as_float(x: Fraction) -> bool:
    """Whether float64 says the number, or the shortest decimal number that it stands for is this."""
    return Fraction(float(x)) == x or Fraction(Decimal(repr(float(x)))) == x


def _shown(values: Sequence[float | None]) -> tuple[str, ...]:
    return tuple("nan" if x is None or x != x else repr(float(x) + 0.0) for x in values)


def _echoed(layout: Layout, long: TableRows, frame: Any, rows: list[Row]) -> bool:
    """Whether times that are asked about come back as they were given."""
    asked = asked_times(frame, long, layout)
    back = sorted(map(_exactly, _objects(layout.clock.to_arrow(asked.when))))
    return all(
        x == y or (_as_float(y) and float(x) == float(y)) for x, y in zip(back, sorted(row[1] for row in rows), strict=True)
    )


# CSV ---------------------------------------------------------------------------------------------------------------------


def _csv_text(rng: random.Random, separator: str) -> str:
    """A sound table, of which a few cells, lines or quotes are changed."""
    kind = rng.choice(("number", "number", "long", "decimal", "date", "zoned"))
    lines = [["id", "t", "x", "y", "dose"]]
    for name in ("a", "b", "c d") if rng.random() < 0.7 else ("1", "2", "10"):
        for i in range(rng.randrange(1, 4)):
            lines.append([name, _time(rng, kind, i), f"{rng.uniform(-5, 5):.3f}", str(rng.randrange(9)), str(len(name))])
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        _change(rng, lines)
    quote = rng.random() < 0.2
    rows = [separator.join(f'"{cell}"' if quote and '"' not in cell else cell for cell in line) for line in lines]
    text = rng.choice(("\n", "\n", "\n", "\r\n", "\r")).join(rows)
    return rng.choice(("", "", "", "\ufeff", "\n", "\r\n\n")) + text + rng.choice(("", "\n", "\n", "\n\n", "\r\n"))


def _time(rng: random.Random, kind: str, i: int) -> str:
    if kind == "number":
        return f"{i + rng.random():.2f}"
    if kind == "long":
        return str(NS + rng.randrange(1000) + 10 ** rng.randrange(19) * i)
    if kind == "decimal":
        return f"{NS // 10**9}.{rng.randrange(10**9):09d}"
    at = dt.datetime(rng.choice((1, 1969, 2024, 9999)), 1, 1) + dt.timedelta(days=i, microseconds=rng.randrange(10**11))
    shown = at.isoformat(rng.choice("T "), rng.choice(("seconds", "microseconds", "minutes")))
    return shown if kind == "date" else shown + rng.choice(("Z", "+02:00", "-0530"))


def _change(rng: random.Random, lines: list[list[str]]) -> None:
    line = rng.randrange(len(lines))
    cells, kind = lines[line], rng.randrange(12)
    at = rng.randrange(len(cells)) if cells else 0
    if kind < 5 and cells:
        cells[at] = rng.choice(CELLS)
    elif kind == 5 and cells:
        cells[at] = rng.choice((" {}", "{} ", '"{}"', '"{}', '{}"', "{}\n", '"{}\nx"', "{},", ";{}")).format(cells[at])
    elif kind == 6:
        lines.insert(line, list(cells))
    elif kind == 7 and len(lines) > 1:
        del lines[line]
    elif kind == 8 and cells:
        del cells[at]
    elif kind == 9:
        cells.insert(at, rng.choice(CELLS))
    elif kind == 10:
        lines.insert(line, rng.choice(([], [" "], ["#", "comment"], list(string.ascii_letters))))
    elif cells:
        cells[at] = "".join(rng.choice(string.printable) for _ in range(rng.randrange(6)))


NOTHING = set(",#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,N/A,NA,NULL,NaN,n/a,nan,null".split(","))


def _csv_rows(path: Path) -> Callable[[], list[Row] | None]:
    def rows() -> list[Row] | None:
        try:
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            text = content.decode("utf-8-sig")
            separator = "\t" if path.suffix == ".tsv" else ","
            lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True) if line]
            header, *lines = lines
            if "\0" in text or len(set(header)) < len(header) or {len(line) for line in lines} != {len(header)}:
                return None
            places = [header.index(name) for name in ("id", "t", "x", "y", "dose")]
            table = [["" if line[k] in NOTHING else line[k].strip() for k in places] for line in lines]
        except (ValueError, OSError, EOFError, csv.Error):
            return None
        return _rows_of(table)

    return rows


def _rows_of(table: list[list[str]]) -> list[Row] | None:
    """The rows of a table of text; `None` where there is anything that cannot be read."""
    dates = [_date(line[1]) for line in table]
    dated = all(date is not None for date in dates)
    if dated and len({zoned for _, zoned in dates if zoned is not None}) > 1:  # type: ignore[misc]
        return None
    found: list[Row] = []
    try:
        for line, date in zip(table, dates, strict=True):
            if not line[0] or not line[1] or not line[4]:
                return None
            t = date[0] if dated and date is not None else Fraction(Decimal(_number(line[1])))
            truth = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
            values = [truth.get(x, None) if x in truth else float(_number(x)) if x else None for x in line[2:]]
            if any(x is not None and math.isinf(x) for x in values):
                return None
            found.append((line[0], t, (values[0], values[1]), values[2] or 0.0))
    except (ValueError, InvalidOperation):
        return None
    for k in (2, 3, 4):  # true and false are numbers, but not beside others
        words = {line[k].lower() in ("true", "false") for line in table if line[k]}
        if len(words) > 1:
            return None
    return found


def _number(text: str) -> str:
    if not text.isascii() or "_" in text or not math.isfinite(float(text)):
        raise ValueError(text)
    return text


def _date(text: str) -> tuple[Fraction, bool] | None:
    """Microseconds since 1970 and whether there is a zone, by Python's own reading of ISO dates."""
    if text.isdigit() or len(text) < 8 or re.search("[T ]24", text):
        return None
    head, _, tail = text.partition("." if "." in text else ",")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    try:
        at = dt.datetime.fromisoformat(head + tail[len(digits) :])
        zoned = at.tzinfo is not None
        at = at.astimezone(dt.UTC).replace(tzinfo=None) if zoned else at
    except (ValueError, OverflowError):
        return None
    part = Fraction(int(digits), 10 ** len(digits)) if digits else Fraction(0)
    return Fraction((at - EPOCH) // dt.timedelta(microseconds=1)) + part * 10**6, zoned


# Parquet -----------------------------------------------------------------------------------------------------------------


def _parquet(rng: random.Random) -> bytes:
    """A sound file; every type in it is one that can be read, or is refused."""
    n = rng.choice((3, 20, 200))
    ids = [("a", "b", "c d")[i % 3] for i in range(n)]
    columns: dict[str, Any] = {
        "id": rng.choice(
            (
                lambda: pa.array(ids),
                lambda: pa.array(ids, pa.large_string()),
                lambda: pa.array(ids, pa.string_view()),
                lambda: pa.array(ids).dictionary_encode(),
                lambda: pa.array([x.encode() for x in ids]),
                lambda: pa.array([ord(x[0]) for x in ids], pa.uint8()),
            )
        )(),
        "t": rng.choice(
            (
                lambda: pa.array(range(n)),
                lambda: pa.array([NS + 300 * i for i in range(n)]),
                lambda: pa.array([i / 7 for i in range(n)]),
                lambda: pa.array([NS + 300 * i for i in range(n)], pa.timestamp("ns")),
                lambda: pa.array([NS // 1000 + i for i in range(n)], pa.timestamp("us", "UTC")),
                lambda: pa.array(range(n), pa.int32()).cast(pa.date32()),
                lambda: pa.array([Decimal(NS + i) / 10**9 for i in range(n)]),
            )
        )(),
        "x": pa.array([rng.gauss(0, 1) for _ in range(n)]),
        "y": pa.array([None if i % 5 == 0 else Decimal(rng.randrange(1000)).scaleb(-2) for i in range(n)], pa.decimal128(12, 2)),
        "dose": pa.array([float(len(x)) for x in ids]),
        "note": pa.array([[{"k": "v" * (i % 3)}] for i in range(n)]),
    }
    names = list(columns)
    rng.shuffle(names)
    sink = pa.BufferOutputStream()
    options = {
        "compression": rng.choice(("none", "snappy", "zstd", "gzip")),
        "use_dictionary": rng.random() < 0.5,
        "write_page_checksum": rng.random() < 0.5,
        "row_group_size": rng.choice((7, 1000)),
        "data_page_version": rng.choice(("1.0", "2.0")),
        "write_statistics": rng.random() < 0.5,
    }
    pyarrow.parquet.write_table(pa.table({name: columns[name] for name in names}), sink, **options)
    return sink.getvalue().to_pybytes()


def _parquet_rows(path: Path) -> Callable[[], list[Row] | None]:
    def rows() -> list[Row] | None:
        table = pyarrow.parquet.ParquetFile(io.BytesIO(path.read_bytes())).read(["id", "t", "x", "y", "dose"])
        cells = [_objects(table.column(name), name) for name in ("id", "t", "x", "y", "dose")]
        return _rows_of_objects(list(zip(*cells, strict=True)))

    return rows


def _objects(column: Any, name: str = "t") -> list[Any]:
    """Cells as Python's objects; times that are dates as microseconds, since that holds more of them."""
    kind = column.type
    if name != "t":
        return column.to_pylist()
    if pa.types.is_timestamp(kind):
        size = {"s": Fraction(10**6), "ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)}[kind.unit]
        return [None if x is None else x * size for x in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind):
        return [None if x is None else Fraction(x * 86_400 * 10**6) for x in column.cast(pa.int32()).to_pylist()]
    if pa.types.is_date64(kind):
        return [None if x is None else Fraction(x * 1000) for x in column.cast(pa.int64()).to_pylist()]
    return column.to_pylist()


def _rows_of_objects(table: list[tuple[Any, ...]]) -> list[Row] | None:
    """The rows of a table of Python's objects."""
    found: list[Row] = []
    for name, t, x, y, dose in table:
        name = name.decode() if isinstance(name, bytes) else name
        if name in (None, "") or t is None or dose is None or any(isinstance(each, (list, dict)) for each in (name, t, x, y)):
            return None
        numbers = [None if each is None else float(each) for each in (x, y, dose)]
        if any(each is not None and math.isinf(each) for each in numbers) or numbers[2] is None or numbers[2] != numbers[2]:
            return None
        found.append((_name(name), _exactly(t), (numbers[0], numbers[1]), numbers[2]))
    return found


def _exactly(t: Any) -> Fraction:
    """A time as a fraction; microseconds since 1970, of dates."""
    if isinstance(t, pd.Timestamp):
        return Fraction(t.as_unit("ns").value, 1000) if t.nanosecond else _exactly(t.to_pydatetime())
    if isinstance(t, dt.datetime):
        t = t if t.tzinfo is None else t.astimezone(dt.UTC).replace(tzinfo=None)
        return Fraction((t - EPOCH) // dt.timedelta(microseconds=1))
    if isinstance(t, dt.date):
        return Fraction((t - EPOCH.date()).days * 86_400 * 10**6)
    if isinstance(t, np.generic):
        t = t.item()
    return Fraction(t)


# Data frames -------------------------------------------------------------------------------------------------------------


def _odd_frame(rng: random.Random, root: Path) -> tuple[Any, list[Row] | None]:
    """A data frame or file, and its rows; the columns are what a kind of cells says, and some have a cell of another kind."""
    n = rng.choice((1, 2, 4, 9))
    kinds = {"id": rng.choice(IDS), "t": rng.choice(TIMES), "x": rng.choice(NUMBERS), "y": rng.choice(NUMBERS)}
    columns = {name: [kind(rng, i) for i in range(n)] for name, kind in kinds.items()}
    columns["dose"] = [1.0] * n
    if rng.random() < 0.3:
        name, odd = rng.choice(("id", "t", "x", "y")), rng.choice(ODD)
        columns[name][rng.randrange(n)] = "-" if name == "id" and repr(odd) == "-0.0" else odd  # as text -0 and 0 are two names
    if rng.random() < 0.2:
        columns["more"] = [rng.choice(ODD) for _ in range(n)]
    make = rng.choice((_pandas, _pandas, _pandas_objects, _polars, _pyarrow, _parquet_file))
    try:
        frame = make(rng, columns, root)
        back = _given(frame) if make is not _pandas_objects else columns
    except BaseException as error:  # what a library will not hold, or cannot give back; polars panics with exceptions of its own
        if isinstance(error, (KeyboardInterrupt, MemoryError)):
            raise
        return None, None
    written = {x for x in back["id"] if isinstance(x, str)}
    if len(set(map(_name, written))) < len(written):
        return None, None  # 0 and 0.0 are two names as text, which `_name` does not tell from each other
    try:
        return frame, _rows_of_any(list(zip(*(back[name] for name in ("id", "t", "x", "y", "dose")), strict=True)))
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        return frame, None


def _whole(rng: random.Random, i: int) -> int:
    return rng.choice((i, -i, 10**i, NS + 300 * i, 2**53 + i))


IDS: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda rng, i: "ab"[i % 2],
    lambda rng, i: i // 2,
    lambda rng, i: 2**62 + i // 3,
    lambda rng, i: i / 2,
    lambda rng, i: i % 2 == 0,
    lambda rng, i: dt.date(2024, 1, 1 + i // 2),
    lambda rng, i: rng.choice(("é", "a b", "10", "x" * 50)),
)
TIMES: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda rng, i: i,
    lambda rng, i: i / 3,
    lambda rng, i: NS + 300 * i,
    lambda rng, i: 2**64 - 1 - i,
    lambda rng, i: 10**25 + i,
    _whole,
    lambda rng, i: Decimal(NS + i) / 10**9,
    lambda rng, i: str(NS + i),
    lambda rng, i: f"{i}.5",
    lambda rng, i: dt.datetime(2024, 1, 1, 3) + dt.timedelta(microseconds=10 ** (i + 2)),
    lambda rng, i: dt.datetime(rng.choice((1, 2024, 9999)), 5, 1 + i),
    lambda rng, i: dt.datetime(2026, 10, 25, 0, 30 + i, tzinfo=dt.UTC),
    lambda rng, i: dt.datetime(2026, 10, 25, 0, 30 + i, tzinfo=dt.timezone(dt.timedelta(hours=i % 3))),
    lambda rng, i: dt.date(2024, 1, 1 + i),
    lambda rng, i: f"2024-01-0{1 + i % 9}",
    lambda rng, i: f"2024-01-0{1 + i % 9}T10:00:00.{i:09d}",
    lambda rng, i: f"2024-W05-{1 + i % 7}",
    lambda rng, i: pd.Timestamp(NS + 300 * i),
    lambda rng, i: np.datetime64(NS + 300 * i, "ns"),
    lambda rng, i: np.float32(i / 3),
)
NUMBERS: tuple[Callable[[random.Random, int], Any], ...] = (
    lambda rng, i: rng.gauss(0, 1),
    lambda rng, i: i,
    lambda rng, i: None if i % 2 else 1.5,
    lambda rng, i: float("nan") if i % 2 else 2.5,
    lambda rng, i: Decimal(rng.randrange(10**6)).scaleb(-3),
    lambda rng, i: f" {rng.gauss(0, 1)} ",
    lambda rng, i: np.float32(rng.gauss(0, 1)),
    lambda rng, i: np.int8(i),
    lambda rng, i: i % 2 == 0,
    lambda rng, i: 10 ** (3 * i),
    lambda rng, i: rng.choice((1, 2.5, Decimal("3.25"))),
)
ODD: tuple[Any, ...] = (
    *(None, float("nan"), float("inf"), -math.inf, pd.NaT, pd.NA, True, 0, -1, 2**53 + 1, 2**64, 10**80, 1e308, -0.0, 1j),
    *("", " ", "a", "nan", "1e400", "1,5", "1_000", "0x10", "∞", "x" * 3000, "a\nb", "\ud800", "2024-01-05", "2024-01-05T24:00"),
    *(b"a", b"\xff", [1], [], {"a": 1}, {1}, (1, 2), object(), dt.time(1), dt.timedelta(1), dt.date(1, 1, 1)),
    *(np.datetime64("NaT"), np.timedelta64(5), np.timedelta64(5, "ns"), Fraction(1, 3), dt.datetime(9999, 12, 31)),
    *(Decimal("NaN"), Decimal("Infinity"), Decimal("1e-60"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
)


def _pandas(rng: random.Random, columns: dict[str, list[Any]], root: Path) -> Any:
    """Each column as pandas takes it, or of one of its types that it can have."""
    types = (
        "category",
        "Int64",
        "Float64",
        "float32",
        "float16",
        "boolean",
        "string",
        "uint64",
        "str",
        "datetime64[ns]",
        "Sparse[float64]",
    )
    found = {}
    for name, values in columns.items():
        found[name] = pd.Series(values)
        if rng.random() < 0.3 and not any(type(x) is object for x in values):  # as text they say where they lie in memory
            try:
                found[name] = pd.Series(values, dtype=rng.choice(types))
            except (TypeError, ValueError, OverflowError, NotImplementedError, pa.ArrowException):
                pass
        if rng.random() < 0.1:
            found[name] = found[name].astype(pd.ArrowDtype(rng.choice((pa.string_view(), pa.large_string(), pa.float32()))))
    return pd.DataFrame(found)


def _pandas_objects(rng: random.Random, columns: dict[str, list[Any]], root: Path) -> Any:
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def _polars(rng: random.Random, columns: dict[str, list[Any]], root: Path) -> Any:
    return pl.DataFrame({name: _polars_column(rng, name, values) for name, values in columns.items()})


def _polars_column(rng: random.Random, name: str, values: list[Any]) -> Any:
    if any(isinstance(x, Decimal) and not (x.is_finite() and abs(x.as_tuple().exponent) < 30) for x in values):  # type: ignore[arg-type]
        raise ValueError("polars panics at such, and says so at length")
    if rng.random() < 0.1:
        return pl.Series(name, values, dtype=pl.Object)
    if any(type(x) is object for x in values):
        raise ValueError("polars writes where such lie in memory")
    found = pl.Series(name, values, strict=rng.random() < 0.5)
    if rng.random() < 0.2:
        others = (pl.Datetime("ms"), pl.Datetime("ns")) if name == "t" else (pl.Categorical, pl.String)
        found = found.cast(rng.choice((pl.Float32, pl.Int128, pl.UInt64, pl.String, *others)))
    return found


def _pyarrow(rng: random.Random, columns: dict[str, list[Any]], root: Path) -> Any:
    return pa.table({name: _pyarrow_column(rng, name, values) for name, values in columns.items()})


def _pyarrow_column(rng: random.Random, name: str, values: list[Any]) -> Any:
    if any(isinstance(x, np.datetime64) and np.isnat(x) for x in values):
        raise ValueError("pyarrow crashes at some of these")
    found = pa.array(values)
    kinds = (
        *(pa.string_view(), pa.large_string(), pa.float16(), pa.float32(), pa.uint64(), pa.int8(), pa.decimal128(38, 9)),
        *(pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms", "Europe/Paris"), pa.binary(), pa.bool_(), pa.date64()),
    )
    if rng.random() < 0.3:
        found = found.cast(rng.choice(kinds if name == "t" else kinds[:-1]))
    if rng.random() < 0.2:
        found = found.dictionary_encode()
    cut = rng.randrange(len(values) + 1)
    return pa.chunked_array([found[:cut], found[cut:]]) if rng.random() < 0.3 else found


def _parquet_file(rng: random.Random, columns: dict[str, list[Any]], root: Path) -> Any:
    path = root / f"odd {rng.randrange(4)}.parquet"
    pyarrow.parquet.write_table(_pyarrow(rng, columns, root), path)
    return path


def _given(frame: Any) -> dict[str, list[Any]]:
    """The cells that a data frame holds, as it gives them itself."""
    if isinstance(frame, pd.DataFrame):
        return {name: frame[name].tolist() for name in frame}
    if isinstance(frame, pl.DataFrame):
        return {name: _polars_cells(frame[name], name) for name in frame.columns}
    table = frame if isinstance(frame, pa.Table) else pyarrow.parquet.ParquetFile(frame).read()
    return {name: _objects(table.column(name), name) for name in table.column_names}


def _polars_cells(column: Any, name: str) -> list[Any]:
    if isinstance(column.dtype, pl.Datetime) and name == "t":  # of Python's, which would lose nanoseconds
        size = {"ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)}[column.dtype.time_unit]
        return [None if x is None else x * size for x in column.cast(pl.Int64).to_list()]
    return column.to_list()


def _rows_of_any(table: list[tuple[Any, ...]]) -> list[Row] | None:
    """The rows of a table of Python's objects, of which some are text that stands for a number or a date."""
    found: list[tuple[Any, ...]] = []
    table = [(row[0], row[1].decode() if isinstance(row[1], bytes) else row[1], *row[2:]) for row in table]
    texts = [x for _, x, *_ in table if isinstance(x, str)]
    dated = any(isinstance(x, (dt.date, np.datetime64)) for _, x, *_ in table)
    if texts:
        spoken = [x.strip() if isinstance(x, str) else str(x) for _, x, *_ in table]
        dates = [_date(x) for x in spoken]
        if all(date is not None for date in dates):
            if len({zoned for _, zoned in dates}) > 1:  # type: ignore[misc]
                return None
            table = [(row[0], date[0], *row[2:]) for row, date in zip(table, dates, strict=True)]  # type: ignore[index]
        elif dated:
            return None
        else:
            table = [(row[0], Decimal(_number(x)), *row[2:]) for row, x in zip(table, spoken, strict=True)]
    elif dated:
        zones = {isinstance(x, dt.datetime) and x.tzinfo is not None for _, x, *_ in table}
        if len(zones) > 1 or not all(isinstance(x, (dt.date, np.datetime64)) for _, x, *_ in table):
            return None
        table = [(row[0], _from_numpy(row[1]), *row[2:]) for row in table]
    for name, t, x, y, dose in table:
        numbers = [_spoken_number(each) for each in (x, y, dose)]
        found.append((_spoken_name(name), t, *numbers))
    return _rows_of_objects(found)


def _from_numpy(t: Any) -> Any:
    return pd.Timestamp(t) if isinstance(t, np.datetime64) else t


def _spoken_number(x: Any) -> Any:
    if _is_nothing(x):
        return None
    x = x.decode() if isinstance(x, bytes) else x
    if isinstance(x, str):
        text = x.strip()
        return None if not text or text.lower() in ("nan", "-nan", "+nan") else float(_number(text))
    if isinstance(x, (list, dict, set, tuple, dt.date, dt.time, dt.timedelta, complex, np.datetime64, np.timedelta64)):
        raise ValueError(x)
    return float(x)


def _is_nothing(x: Any) -> bool:
    if isinstance(x, (float, np.floating, Decimal)):
        return bool(x != x)
    return x is None or x is pd.NA or x is pd.NaT or (isinstance(x, np.datetime64) and bool(np.isnat(x)))


def _spoken_name(x: Any) -> Any:
    if _is_nothing(x) or (isinstance(x, (str, bytes)) and not x.strip()):
        return None
    return x.item() if isinstance(x, np.generic) and not isinstance(x, (np.datetime64, np.timedelta64)) else x
