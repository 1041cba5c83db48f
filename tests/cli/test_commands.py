"""The commands that read tables: predictions, scores, figures. `test_forecaster` tests `fit`."""

import dataclasses
import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import odeprocess as odp
from odeprocess.cli.app import app
from odeprocess.data.training_range import TrainingRange
from table_cases import TIMES, table, untrained


def run(*arguments) -> str:
    done = CliRunner().invoke(app, [str(x) for x in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A folder with a table and a model that has not been trained."""
    folder = tmp_path_factory.mktemp("places")
    table().to_csv(folder / "new.csv", index=False)
    untrained().save(folder / "model")
    return folder


@pytest.mark.parametrize("name", ["found.parquet", "found.csv", "deeper/found.csv.gz"])
def test_predict_writes_what_the_forecaster_says(places, tmp_path, name):
    said = run(
        "predict", places / "model", places / "new.csv", "--times", "0,1.5,7", "--quantiles", "0.1,0.9", "--out", tmp_path / name
    )
    assert said == f"Wrote 30 rows to {tmp_path / name}.\n"
    found = (pd.read_parquet if name.endswith("parquet") else pd.read_csv)(tmp_path / name)
    expected = odp.Forecaster.load(places / "model").predict(table(), TIMES, quantiles=[0.1, 0.9])
    assert list(found.columns) == list(expected.columns)
    np.testing.assert_allclose(found[["mean", "q0.1", "q0.9"]], expected[["mean", "q0.1", "q0.9"]], rtol=1e-9)
    assert [p.name for p in (tmp_path / name).parent.iterdir()] == [name.split("/")[-1]]


def test_predict_prints_where_no_file_is_named(places):
    lines = run("predict", places / "model", places / "new.csv", "--times", "0:7:3").splitlines()
    assert lines[0].startswith("id,t,variable,mean,std,q0.05") and len(lines) == 31
    rows = json.loads(run("predict", places / "model", places / "new.csv", "--times", "0:7:3", "--json"))
    assert len(rows) == 30 and {row["variable"] for row in rows} == {"level", "speed"}


def test_a_warning_is_one_plain_line(places, tmp_path):
    forecaster = odp.Forecaster.load(places / "model")
    training_range = TrainingRange(np.array([0.0, 8.0]), np.array([[-99.0] * 2, [99.0] * 2]), np.array([[-99.0] * 3, [99.0] * 3]))
    scaling = dataclasses.replace(forecaster.model_.scaling, training_range=training_range)
    forecaster.model_ = dataclasses.replace(forecaster.model_, scaling=scaling)
    forecaster.save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = CliRunner().invoke(app, ["predict", str(tmp_path), str(places / "new.csv"), "--times", "0,12"])
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout.splitlines()) == 21
    assert done.stderr.splitlines()[0].startswith("Warning: 5 series ('a', 'b', 'c', …) are asked about, or observed, at times")


def test_evaluate_scores_both_splits(places, tmp_path):
    rows = json.loads(run("evaluate", places / "model", places / "new.csv", "--context", 3, "--json"))
    assert [(row["split"], row["variable"]) for row in rows] == [
        (split, name) for split in ("interpolation", "forecast") for name in ("level", "speed")
    ]
    assert all(np.isfinite([row[k] for k in ("mse", "mae", "nll", "crps", "coverage")]).all() for row in rows)
    out = tmp_path / "scores.csv"
    text = run(
        "evaluate", places / "model", places / "new.csv", "--context", 3, "--split", "forecast", "--by", "series", "--out", out
    )
    assert len(text.splitlines()) == 6 and len(pd.read_csv(out)) == 5


def test_plot_draws_a_picture(places, tmp_path):
    run("plot", places / "model", places / "new.csv", "--series", "a,c", "--out", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_info_tells_columns_and_sizes(places):
    text = run("info", places / "model")
    assert "series id, time t (from first), values level, speed" in text and "static dose, sex" in text
    card = json.loads(run("info", places / "model", "--json"))
    assert card["layout"]["transforms"][0]["name"] == "log" and card["spec"]["variant"] == "ndp-skip"


def test_data_lists_and_exports_the_built_in_sets(tmp_path):
    listed = json.loads(run("data", "--json"))
    assert {"sines", "lotka-volterra", "handwriting"} <= set(listed)
    run("data", "lotka-volterra", "--count", 4, "--points", 7, "--noise", 0.01, "--out", tmp_path / "lv.csv")
    found = pd.read_csv(tmp_path / "lv.csv")
    assert list(found.columns) == ["id", "t", "x", "y"] and found.groupby("id").size().tolist() == [7] * 4
    done = CliRunner().invoke(app, ["data", "nonsense"])
    assert done.exit_code == 2 and "expected one of sines" in done.stderr


def test_help_is_quick_and_says_what_there_is():
    code = """if True:
        import sys
        from odeprocess.cli.app import main
        sys.argv = ["odeprocess", "fit", "--help"]
        try:
            main()
        finally:
            print("jax" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "--values" in done.stdout and "--config" in done.stdout and done.stdout.strip().endswith("False")
