"""Tables to the last digit: what can be read is read rightly, whatever it came as; the rest is refused in one line."""

import datetime as dt
import gzip
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import jax.random as jr
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import odeprocess as odp
from fuzzing import outcomes, tables as fuzz
from fuzzing.outcomes import REFUSED, RIGHT
from odeprocess.forecasting.column_roles import Columns, resolve
from odeprocess.forecasting.predict import asked_times
from odeprocess.forecasting.read_table import Table, read
from odeprocess.forecasting.table_layout import Layout
from odeprocess.forecasting.table_limits import MAX_COLUMNS
from table_cases import table, untrained

NS = 1_700_000_000_000_000_000  # nanoseconds since 1970, of which float64 holds every 256th
LONG = [NS, NS + 300, NS + 600, NS + 1, NS + 10**17 + 1]
COLUMNS = Columns("id", "t", ("y",))
REST = {"id": ["a", "a", "a", "b", "b"], "y": [1.0, 2.0, 3.0, 4.0, 6.0]}


def learned(data) -> tuple:
    return Layout.learn(read(data), COLUMNS, min_points=1, ties="keep")[:2]


def written(tmp_path: Path, name: str, times: list) -> Path:
    path = tmp_path / name
    frame = pa.table({**REST, "t": pa.array(times)})
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(frame, path)
    else:
        lines = ["id,t,y", *(f"{i},{t},{y}" for i, t, y in zip(REST["id"], times, REST["y"], strict=True))]
        path.write_text("\n".join(lines))
    return path


LONG_TIMES = {
    "pandas": lambda p: pd.DataFrame({**REST, "t": LONG}),
    "polars": lambda p: pl.DataFrame({**REST, "t": LONG}),
    "pyarrow": lambda p: pa.table({**REST, "t": LONG}),
    "uint64": lambda p: pd.DataFrame({**REST, "t": np.array(LONG, np.uint64) + np.uint64(2**63)}),
    "Python's numbers": lambda p: pd.DataFrame({**REST, "t": pd.Series([x + 10**30 for x in LONG], dtype=object)}),
    "128 bits": lambda p: pl.DataFrame({**REST, "t": pl.Series([x + 2**100 for x in LONG], dtype=pl.Int128)}),
    "text": lambda p: pd.DataFrame({**REST, "t": list(map(str, LONG))}),
    "decimals": lambda p: pa.table({**REST, "t": [Decimal(x) for x in LONG]}),
    "CSV": lambda p: written(p, "d.csv", LONG),
    "Parquet": lambda p: written(p, "d.parquet", LONG),
    "packed CSV": lambda p: packed(written(p, "d.csv", LONG)),
}


def packed(path: Path) -> Path:
    found = path.with_name(f"{path.name}.gz")
    found.write_bytes(gzip.compress(path.read_bytes()))
    return found


@pytest.mark.parametrize("kind", LONG_TIMES)
def test_long_whole_numbers_are_subtracted_before_they_are_rounded(kind, tmp_path):
    data = LONG_TIMES[kind](tmp_path)
    layout, long = learned(data)
    assert long.t.tolist() == [0.0, 300.0, 600.0, 0.0, 1e17]
    back = layout.clock.to_arrow(asked_times(data, long, layout).when).to_pylist()
    first = int(min(back))
    assert [int(x) - first for x in back] == [x - NS for x in LONG]  # as they were given, to the last digit
    moved = layout.clock.to_arrow(asked_times([0, 300, 600], long, layout).when).to_pylist()
    assert [int(x) - first for x in moved] == [0, 300, 600, 1, 301, 601]


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_decimals_keep_their_digits(name, tmp_path):
    texts = ["1700000000.000000300", "1700000000.000000600", "1700000001", "5", "7.5"]
    times = texts if name == "d.csv" else [Decimal(x) for x in texts]
    data = written(tmp_path, name, times)
    layout, long = learned(data)
    assert long.t.tolist() == [0.0, 3e-07, 0.9999997, 0.0, 2.5]
    assert layout.clock.to_arrow(asked_times(data, long, layout).when).to_pylist() == [Decimal(x) for x in texts]
    later = layout.clock.to_arrow(asked_times([12345678901, 0.5], long, layout).when).to_pylist()
    assert later[:2] == [Decimal("14045678901.0000003"), Decimal("1700000000.5000003")]


def test_a_forecaster_answers_at_the_very_times_it_is_asked_about():
    small = table(2).assign(t=(1000 * table(2)["t"]).astype(int))
    big = small.assign(t=small["t"] + NS)
    guesser = untrained(table().assign(t=(1000 * table()["t"]).astype(int)))
    expected, found = guesser.predict(small, small[["id", "t"]]), guesser.predict(big, big[["id", "t"]])
    assert found["t"].dtype == np.int64 and (found["t"] - NS).tolist() == expected["t"].tolist()
    pd.testing.assert_frame_equal(found.drop(columns="t"), expected.drop(columns="t"), check_exact=True)
    usual = guesser.predict(big)  # an even grid of whole numbers
    assert usual["t"].dtype == np.int64 and len(set(usual["t"])) > 50


def test_times_that_are_no_whole_numbers_are_echoed_as_they_were_given():
    data = table(2)
    times = data["t"].tolist()
    found = untrained().predict(data, data[["id", "t"]])["t"].tolist()
    assert found[::2] == found[1::2] == times  # not as a sum that is off by a rounding


def test_the_zero_of_absolute_times_is_kept_with_all_its_digits(tmp_path):
    whole = table().assign(t=NS + (1000 * table()["t"]).astype(int))
    guesser = untrained(whole, origin="absolute")
    guesser.save(tmp_path / "model")
    again = odp.Forecaster.load(tmp_path / "model")
    assert again.layout_ == guesser.layout_ and again.layout_.clock.zero == whole["t"].min()
    pd.testing.assert_frame_equal(again.predict(whole, [0, 300]), guesser.predict(whole, [0, 300]), check_exact=True)


def test_arrays_of_whole_numbers_that_float64_cannot_hold_are_refused(tmp_path):
    y = [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match=r"`t` holds whole numbers beyond 2\*\*53, such as 17.*t - t\[0\]"):
        odp.make_series(np.array(LONG[:3]), y)
    with pytest.raises(ValueError, match=r"`t of series 1` holds whole numbers beyond"):
        odp.make_series([[0, 1, 2], LONG[:3]], [y, y])
    even = np.array([NS, NS + 256, NS + 512])
    assert np.diff(odp.make_series(even, y).t[0]).tolist() == [256.0, 256.0]
    model = untrained().model_
    with pytest.raises(ValueError, match=r"`times` holds whole numbers beyond"):
        untrained().predict(table(2), [NS + 300])
    with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
        model.condition(np.array(LONG[:3]), np.ones((3, 2)), key=jr.key(0), static=np.zeros(3))
    with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
        odp.Stream(model, key=jr.key(0)).observe("a", np.array(LONG[:3]), np.ones((3, 2)))


DATES = {  # what is written, and the days since the first
    "days": (["2024-01-05", "2024-01-06", "2024-02-05"], [0, 1, 31]),
    "weeks of ISO 8601": (["2024-W05-3", "2024-W05-4", "2024-W06-3"], [0, 1, 7]),
    "other forms of ISO 8601": (["20240105T1000", "2024-01-06 10", "2024-01-07T10:00:00,000"], [0, 1, 2]),
    "offsets": (["2024-01-05T23:00:00-02:00", "2024-01-06T02:00+0100", "2024-01-07T01:00:00Z"], [0, 0, 1]),
    "nanoseconds": (["2024-01-05T00:00:00.000000300", "2024-01-05T00:00:00.000000600", "2024-01-06"], [0, 0, 1]),
    "all years": (["0001-01-01", "0001-01-02", "9999-12-31T23:59:59.999999"], [0, 1, 3652058.99]),
    "folds of the clock": (["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00+01:00"], [0, 0.04, 0.06]),
}  # fmt: skip


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_read_from_files_and_frames_alike(kind, tmp_path):
    texts, days = DATES[kind]
    frame = pd.DataFrame({"id": ["a", "a", "a", "b"], "t": [*texts, texts[0]], "y": [1.0, 2.0, 4.0, 3.0]})
    quoted = frame.assign(t='"' + frame["t"] + '"')
    (tmp_path / "d.csv").write_text("\n".join(["id,t,y", *(",".join(map(str, row)) for row in quoted.itertuples(index=False))]))
    for data in (frame, tmp_path / "d.csv"):
        layout, long = learned(data)
        unit = {"seconds": 86_400, "minutes": 1440, "hours": 24, "days": 1}[layout.clock.unit]
        np.testing.assert_allclose(long.t[:3] / unit, days, atol=0.01)
        echoed = layout.clock.to_arrow(asked_times(data, long, layout).when)
        exact = [fuzz._date(text)[0] for text in texts]  # pyright: ignore
        size = {"us": 1, "ns": Fraction(1, 1000)}[echoed.type.unit]
        assert [x * size for x in echoed.cast(pa.int64()).to_pylist()][:3] == exact


def test_dates_of_data_frames_keep_what_arrow_would_drop():
    day = dt.datetime(2024, 1, 5)
    cases = {
        "a time of day after a date": ([day.date(), day + dt.timedelta(hours=6)], [0.0, 6.0]),
        "nanoseconds": ([pd.Timestamp(day), pd.Timestamp(day) + pd.Timedelta(300, "ns")], [0.0, 3e-7]),
        "zones": ([day.replace(tzinfo=dt.UTC), day.replace(tzinfo=dt.timezone(dt.timedelta(hours=-3)))], [0.0, 3.0]),
    }
    for times, expected in cases.values():
        column = pd.Series([*times, *times], dtype=object)
        _, long = learned(pd.DataFrame({"id": ["a", "a", "b", "b"], "t": column, "y": [1.0, 2.0, 3.0, 4.0]}))
        assert long.t.tolist()[:2] == expected
    mixed = pd.Series([day, day.replace(tzinfo=dt.UTC)] * 2, dtype=object)
    with pytest.raises(ValueError, match="is a date without a time zone, where most are a date with"):
        learned(pd.DataFrame({"id": ["a", "a", "b", "b"], "t": mixed, "y": [1.0, 2.0, 3.0, 4.0]}))


def test_dates_beyond_those_there_are_get_one_line():
    frame = pd.DataFrame({"id": ["a", "a", "b"], "t": pd.date_range("2024-01-01", periods=3), "y": [1.0, 2.0, 4.0]})
    layout, long = learned(frame)
    for times in ([1e12], np.array(["9999-12-31"], "datetime64[D]").astype("datetime64[Y]") + 5):
        with pytest.raises(ValueError, match="the year 1 to the year 9999"):
            asked_times(times, long, layout)
    with pytest.raises(ValueError, match="a date that is missing"):
        asked_times(np.array(["NaT"], "datetime64[ns]"), long, layout)
    far = pa.table({"id": ["a", "a"], "t": pa.array([0, 2**62], pa.timestamp("s")), "y": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"column `t`, series 'a', row 1: the date is beyond"):
        learned(far)
    nowhere = far.set_column(1, "t", pa.array([0, 1], pa.timestamp("s", "Mars/Phobos")))
    with pytest.raises(ValueError, match="the time zone 'Mars/Phobos' is not known"):
        learned(nowhere)


PLAIN = ["a", "a", "b", "b"]
NAMES = {
    "views": pa.array(PLAIN, pa.string_view()),
    "large": pa.array(PLAIN, pa.large_string()),
    "dictionaries": pa.array(PLAIN).dictionary_encode(),
    "bytes": pa.array([x.encode() for x in PLAIN]),
    "bytes of one length": pa.array([x.encode() for x in PLAIN], pa.binary(1)),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4]), pa.array(["a", "b"])),
}


@pytest.mark.parametrize("kind", NAMES)
def test_names_are_read_whatever_their_type(kind, tmp_path):
    frame = pa.table({"id": NAMES[kind], "t": [0, 1, 0, 2], "y": [Decimal("0.3"), Decimal("1.1"), None, Decimal("2.675")]})
    given = [frame]
    if kind != "runs":
        pyarrow.parquet.write_table(frame, tmp_path / "d.parquet")
        given.append(tmp_path / "d.parquet")
    for data in given:
        _, long = Layout.learn(read(data), COLUMNS, min_points=1)[:2]
        assert long.names.to_pylist() == ["a", "b"]
        np.testing.assert_array_equal(long.values[:, 0], [0.3, 1.1, np.nan, 2.675])  # the nearest float64 of each


@pytest.mark.parametrize(
    ("column", "says"),
    [
        (pa.array([{"k": 1}] * 4), "column `id`, row 0: the column holds structs"),
        (pa.array([[1]] * 4), "column `id`, row 0: the column holds lists"),
        (pa.array([[("k", 1)]] * 4, pa.map_(pa.string(), pa.int8())), "column `id`, row 0: the column holds maps"),
        (pa.array([b"\xff"] * 4), "bytes that are not text"),
        (pa.array([dt.time(1)] * 4), "times of day"),
        (pa.array(["a", "a\nb", "b", "b"]), "row 1: the name 'a\\nb' holds a line end"),
        (pa.array(["a", "x" * 2000, "b", "b"]), "has 2,000 characters"),
        (pa.array(["a", "a ", "b", "b"]), "'a ' and 'a' differ by blanks only"),
        (pa.array(["a", " ", "b", "b"]), "row 1: the row does not say which series"),
    ],
)
def test_names_that_are_none_are_refused(column, says, tmp_path):
    frame = pa.table({"id": column, "t": [0, 1, 0, 2], "y": [1.0, 2.0, 3.0, 4.0]})
    pyarrow.parquet.write_table(frame, tmp_path / "d.parquet")
    for data in (frame, tmp_path / "d.parquet"):
        with pytest.raises(ValueError) as caught:
            learned(data)
        assert says in str(caught.value) and outcomes.refusal(str(caught.value)) == REFUSED


def test_objects_are_never_read_as_where_they_lie_in_memory():
    names = [frozenset([1]), frozenset([2])]
    frame = pl.DataFrame({"id": pl.Series(names * 2, dtype=pl.Object), "t": [0, 0, 1, 1], "y": [1.0, 2.0, 3.0, 4.0]})
    assert learned_names(frame) == list(map(str, names))
    with pytest.raises(ValueError, match="the cell holds an object of the type object"):
        learned_names(pd.DataFrame({"id": [object(), object()], "t": [0, 1], "y": [1.0, 2.0]}))


def learned_names(data) -> list:
    return learned(data)[1].names.to_pylist()


def test_names_in_files_are_as_they_are_written(tmp_path):
    cases = {
        "007,7": ["007", "7"],
        "10,9": [9, 10],
        "1.0,2.5": [1.0, 2.5],
        "123456789012345678901,123456789012345678902": ["123456789012345678901", "123456789012345678902"],
        "2024-01-05,2024-01-06": ["2024-01-05", "2024-01-06"],
        " a,b ": ["a", "b"],
    }
    for text, expected in cases.items():
        one, other = text.split(",")
        (tmp_path / "d.csv").write_text(f"id,t,y\n{one},0,1\n{other},1,2\n{one},2,4\n")
        assert learned_names(tmp_path / "d.csv") == expected


def wide(columns: int) -> pd.DataFrame:
    numbers = np.random.default_rng(0).normal(size=(4, columns))
    return pd.DataFrame({"id": PLAIN, "t": [0, 1, 0, 1], **{f"y{j}": numbers[:, j] for j in range(columns)}})


@pytest.mark.parametrize("kind", ["data frame", "CSV", "Parquet"])
def test_no_row_is_looked_up_unless_there_is_something_to_say_of_it(kind, tmp_path, monkeypatch):
    """Each look goes through the file: done for every column, it made wide files quadratic in their columns."""
    data = wide(200)
    if kind == "CSV":
        data.to_csv(tmp_path / "d.csv", index=False)
        data = tmp_path / "d.csv"
    elif kind == "Parquet":
        data.to_parquet(tmp_path / "d.parquet")
        data = tmp_path / "d.parquet"
    came = read(data)
    monkeypatch.setattr(Table, "row", lambda *_: pytest.fail("a row was looked up"))
    columns, said = resolve(came, None, None, None, None, "first")
    _, long, _ = Layout.learn(came, columns)
    assert long.values.shape == (4, 200) and any("and 180 more." in note for note in said)


def test_tables_of_too_many_columns_are_refused_at_their_header(tmp_path):
    (tmp_path / "d.csv").write_text("id,t" + ",".join(f"y{j}" for j in range(MAX_COLUMNS)) + "\n")
    pa_table = pa.table({f"y{j}": [1] for j in range(MAX_COLUMNS + 1)})
    for data in (tmp_path / "d.csv", pa_table, pl.from_arrow(pa_table)):
        with pytest.raises(ValueError, match=r"has 16,38\d columns; expected 16,384 at most"):
            read(data)


def test_messages_are_cut_where_names_are_many_or_long():
    came = read(wide(8000).drop(columns="t"))
    with pytest.raises(ValueError, match=r"its columns are 'id', 'y0', .*, 'y6', and 7,993 more\. Name it") as caught:
        resolve(came, None, None, None, None, "first")
    assert outcomes.refusal(str(caught.value)) == REFUSED
    with pytest.raises(ValueError, match=r"no column `y70000` .*Did you mean `y7000`|`y700`") as caught:
        learned_as(came, "y70000")
    assert outcomes.refusal(str(caught.value)) == REFUSED
    with pytest.raises(ValueError) as caught:
        learned_as(came, "x" * 2**20)
    assert outcomes.refusal(str(caught.value)) == REFUSED


def learned_as(came: Table, time: str) -> None:
    Layout.learn(came, Columns("id", time, ("y0",)))


FILES = {
    "a quote that never closes": (b'id,t,y\na,0,1\n"a,1,2\nb,0,3\n', "row 3: a quote opens here that is not closed"),
    "a quote that swallows rows": (b'id,t,y\n"a,0,1\na",1,2\nb,0,3\n', "holds a line end"),
    "NUL": (b"id,t,y\na,0,1\na,1,\x002\n", "row 3: the file holds bytes that are 0"),
    "UTF-16 without a mark": ("id,t,y\na,0,1\n".encode("utf-16-le"), "row 1: the file holds bytes that are 0"),
    "Latin-1 with ragged rows": (b"id,t,y\na,0,1,4\n\xe9,1,2\nb,1\n", "column `id`, row 3: the text is not UTF-8"),
    "hexadecimal": (b"id,t,y\na,0,0x10\na,1,2\n", "'0x10' is not a number"),
    "too large for float64": (b"id,t,y\na,0,1e400\na,1,2\n", "infinite, or beyond what a float64 can hold"),
    "blanks in a number": (b"id,t,y\na,0,1 000\na,1,2\n", "'1 000' is not a number"),
    "another sign for infinity": ("id,t,y\na,0,∞\na,1,2\n".encode(), "'∞' is not a number"),
    "a leap second": (b"id,t,y\na,2016-12-31T23:59:60,1\na,2017-01-01,2\n", "Leap seconds are not supported"),
    "the end of a day": (b"id,t,y\na,2016-12-31T24:00,1\na,2017-01-01,2\n", "the beginning of the next"),
    "a month": (b"id,t,y\na,2016-12,1\na,2017-01,2\n", "'2016-12' is neither a number nor a date"),
    "the year 10000": (b"id,t,y\na,10000-01-01,1\na,2017-01-01,2\n", "neither a number nor a date"),
    "a row of a million separators": (b"id,t,y\n" + b"," * 10**6, "row 2: 1,000,001 cells"),
    "a header of a million separators": (b"," * 10**6, "1,000,001 columns; expected 16,384"),
    "a name of a megabyte": (b"id,t,y," + b"x" * 2**20 + b"\na,0,1,2\n", "column 4 has 1,048,576 characters"),
    "a cell of ten megabytes": (b"id,t,y\na,0," + b"x" * 10**7, "is not a number"),
    "a number of ten megabytes": (b"id,t,y\na,1." + b"0" * 10**7 + b",1\na,2,2\n", "too many digits"),
    "a row without an end": (b"id,t,y\n" + b"a" * (17 * 2**20), "a row of more than 16,777,216 bytes"),
    "columns without names": (b"id,t,y,,\na,0,1,,\n", "2 columns without a name"),
    "mixed separators": (b"id,t,y\na,0,1\na;1;2\n", "row 3: 1 cells where the header names 3"),
    "a file that is packed": (gzip.compress(b"id,t,y\n"), "is compressed. Give it the ending .csv.gz"),
    "Parquet called CSV": (b"PAR1....", "is a Parquet file"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files_are_refused_in_one_line(name, tmp_path):
    content, says = FILES[name]
    (tmp_path / "d.csv").write_bytes(content)
    with pytest.raises(ValueError) as caught:
        learned(tmp_path / "d.csv")
    assert says in str(caught.value) and outcomes.refusal(str(caught.value)) == REFUSED
    assert "d.csv" in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_marks_and_quoted_cells_do_not_matter(end, tmp_path):
    lines = ["\ufeffid,t,y,note", 'a,0,1,"x\ny"', "", 'a,1,2,"say ""x"""', "b,0,4,", "b,1,bad,"]
    (tmp_path / "d.csv").write_text(end.join(lines), newline="")
    with pytest.raises(ValueError, match="column `y`, series 'b', row 7: 'bad'"):  # as an editor counts lines
        learned(tmp_path / "d.csv")
    (tmp_path / "d.csv").write_text(end.join(lines[:-1]), newline="")
    assert learned_names(tmp_path / "d.csv") == ["a", "b"]


def test_a_small_file_that_grows_without_end_is_refused(tmp_path):
    member = gzip.compress(b"a,0,1\n" * 2**18)
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"id,t,y\n") + member * 200)
    with pytest.raises(ValueError, match="grows to more than 268,435,456 bytes when it is unpacked"):
        read(tmp_path / "d.csv.gz")


def test_parquet_that_says_it_holds_more_than_it_can_is_refused(tmp_path):
    pyarrow.parquet.write_table(pa.table({"id": pa.nulls(2_000_000)}), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"says that it holds 2,000,000 rows, .* in a file of"):
        read(tmp_path / "d.parquet")
    pyarrow.parquet.write_table(pa.table(REST | {"t": LONG}), tmp_path / "hive=1.parquet")
    assert read(tmp_path / "hive=1.parquet").names == ("id", "y", "t")  # and nothing that a folder's name says


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    cases = {
        tmp_path: "is a folder",
        tmp_path / "pipe.csv": "is a pipe",
        tmp_path / "zero.csv": "is a device",
        tmp_path / "loop.csv": "cannot be opened",
        "x" * 5000 + ".csv": "cannot be opened",
        "nul\0.csv": "cannot be opened",
        "new\nline.csv": "is not there",
    }
    for path, says in cases.items():
        with pytest.raises((ValueError, FileNotFoundError), match=says) as caught:
            read(path)
        assert outcomes.refusal(str(caught.value)) == REFUSED


@pytest.mark.parametrize("part", ["damaged_csv", "damaged_parquet", "odd_tables"])
def test_damaged_files_and_odd_frames_are_read_rightly_or_refused(part):
    """A piece of the campaign; `make fuzz` is the whole of it."""
    found = getattr(fuzz, part)(0, 300)
    assert set(found) <= {RIGHT, REFUSED} and found[RIGHT] > 20


def test_a_refusal_ends_the_command_and_not_the_process(tmp_path):
    (tmp_path / "d.csv").write_text("id,t,y\n" + "a,0,1,4\n" * 3 + "a,0,1\n" * 200_000)
    command = [sys.executable, "-m", "odeprocess", "fit", str(tmp_path / "d.csv"), "--out", str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "row 2: 4 cells" in done.stderr, done.stderr
