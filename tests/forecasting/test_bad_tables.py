"""Bad tables: real files through the real command. Each gets one message that names the place, exit code 2 and no output."""

# ruff: noqa: E501 (a line for each bad table)

import gzip
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import odeprocess as odp
from odeprocess.cli.app import app
from table_cases import table, untrained

GOOD = [
    f"{name},{t},{v}" for name, values in {"a": (1, 2, 4), "b": (3, 5, 6), "c": (2, 2.5, 3)}.items() for t, v in enumerate(values)
]
HEADER = "id,t,y"


def csv(*changes: tuple[int, str], header: str = HEADER, rows: list[str] = GOOD) -> bytes:
    """The good table with some rows (counted as in a spreadsheet: the header is 1) put in place of others."""
    lines = [header, *rows]
    for row, text in changes:
        lines[row - 1 :] = [text, *lines[row:]]
    return "\n".join([*lines, ""]).encode()


def with_column(name: str, cells: list) -> bytes:
    return csv(header=f"{HEADER},{name}", rows=[f"{row},{cell}" for row, cell in zip(GOOD, cells, strict=True)])


def dated(*changes: tuple[int, str]) -> bytes:
    rows = [f"{row[:2]}2026-01-0{1 + int(row[2])}T10:00:00{row[3:]}" for row in GOOD]
    return csv(*changes, rows=rows)


def parquet(**columns) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def damaged_parquet() -> bytes:
    content = parquet(id=["a", "b"], t=[0, 1], y=[1.0, 2.0])
    return content[: len(content) // 2] + content[-200:]


# name of the file, its content, further options, and what the message must say
FIT: dict[str, tuple[str, bytes | None, str, list[str]]] = {
    "no series column": ("d.csv", csv(header="ID,t,y"), "", ["no column `id`", "'ID', 't', 'y'"]),
    "no time column": ("d.csv", csv(header="id,time,y"), "", ["no column `t`", "the time"]),
    "no value column": ("d.csv", csv(header="id,t,yy"), "", ["no column `y`", "Did you mean `yy`?"]),
    "nothing obvious": ("d.csv", csv(header="p,q,r"), "guess", ["no column that is obviously the series", "--series"]),
    "two obvious times": ("d.csv", with_column("date", [1] * 9), "guess", ["'t' or 'date'?", "--time"]),
    "text in values": ("d.csv", csv((4, "a,2,high")), "", ["column `y`, series 'a', row 4", "'high' is not a number"]),
    "a decimal comma": ("d.csv", csv((5, 'b,0,"3,5"')), "", ["column `y`, series 'b', row 5", "a point, not a comma"]),
    "an underscore in a number": ("d.csv", csv((5, "b,0,1_000")), "", ["column `y`, series 'b', row 5", "'1_000'"]),
    "an infinite value": ("d.csv", csv((7, "b,2,inf")), "", ["column `y`, series 'b', row 7", "infinite"]),
    "an infinite time": ("d.csv", csv((7, "b,-inf,1")), "", ["column `t`, series 'b', row 7", "infinite"]),
    "text in times": ("d.csv", csv((3, "a,noon,2")), "", ["column `t`, series 'a', row 3", "'noon'"]),
    "no time": ("d.csv", csv((3, "a,,2")), "", ["column `t`, series 'a', row 3", "missing"]),
    "no series": ("d.csv", csv((10, ",2,3")), "", ["column `id`, row 10", "does not say which series"]),
    "a series without values": ("d.csv", csv((2, "a,0,"), (3, "a,1,"), (4, "a,2,NA")), "", ["column `y`, series 'a', row 2", "no value at all"]),
    "a series of one row": ("d.csv", csv(rows=[*GOOD, "d,0,1"]), "", ["column `y`, series 'd', row 11", "--min-points 1"]),
    "a row twice": ("d.csv", csv(rows=[*GOOD, GOOD[4]]), "", ["column `t`, series 'b', row 11", "already in row 6", "--ties keep"]),
    "a time twice": ("d.csv", csv((6, "b,0,7")), "", ["column `t`, series 'b', row 6", "already in row 5"]),
    "constant values": ("d.csv", csv(rows=[row[:4] + "5" for row in GOOD]), "", ["column `y`, series 'a', row 2", "5 in every row"]),
    "huge values": ("d.csv", csv((8, "c,0,1e200")), "", ["column `y`, series 'c', row 8", "larger unit"]),
    "tiny values": ("d.csv", csv(rows=[f"{row}e-200" for row in GOOD]), "", ["column `y`, series 'a', row 2", "too close"]),
    "values that differ by rounding": ("d.csv", csv(rows=[row[:4] + f"1e15{row[2]}"[:-1] + f".{row[2]}" for row in GOOD]), "", ["column `y`"]),
    "an empty value column": ("d.csv", csv(rows=[row[:4] for row in GOOD]), "", ["column `y` is empty in every row"]),
    "one time for all": ("d.csv", csv(rows=["a,1,1", "a,1,2", "b,1,1", "b,1,3"]), "--ties keep", ["column `t`, series 'a', row 2", "one time only"]),
    "huge times": ("d.csv", csv((8, "c,1e150,2")), "", ["column `t`, series 'c'", "larger unit"]),
    "an empty file": ("d.csv", b"", "", ["d.csv is empty"]),
    "only blank lines": ("d.csv", b"\n\n\n", "", ["d.csv could not be read as CSV"]),
    "no rows": ("d.csv", b"id,t,y\n", "", ["no rows beneath its header"]),
    "another separator": ("d.csv", csv().replace(b",", b";"), "", ["separated by ';'", "--separator ';'"]),
    "UTF-16": ("d.csv", csv().decode().encode("utf-16"), "", ["UTF-16", "save it as UTF-8"]),
    "another encoding": ("d.csv", csv((2, "é,0,1")).decode().encode("latin-1"), "", ["column `id`", "not UTF-8"]),
    "too many cells": ("d.csv", csv((6, "b,1,5,9")), "", ["d.csv, row 6: 4 cells where the header names 3"]),
    "too few cells": ("d.csv", csv((6, "b,1")), "", ["d.csv, row 6: 2 cells where the header names 3"]),
    "text after blank lines": ("d.csv", csv((1, "\n\nid,t,y\n"), (4, "\r\n\na,2,high")), "", ["column `y`, series 'a', row 9", "'high' is not a number"]),
    "too many cells after a blank line": ("d.csv", csv((4, "\na,2,4"), (6, "b,1,5,9")), "", ["d.csv, row 7: 4 cells"]),
    "two columns of one name": ("d.csv", csv(header="id,t,t"), "", ["2 columns `t`"]),
    "a column in two roles": ("d.csv", csv(), "--static y", ["Column `y` has two roles"]),
    "a reserved name": ("d.csv", csv(header="id,mean,y"), "--time mean", ["Column `mean`", "rename it"]),
    "one series only": ("d.csv", csv(rows=GOOD[:3]), "", ["column `id`, series 'a', row 2", "the only series"]),
    "dates with and without a zone": ("d.csv", dated((5, "b,2026-01-01T10:00:00Z,3")), "", ["column `t`, series 'b', row 5", "time zone"]),
    "dates in another form": ("d.csv", csv(rows=[row[:2] + f"0{1 + int(row[2])}/02/2026" + row[3:] for row in GOOD]), "", ["column `t`, series 'a', row 2", "Write dates as"]),
    "dates and numbers": ("d.csv", dated((6, "b,12.5,3")), "", ["column `t`, series 'b', row 6", "'12.5'"]),
    "a covariate that changes": ("d.csv", with_column("dose", [1, 1, 1, 2, 2, 3, 1, 1, 1]), "--static dose", ["column `dose`, series 'b', row 7", "changes"]),
    "a covariate that is missing": ("d.csv", with_column("sex", ["f"] * 6 + ["", "", ""]), "--static sex", ["column `sex`, series 'c', row 8", "missing"]),
    "categories that are no covariates": ("d.csv", csv(), "--categories sex", ["'sex'", "static columns"]),
    "an origin that changes": ("d.csv", with_column("start", [0] * 8 + [1]), "--origin start", ["column `start`, series 'c', row 10", "changes"]),
    "no column for the origin": ("d.csv", csv(), "--origin begin", ["no column `begin`", "'absolute'"]),
    "a transform that does not suit": ("d.csv", csv((2, "a,0,-1")), "--transform log", ["needs values above 0", "-1"]),
    "an unknown transform": ("d.csv", csv(), "--transform sqrt", ["'sqrt'", "'log1p'"]),
    "a spreadsheet": ("d.xlsx", b"PK\x03\x04", "", ["saved as CSV"]),
    "a spreadsheet called CSV": ("d.csv", b"PK\x03\x04 and more", "", ["Save the sheet as CSV"]),
    "no Parquet": ("d.parquet", csv(), "", ["not a Parquet file"]),
    "dates as values": ("d.parquet", parquet(id=["a", "b"], t=[0, 1], y=pd.to_datetime(["2026-01-01", "2026-01-02"])), "", ["column `y`, series 'a', row 0", "dates"]),
    "lists as values": ("d.parquet", parquet(id=["a", "b"], t=[0, 1], y=[[1], [2]]), "", ["column `y`, series 'a', row 0", "lists"]),
    "names that are structs": ("d.parquet", parquet(id=[{"k": 1}, {"k": 2}], t=[0, 1], y=[1.0, 2.0]), "", ["d.parquet, column `id`, row 0", "structs"]),
    "damaged Parquet": ("d.parquet", damaged_parquet(), "", ["d.parquet is not a Parquet file, or is damaged"]),
    "ragged rows in another encoding": ("d.csv", csv((3, "é,0,1,7"), (5, "b,0")).decode().encode("latin-1"), "", ["column `id`, row 3", "not UTF-8"]),
    "a quote that never closes": ("d.csv", csv((5, 'b,0,"3')), "", ["row 5", "a quote opens here that is not closed"]),
    "too many columns": ("d.csv", csv(header="id,t,y" + "," * 20_000), "", ["20,003 columns; expected 16,384 at most"]),
    "a leap second": ("d.csv", dated((5, "b,2026-01-01T10:00:60,3")), "", ["column `t`, series 'b', row 5", "Leap seconds"]),
    "a damaged archive": ("d.csv.gz", gzip.compress(csv())[:20], "", ["d.csv.gz"]),
    "no file": ("gone.csv", None, "", ["gone.csv is not there"]),
}  # fmt: skip


def refused(arguments: list[str], out, expected: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2, done.output
    assert done.stdout == "" and done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1, done.output
    for text in expected:
        assert text in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("name", FIT)
def test_a_bad_training_table_is_refused(name, tmp_path):
    file, content, more, expected = FIT[name]
    if content is not None:
        (tmp_path / file).write_bytes(content)
    roles = [] if more == "guess" else ["--series", "id", "--time", "t", "--values", "y", *more.split()]
    out = tmp_path / "model"
    refused(["fit", str(tmp_path / file), *roles, "--out", str(out)], out, expected)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    untrained().save(path)
    return path


def changed(row: int, **cells) -> pd.DataFrame:
    found = table().astype(object)
    for name, cell in cells.items():
        found.loc[row, name] = cell
    return found


PREDICT: dict[str, tuple[pd.DataFrame, list[str], list[str]]] = {
    "an unknown channel": (table().rename(columns={"speed": "pace"}), [], ["no column `speed`", "empty cells"]),
    "a new category": (changed(0, sex="x"), [], ["column `sex`, series 'a', row 2", "new", "'f', 'm'"]),
    "text": (changed(7, speed="fast"), [], ["column `speed`, series 'b', row 9", "'fast'"]),
    "zero where all were positive": (changed(8, level=0.0), [], ["column `level`, series 'b', row 10", "above 0"]),
    "dates for numbers": (table().assign(t=pd.date_range("2026-01-01", periods=30)), [], ["column `t`, series 'a', row 2", "holds dates"]),
    "no covariate": (table().drop(columns="dose"), [], ["no column `dose`"]),
    "times that are none": (table(), ["--times", "soon"], ["--times is 'soon'"]),
    "quantiles out of range": (table(), ["--quantiles", "0.5,2"], ["between 0 and 1"]),
    "an output of no kind": (table(), ["--out", "found.txt"], ["'.txt'", ".parquet"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PREDICT)
def test_a_bad_new_table_is_refused(name, folder, tmp_path, monkeypatch):
    data, more, expected = PREDICT[name]
    monkeypatch.chdir(tmp_path)
    data.to_csv("new.csv", index=False)
    out = tmp_path / (more[1] if more[:1] == ["--out"] else "found.csv")
    refused(["predict", str(folder), "new.csv", *more, *([] if "--out" in more else ["--out", str(out)])], out, expected)


def test_times_of_an_unknown_series_are_refused(folder, tmp_path):
    table().to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "times.csv").write_text("id,t\na,1\nq,2\n")
    arguments = ["predict", str(folder), str(tmp_path / "new.csv"), "--times", str(tmp_path / "times.csv"), "--out"]
    refused([*arguments, str(tmp_path / "out.csv")], tmp_path / "out.csv", ["column `id`, series 'q', row 3", "add a row"])


def test_scores_without_anything_to_score_and_pictures_of_nobody_are_refused(folder, tmp_path):
    data, out = tmp_path / "new.csv", tmp_path / "out.png"
    table().to_csv(data, index=False)
    refused(["evaluate", str(folder), str(data), "--context", "6"], out, ["more than 6 rows", "--context"])
    refused(["plot", str(folder), str(data), "--series", "q", "--out", str(out)], out, ["no series 'q'", "a, b, c"])
    refused(["plot", str(folder), str(data), "--out", str(tmp_path / "out.doc")], tmp_path / "out.doc", ["'.doc'"])


def test_folders_that_hold_no_forecaster_are_refused(folder, tmp_path):
    data, out = tmp_path / "new.csv", tmp_path / "out.csv"
    table().to_csv(data, index=False)
    other, plain, broken = (tmp_path / name for name in ("other", "plain", "broken"))
    other.mkdir()
    (other / "model.json").write_text(json.dumps({"program": "another"}))
    untrained().model_.save(plain)
    untrained().save(broken)
    (broken / "model.json").write_text((folder / "model.json").read_text()[:-40])
    wanted = {other: "not written by odeprocess", plain: "no forecaster", broken: "damaged", tmp_path / "none": "No model at"}
    for path, text in wanted.items():
        refused(["predict", str(path), str(data), "--out", str(out)], out, [text])
    assert isinstance(odp.load(plain), odp.Model)


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "d.csv").write_bytes(csv())
    refused(["fit", str(tmp_path / "d.csv"), "--out", str(tmp_path)], tmp_path / "model.json", ["holds other files"])
    refused(["fit", str(tmp_path / "d.csv"), "--out", str(tmp_path / "d.csv")], tmp_path / "model.json", ["is a file"])


@pytest.mark.parametrize("text", ["epochs = ", "epoks = 3", None])
def test_bad_option_files_are_refused(text, tmp_path):
    (tmp_path / "d.csv").write_bytes(csv())
    if text is not None:
        (tmp_path / "o.toml").write_text(text)
    arguments = ["fit", str(tmp_path / "d.csv"), "--config", str(tmp_path / "o.toml"), "--out", str(tmp_path / "m")]
    refused(arguments, tmp_path / "m", ["o.toml"])


def test_forty_kinds_of_bad_tables_are_known():
    assert len(FIT) + len(PREDICT) >= 40


def test_a_byte_order_mark_is_no_trouble(folder, tmp_path):
    table().to_csv(tmp_path / "new.csv", index=False, encoding="utf-8-sig")
    done = CliRunner().invoke(app, ["predict", str(folder), str(tmp_path / "new.csv"), "--times", "1"])
    assert done.exit_code == 0 and done.stdout.startswith("id,t,variable,mean")
