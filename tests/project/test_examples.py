"""The worked examples: they run, and what the gallery says of them is what was found."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from conftest import needs_data

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
SHOWN = re.findall(r"!\[[^]]*\]\(gallery/(\w+)\.png\)", (ROOT / "docs" / "gallery.md").read_text())


@needs_data
@pytest.mark.long
@pytest.mark.parametrize("name", ["theophylline", "handwriting"])  # all of them: `make gallery`
def test_examples_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "argv", [name, "--quick", "--out", str(tmp_path)])
    monkeypatch.syspath_prepend(ROOT / "examples")
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert "Gaussian process" in capsys.readouterr().out
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_the_gallery_shows_what_was_found():
    assert SHOWN
    found, page = json.loads((ROOT / "results" / "examples.json").read_text()), (ROOT / "docs" / "gallery.md").read_text()
    assert set(SHOWN) == set(found) == {path.stem for path in GALLERY.glob("*.png")}
    for name in SHOWN:
        assert (GALLERY / f"{name}.png").stat().st_size < 150_000
        assert (ROOT / "examples" / f"{name}.py").exists() and f"examples/{name}.py" in page
        assert f'--8<-- "docs/gallery/{name}.txt"' in page
        table = (GALLERY / f"{name}.txt").read_text()
        assert f"| {found[name]['odeprocess']['crps']:.3g} |" in table and f"| {found[name]['odeprocess']['nll']:.3g} |" in table
