"""The benchmark of speed: it runs, keeps rows of other devices, compares equal functions, and writes its page."""

import json
import subprocess
import sys
from pathlib import Path

import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    """Puts the folder of the benchmarks, which is no package, on the path."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_a_rehearsal_writes_rows_and_keeps_those_of_other_devices(tmp_path):
    out = tmp_path / "speed.json"
    other, old = ({"part": "roofline", "benchmark": "roofline", "device": device} for device in ("gpu", "cpu"))
    out.write_text(json.dumps({"rows": [other, old]}))
    call = [sys.executable, str(BENCHMARKS / "speed.py"), "--quick", "--only", "roofline", "--out", str(out)]
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    rows = json.loads(out.read_text())["rows"]
    assert other in rows and old not in rows
    rooflines = [row for row in rows if row["benchmark"] == "roofline" and row["device"] == "cpu"]
    assert {(row["model"], row["batch"]) for row in rooflines} >= {("np", 5), ("ndp", 5), ("ndp", 4096)}
    assert all(row["seconds"] > 0 and row["task"] == "sines" for row in rooflines)


@pytest.mark.parametrize("name", ["np", "ndp"])
def test_the_reference_is_the_same_function_as_ours(name, benchmarks):
    pytest.importorskip("torchdiffeq")
    import pytorch_reference as reference  # pyright: ignore[reportMissingImports]

    series = odp.data.sines.sample(8, key=jr.key(0))
    spec = odp.experiments.protocol("sines").spec(name, r_dim=5, z_dim=6, l_dim=6 if name == "np" else 2, h_dim=4).resolve(series)
    peer, process = reference.Reference(name, (5, 6, spec.l_dim, 4), spec.t0, spec.noise_start), spec.build(key=jr.key(1))
    t, y = (np.asarray(x, np.float32) for x in (series.t, series.y[..., 0]))
    (task,) = reference.batches(t, y, 4, 1, "cpu")
    with pytest.raises(AssertionError, match="With the same weights"):
        reference.check_same(peer, process, task)
    reference.copy_weights(peer, process)
    reference.check_same(peer, process, task)


def test_the_page_is_that_of_the_record(tmp_path, benchmarks):
    pytest.importorskip("matplotlib")
    from speed_report import write_page  # pyright: ignore[reportMissingImports]

    page = write_page(json.loads((ROOT / "results" / "speed.json").read_text())["rows"], tmp_path)
    assert page.read_text() == (ROOT / "docs" / "speed.md").read_text()
    assert all((tmp_path / "speed" / f"{name}.png").exists() for name in ("training", "scaling"))
