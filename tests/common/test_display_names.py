"""Names that somebody chose: of folders, titles, columns, categories. Whatever they are, they are shown, and never run."""

import ast
import dataclasses
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from matplotlib.text import Text

from odeprocess.common.display_names import distinct, file_name, one_line, readable
from odeprocess.posterior.plots import plot_table
from odeprocess.serving.playground import ModelView, Prediction, draw_figure, load_views
from odeprocess.serving.playground.model_view import GAUSSIAN_PROCESS, INFO_KEY
from odeprocess.serving.playground.page_state import PageState
from playground_cases import ATTACKS, odd_folder, prey_folder, sines_folder, table_folder

NAMES = st.sampled_from(ATTACKS) | st.text(max_size=30) | st.lists(st.sampled_from(ATTACKS), min_size=2, max_size=3).map("".join)
RANGES = [(-1.5, 1.5), (0.0, 2.0)]


@pytest.fixture(scope="module")
def views(sines_model, tmp_path_factory) -> dict[str, ModelView]:
    root = tmp_path_factory.mktemp("models")
    return load_views([sines_folder(sines_model, root), prey_folder(root), table_folder(root)])


def renamed(view: ModelView, name: str, **info) -> ModelView:
    """The view with other names."""
    model = dataclasses.replace(view.model, info={**view.model.info, INFO_KEY: info})
    return dataclasses.replace(
        ModelView.of(name, model), folder=Path("/models") / f"m{name.replace('/', '').replace(chr(0), '')}"
    )


def written(name: str) -> str:
    """The name as a file of JSON can hold it: without halves of characters."""
    return name.encode("utf-8", "replace").decode()


def state_of(view: ModelView, beside: dict[str, ModelView]) -> PageState:
    """The state of a page that shows one observation and all models."""
    state = PageState({"shown": dataclasses.replace(view, beside=beside)})
    state.settings.beside = (*beside, GAUSSIAN_PROCESS)
    state.set_row(-1, 1.0, [0.5] * view.channels)
    return state


def without_strings(code: str) -> str:
    """All that a program does, but for the texts that it handles."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def comments(code: str) -> list[str]:
    return [x.string for x in tokenize.generate_tokens(io.StringIO(code).readline) if x.type == tokenize.COMMENT]


@pytest.mark.parametrize("title", ["Sines", "Predators and prey", "table"])
@given(st.lists(NAMES, min_size=6, max_size=6), st.booleans())
def test_whatever_the_names_the_program_differs_in_strings_alone(request, title, names, measured):
    plain = request.getfixturevalue("views")[title]

    def shown(names: list[str]) -> PageState:
        folder, other, title, time, *values = names
        said = {"title": written(title), "time": written(time), "values": list(map(written, values[: plain.channels]))}
        view = renamed(plain, folder, **said)
        state = state_of(view, {f"{title} 1": renamed(plain, other), f"{title} 2": view})
        state.settings.of = "observations" if measured else "function"
        return state

    state = shown(names)
    found, usual = (each.script(RANGES[: plain.channels]) for each in (state, shown(list("abcdef"))))
    assert found.isascii()
    assert without_strings(found) == without_strings(usual)
    assert comments(found) == comments(usual)
    strings = {node.value for node in ast.walk(ast.parse(found)) if isinstance(node, ast.Constant)}
    views = (state.view, *state.view.beside.values())
    assert {str(each.folder.resolve()) for each in views} <= strings
    assert {*state.columns(), state.view.time, *state.view.values} <= strings


@given(NAMES, st.sampled_from([".png", ".py"]))
def test_a_file_is_named_by_harmless_letters(name, ending):
    found = file_name(name, ending)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,90}", found) and found.endswith(ending)
    assert "/" not in found and Path(found).name == found
    assert file_name("my-model_2.1", ".png") == "my-model_2.1.png"


@given(st.lists(NAMES, max_size=6))
def test_readable_names_are_one_line_each_and_all_different(names):
    for name in names:
        assert len(readable(name)) <= 80 and "\n" not in readable(name)
        readable(name).encode()
        assert one_line(name).isprintable()
    assert list(distinct(dict.fromkeys(names)).values()) == list(dict.fromkeys(names))
    assert readable("Größe, m²") == one_line("Größe, m²") == "Größe, m²"


@pytest.mark.filterwarnings("ignore:Glyph")
@given(st.lists(NAMES, min_size=4, max_size=4, unique=True))
def test_no_name_breaks_a_picture(names):
    t, x = np.linspace(0.0, 1.0, 3), np.zeros((3, 2))
    said = Prediction(t, np.zeros((2, 3, 2)), x, x - 1, x + 1)
    labels = {"names": names[2:], "time": names[0]}
    figure = draw_figure(t, x, {names[0]: said, names[1]: said}, **labels, ranges=RANGES, level=0.9, num_draws=2)
    figure.savefig(io.BytesIO(), dpi=20)
    shown = {readable(name) for name in names}
    assert not any(text.get_parse_math() for text in figure.findobj(Text) if text.get_text() and text.get_text() in shown)

    series, time, value = (f"{written(name)}{i}" for i, name in enumerate(names[:3]))
    rows = {series: [written(names[3])] * 3, time: t}
    predicted = pa.table({**rows, "variable": [value] * 3, **{name: t for name in ("mean", "q0.05", "q0.95")}})
    figure = plot_table(predicted, pa.table({**rows, value: t}), series, time, [value])
    figure.savefig(io.BytesIO(), dpi=20)
    plt.close(figure)


def test_programs_of_odd_folders_run_and_draw_what_the_page_draws(views, tmp_path):
    """In a process of their own; whatever ran that is not the program would leave a file called canary."""
    (tmp_path / "models").mkdir()
    odd = odd_folder(tmp_path / "models")
    link = tmp_path / "\"); open('canary', 'w'); (\""
    link.symlink_to(odd, target_is_directory=True)
    tables = tmp_path / "{0}\n'''\\"
    table_folder(tmp_path).rename(tables)
    expected = {}
    for place, folder in enumerate((odd, link, tables)):
        view = ModelView.load(folder)
        state = PageState({"shown": view})
        state.settings.beside = tuple(view.beside)
        state.set_row(-1, 1.0, [0.5] * view.channels)
        where = tmp_path / f"run{place}"
        where.mkdir()
        (where / "program.py").write_text(state.script(view.ranges))
        expected[where] = state.figure_png(view.ranges)
    run = "import os, runpy, sys\nfor place in sys.argv[1:]:\n    os.chdir(place)\n    runpy.run_path('program.py')\n"
    subprocess.run([sys.executable, "-W", "ignore", "-c", run, *map(str, expected)], check=True, timeout=300)
    for where, picture in expected.items():
        (written,) = where.glob("*.png")
        same = written.read_bytes() == picture  # what differs would take pytest minutes to tell
        assert same, where
    assert not list(tmp_path.rglob("canary*")) and not Path("canary").exists()


@pytest.mark.parametrize(
    ("notes", "says"),
    [
        ({"beside": {"x": "../other"}}, "expected the name of a folder inside"),
        ({"beside": {"x": "/etc"}}, "expected the name of a folder inside"),
        ({"beside": {"x": "."}}, "expected the name of a folder inside"),
        ({"beside": ["np"]}, "info.playground.beside.*expected fields by name"),
        ({"values": ["a", "b", "c"]}, "values` has 3 entries; expected 1"),
        ({"values": "y"}, "expected a list"),
        ({"title": 7}, "title` is 7; expected text"),
        ({"ranges": [[1.0, 0.0]]}, "a number and a larger one"),
        ({"span": [0.0, 0.0]}, "a number and a larger one"),
        ({"span": [-1.7e308, 1.7e308]}, "a number and a larger one"),
    ],
)
def test_notes_that_a_page_cannot_show_are_refused_by_name(sines_model, tmp_path, notes, says):
    dataclasses.replace(sines_model, info={INFO_KEY: notes}).save(tmp_path / "model")
    with pytest.raises(ValueError, match=says) as raised:
        ModelView.load(tmp_path / "model")
    assert "\n" not in str(raised.value) and "model.json is damaged" in str(raised.value)


def test_a_model_beside_itself_is_loaded_once(sines_model, tmp_path):
    folder = tmp_path / "model"
    dataclasses.replace(sines_model, info={INFO_KEY: {"beside": {GAUSSIAN_PROCESS: "again"}}}).save(folder)
    (folder / "again").symlink_to(folder, target_is_directory=True)
    view = ModelView.load(folder)
    assert list(view.beside) == [f"{GAUSSIAN_PROCESS} (2)"], "what stands beside any model keeps its name"
    assert not view.beside[f"{GAUSSIAN_PROCESS} (2)"].beside
