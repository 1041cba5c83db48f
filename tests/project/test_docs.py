"""The documents: every block of Python in them runs, and the site is whole and fetches nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import odeprocess as odp

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
SECTION = re.compile(r'^--8<-- "([^":]+)(?::(\w+))?"$', re.MULTILINE)


def expanded(text: str) -> str:
    """A page with the parts of other files that it takes in."""

    def part(match: re.Match) -> str:
        content, name = (ROOT / match[1]).read_text(), match[2]
        return content.split(f"[start:{name}]")[1].split(f"[end:{name}]")[0] if name else content

    return SECTION.sub(part, text)


TRAINING = re.compile(r"\b(epochs=)\d+")


def blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", expanded((ROOT / document).read_text()), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("document", [name for name in ("README.md", "ARCHITECTURE.md", *PAGES) if blocks(name)])
def test_code_in_the_documents_runs(document, tmp_path, monkeypatch):
    """With trainings cut short: what a model has learned is the business of other tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    for steps in ("STEPS", "SMALL_STEPS"):
        monkeypatch.setattr(f"odeprocess.training.recipes.{steps}", dict.fromkeys(("quick", "default", "best"), 2))
    rows = [f"{who},{t},{t + len(who)}\n" for who in ("a", "bb") for t in range(0, 25, 8)]
    for name in ("patients.csv", "subjects.csv", "new.csv"):
        (tmp_path / name).write_text("id,t,y\n" + "".join(rows))
    scope: dict = {"__name__": "document"}
    for block in blocks(document):
        exec(compile(TRAINING.sub(r"\g<1>2", block), document, "exec"), scope)


def test_code_is_found_where_it_is_taken_in():
    assert "class Pendulum" in blocks("docs/parts.md")[0]
    assert {"docs/index.md", "docs/tutorial.md", "docs/howto/resume.md"} <= {name for name in PAGES if blocks(name)}


def test_every_public_name_is_in_the_reference():
    reference = "".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    missing = [name for name in odp.__all__ if not re.search(rf"\b{name}\b", reference)]
    assert missing == ["__version__"]


@pytest.mark.slow
def test_the_site_is_whole_and_fetches_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {name.removeprefix("docs/").replace(".md", ".html") for name in PAGES} <= set(pages)
    for name, text in pages.items():
        fetched = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\" >]+)", text)
        assert not fetched, f"{name} fetches {fetched}"
