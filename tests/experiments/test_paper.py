"""The paper's experiments: definitions are complete, runs survive a kill, records have all fields, and reports train nothing."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import jax
import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from conftest import needs_data
from odeprocess.cli import app
from odeprocess.experiments.definitions import NAMES, experiment
from odeprocess.experiments.paper import digit_classifier, report, train
from odeprocess.experiments.paper.active_learning import run_queries
from odeprocess.experiments.paper.data_splits import HeldOut, split
from odeprocess.experiments.paper.evaluate import score
from odeprocess.experiments.paper.protocol import protocol
from odeprocess.experiments.reproduce import find_experiments, reproduce
from odeprocess.experiments.result_files import compact_rows, expand_rows, read_record

ROW_FIELDS = {
    "task",
    "variant",
    "metric",
    "mean",
    "stderr",
    "seeds",
    "paper_mean",
    "paper_stderr",
    "machine",
    "commit",
    "versions",
}


def command(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "odeprocess", *arguments], capture_output=True, text=True, **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_can_be_planned_and_the_papers_values_have_their_cells(name):
    whole, rehearsal = experiment(name), experiment(name, quick=True)
    cells = {(cell.task, cell.variant) for cell in whole.cells}
    for metric, tasks in whole.paper.items():
        for task, rows in tasks.items():
            assert {(task, row) for row in rows} <= cells, metric
    assert {(cell.task, cell.variant) for cell in rehearsal.cells} <= cells
    keys = [cell.key for cell in (*whole.cells, *rehearsal.cells)]
    assert len(set(keys)) == len(keys)
    assert set(whole.settings.get("changes", {})) <= {cell.variant for cell in whole.cells}


def test_the_command_offers_every_experiment():
    assert set(get_args(app.Experiment)) == {*NAMES, "all"} and [each.name for each in find_experiments("all")] == list(NAMES)


def test_the_key_of_a_run_depends_on_all_its_settings():
    cell = experiment("table1").cells[0]
    others = [
        dataclasses.replace(cell, seeds=(0, 1)),
        dataclasses.replace(cell, protocol=cell.protocol.replace(epochs=31)),
        dataclasses.replace(cell, spec=cell.spec.replace(noise_floor=0.2)),
    ]
    assert len({c.key for c in (cell, *others)}) == 4
    assert experiment("table1").cells[0].key == cell.key
    # Active learning and the other tables use the same trainings.
    assert {c.key for c in experiment("active-learning").cells} <= {c.key for c in experiment("table1").cells}


def test_rows_survive_the_compact_form():
    rows = [
        {"task": "sines", "variant": "np", "metric": "mse", "mean": 0.1234567, "stderr": None, "seeds": 5, "values": [1.5, 2.0]},
        {"task": "sines", "variant": "np", "metric": "nll", "mean": -1.0, "stderr": 0.5, "seeds": 5, "values": [1.0]},
        {"task": "lines", "variant": "np", "metric": "mse", "mean": float("nan"), "stderr": 0.1, "seeds": 5, "values": []},
        {"task": "lines", "variant": "np", "metric": "mse", "mean": 2.0, "stderr": 0.1, "seeds": 5, "values": []},  # once more
    ]
    table = json.loads(json.dumps(compact_rows(rows)))
    assert table["same"] == {"variant": "np", "seeds": 5} and len(table["cells"]) == 3
    found = expand_rows(table)
    assert found[0] == {**rows[0], "mean": 0.123457} and np.isnan(found[2]["mean"])
    assert found[1] == rows[1] and found[3] == rows[3]
    family = {"family": "decay", "series": "a", "noise": 0.1, "split": "forecast", "points": 3, "variant": "x", "seeds": 1}
    many = [{**family, "series": s, "metric": m, "mean": 1.0, "stderr": 0.1} for s in "abc" for m in ("nll", "crps")]
    assert expand_rows(compact_rows(many)) == many
    plain = [{"part": "train", "seconds": 1.0}, {"part": "start"}]
    assert expand_rows(compact_rows(plain)) == [plain[0], {"part": "start", "seconds": None}]
    assert expand_rows(compact_rows([])) == []


def test_scores_are_those_of_the_library():
    how = protocol("sines").quick()
    fitted = how.fit("np", how.series(8, key=jr.key(0)), options=dataclasses.replace(how.options, epochs=1))
    tasks = how.test_tasks(how.series(6, key=jr.key(1)), key=jr.key(3))
    ours = score(fitted.model, HeldOut(tasks, {"": np.ones(100, bool), "late": np.arange(100) > 50}), draws=4)
    reference = odp.score_all(fitted.model.process, tasks, draws=4, key=jr.key(2))
    assert ours["mse"] == pytest.approx(float(reference.mse_one.mean()), rel=1e-5)
    assert ours["mse_mean"] == pytest.approx(float(reference.mse.mean()), rel=1e-5)
    assert ours["nll"] == pytest.approx(float(reference.nll.mean()), rel=1e-4)
    assert ours["mse (late)"] != ours["mse"]


def test_the_training_mean_scores_the_variance_of_sines():
    data = split(protocol("sines"))
    error = train.score_training_mean(data, "fresh")["mse"]
    assert 0.15 < error < 0.18  # E[a²]·E[sin²(t − b)] is about 1/6


def test_queries_go_where_draws_spread_and_never_twice():
    how = protocol("sines")
    process = how.spec("ndp", r_dim=8, z_dim=6, l_dim=2, h_dim=8).resolve(how.series(2, key=jr.key(0))).build(key=jr.key(1))
    series = how.series(1, key=jr.key(2))
    one = jax.tree.map(lambda x: x[0], series)
    for active in (True, False):
        errors, mean_errors, places = jax.jit(run_queries, static_argnums=(3, 4))(process, one, jr.key(3), 9, active)
        assert len(set(np.asarray(places).tolist()) | {0}) == 11  # the first point is given, ten places are asked or chosen
        assert np.isfinite(errors).all() and np.isfinite(mean_errors).all()


def quick_table1(out: Path) -> list[str]:
    arguments = ["reproduce", "table1", "--quick", "--seeds", "2", "--out", str(out), "--json", str(out.parent / "rows.json")]
    return [sys.executable, "-m", "odeprocess", *arguments]


@pytest.fixture(scope="module")
def table1(tmp_path_factory) -> Path:
    """Table 1, rehearsed by a command that was killed after its first run and given again."""
    out = tmp_path_factory.mktemp("table1") / "out"
    first = subprocess.Popen(quick_table1(out), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not list(out.glob("runs/*/run.json")) and first.poll() is None:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    done = {path: path.read_bytes() for path in out.glob("runs/*/run.json")}
    assert 0 < len(done) < 4 and not (out / "table1.json").exists()
    second = subprocess.run(quick_table1(out), capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert all(path.read_bytes() == content for path, content in done.items()), "what was done is not done again"
    return out


@pytest.mark.slow
def test_table1_quick_by_the_command_and_again_and_its_page(table1):
    rows = table1.parent / "rows.json"
    found = json.loads(rows.read_text())
    assert found["experiment"] == "table1" and found["rows"] == read_record(table1 / "table1.json")["rows"]
    assert all(set(row) >= ROW_FIELDS for row in found["rows"])
    main = {(r["task"], r["variant"]): r for r in found["rows"] if r["metric"] == "mse"}
    assert set(main) == {(t, v) for t in ("sines", "lines") for v in ("np", "ndp", "training-mean")}
    assert main["sines", "ndp"]["paper_mean"] == pytest.approx(2.09e-2) and main["sines", "ndp"]["seeds"] == 2
    text = (table1 / "reproduction.md").read_text()
    assert "| NDP |" in text and "(2.09 ± 0.12)" in text and "[[" not in text
    assert (table1 / "reproduction" / "sines.png").stat().st_size > 10_000
    # Again: nothing is trained, and the record is the same.
    before = {path: path.stat().st_mtime_ns for path in (table1 / "runs").rglob("run.json")}
    again = subprocess.run(quick_table1(table1), capture_output=True, text=True)
    assert again.returncode == 0 and "already there" in again.stderr
    assert before == {path: path.stat().st_mtime_ns for path in (table1 / "runs").rglob("run.json")}
    assert json.loads(rows.read_text()) == found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table2", "table3", "active-learning", pytest.param("lotka-volterra", marks=pytest.mark.long)])
def test_the_other_experiments_rehearse(name, table1, tmp_path):
    shutil.copytree(table1 / "runs", tmp_path / "runs")  # some of them need the same models
    before = set(tmp_path.rglob("run.json"))
    (each,) = find_experiments(name, num_seeds=2, quick=True)
    record = reproduce(each, tmp_path)
    assert record["rows"] and all(set(row) >= ROW_FIELDS and row["mean"] is not None for row in record["rows"])
    assert set(tmp_path.rglob("run.json")) > before
    if name == "table2":
        (ratio,) = [row for row in record["rows"] if row["metric"] == "ratio_to_np"]
        assert ratio["paper_mean"] == 22.1 and ratio["mean"] > 0
    text = report.write_page(tmp_path, tmp_path / "page").read_text()
    assert text.count("## ") == 1 and "[[" not in text


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("name", ["handwriting", pytest.param("rotating-mnist", marks=pytest.mark.long)])
def test_the_experiments_on_public_data_rehearse(name, tmp_path, monkeypatch):
    (each,) = find_experiments(name, num_seeds=1, quick=True)
    record = reproduce(each, tmp_path)
    assert {row["variant"] for row in record["rows"]} == {cell.variant for cell in each.cells} | {"training-mean"}
    # The reporter only reads: without the means to train, the page and its pictures come out all the same.
    monkeypatch.setattr(train, "train_and_score", None)
    text = report.write_page(tmp_path, tmp_path / "page").read_text()
    assert "pixel mse" in text.lower() or "letters" in text.lower()
    assert list((tmp_path / "page" / "reproduction").glob("*.png"))


@needs_data
@pytest.mark.slow
def test_the_classifier_learns_to_read_turned_digits():
    images, labels = odp.data.load_digits("test")
    net = digit_classifier.train_classifier(steps=60, batch=64)
    threes = odp.data.rotate(images[labels == 3][:100], jr.uniform(jr.key(0), (100, 1), maxval=360.0))
    ones = odp.data.rotate(images[labels == 1][:100], jr.uniform(jr.key(1), (100, 1), maxval=360.0))
    read = [digit_classifier.compute_share_read_as(net, np.asarray(x).reshape(100, 784), 3) for x in (threes, ones)]
    assert read[0] > read[1] + 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "table9"], "'table9' is not one of"),
        (["reproduce", "table1", "--seeds", "0"], "greater than or equal to 1"),
        (["reproduce", "table1", "--only", "gpt"], "`only` is 'gpt'; expected one of 'np'"),
        (["reproduce", "table1", "--device", "gpu"], "JAX found no GPU"),
    ],
)
def test_bad_commands_get_one_message_and_code_2(arguments, message, tmp_path):
    done = command(*arguments, cwd=tmp_path, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_missing_data_is_one_message_and_code_2(tmp_path):
    done = command("reproduce", "handwriting", "--quick", cwd=tmp_path, env={**os.environ, "ODEPROCESS_DATA": str(tmp_path)})
    assert done.returncode == 2 and "mixoutALL_shifted.mat is not there" in done.stderr and "Traceback" not in done.stderr


def test_help_is_quick_and_imports_no_jax():
    code = "import sys; from odeprocess import cli; print(sorted({'jax', 'matplotlib', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    done = command("--help")
    assert done.returncode == 0 and "reproduce" in done.stdout
    assert command("--version").stdout.strip() == odp.__version__
