"""The playground without a browser: observations, CSV files, settings, predictions, and the downloaded code."""

import math

import fastapi
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import odeprocess as odp
from odeprocess.inference import batched
from odeprocess.serving.playground import ModelView, Question, load_views, mount
from odeprocess.serving.playground.csv_upload import read_csv
from odeprocess.serving.playground.model_menu import ModelMenu
from odeprocess.serving.playground.model_view import GAUSSIAN_PROCESS
from odeprocess.serving.playground.observations import MAX_OBSERVATIONS, Observations
from odeprocess.serving.playground.page import Page
from odeprocess.serving.playground.page_state import PageState
from odeprocess.serving.playground.predictions import NUM_DRAWS, SEED, SERIES, predict, time_grid, warm_up
from odeprocess.serving.playground.status_text import describe_bands
from playground_cases import prey_folder, sines_folder, table_folder

NUMBERS = st.floats(-1e6, 1e6)
PANEL = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # Panel 1.9 renames what 1.6 knows by the old name
ACTIONS = st.lists(st.tuples(st.sampled_from(["add", "set", "delete", "load", "clear"]), st.integers(0, 9), NUMBERS, NUMBERS))


@pytest.fixture(scope="module")
def views(sines_model, tmp_path_factory) -> dict[str, ModelView]:
    root = tmp_path_factory.mktemp("models")
    return load_views([sines_folder(sines_model, root), prey_folder(root), table_folder(root)])


@pytest.fixture
def state(views) -> PageState:
    return PageState(views)


def act(held: Observations, kind: str, place: int, t: float, y: float) -> None:
    place = place % max(1, len(held))
    if kind == "add":
        held.add(t, [y, math.nan])
    elif kind == "load":
        held.load([(t + i, [y, i]) for i in range(place)])
    elif kind == "clear":
        held.clear()
    elif len(held):
        held.set(place, t, 0, y) if kind == "set" else held.delete(place)


@given(ACTIONS)
def test_undo_goes_back_through_every_state(actions):
    held = Observations(2)
    states = [held.rows]
    for action in actions:
        act(held, *action)
        if held.rows != states[-1]:
            states.append(held.rows)
    while states[:-1]:
        assert held.rows == states.pop()
        assert held.undo()
    assert held.rows == () and not held.undo()


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5), st.data())
def test_a_drag_is_one_step_of_undo_and_changes_one_row(rows, data):
    held = Observations(1)
    held.load([(t, [y]) for t, y in rows])
    place, before = data.draw(st.integers(0, len(rows) - 1)), held.rows
    held.start_drag()
    for t in range(5):
        held.move(place, t, 0, 2.0 * t)
    t, y, _ = held.arrays()
    assert (t[place], y[place, 0]) == (4.0, 8.0)
    assert [row for i, row in enumerate(held.rows) if i != place] == [row for i, row in enumerate(before) if i != place]
    held.undo()
    assert held.rows == before


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (lambda held: held.add(math.nan, [1.0, 1.0]), "expected a finite number"),
        (lambda held: held.add(0.0, [math.inf, 1.0]), "infinite"),
        (lambda held: held.add(0.0, [math.nan, math.nan]), "no value at all"),
        (lambda held: held.add(0.0, [1.0]), "1 value"),
        (lambda held: held.set(0, 0.0, 0, math.nan), "no value at all"),
        (lambda held: held.set(0, 0.0, 2, 1.0), "no channel 2"),
        (lambda held: held.delete(7), "no observation 7"),
        (lambda held: held.load([(float(i), [1.0, 1.0]) for i in range(MAX_OBSERVATIONS + 1)]), f"{MAX_OBSERVATIONS} at most"),
    ],
)
def test_invalid_edits_change_nothing(bad, says):
    held = Observations(2)
    held.add(1.0, [2.0, math.nan])
    before = held.rows
    with pytest.raises(ValueError, match=says):
        bad(held)
    assert held.rows == before


def test_the_number_of_observations_is_limited():
    held = Observations(1)
    for i in range(MAX_OBSERVATIONS):
        held.add(float(i), [0.0])
    with pytest.raises(ValueError, match="Delete one"):
        held.add(0.0, [0.0])


@given(st.lists(st.tuples(NUMBERS, st.one_of(st.none(), NUMBERS), NUMBERS), min_size=1, max_size=9), st.sampled_from(",;\t"))
def test_csv_files_are_read_as_they_were_written(views, rows, separator):
    lines = [["time", "predators", "prey"], *([t, "" if a is None else a, b] for t, a, b in rows)]
    text = "\r\n".join(separator.join(map(str, line)) for line in lines)
    found, said = read_csv(text.encode("utf-8-sig"), views["Predators and prey"])
    assert said.startswith(f"Loaded {len(rows)} observation")
    expected = [(t, [b, math.nan if a is None else a]) for t, a, b in rows]
    np.testing.assert_array_equal([[t, *y] for t, y in found], [[t, *y] for t, y in expected])


def test_of_several_series_in_a_file_the_first_is_read(views):
    found, said = read_csv(b"id,t,y\na,0,1\nb,0,2\na,1,3\n\n", views["Sines"])
    assert found == [(0.0, [1.0]), (1.0, [3.0])] and said == "Loaded 2 observations of a, the first of 2 series."


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"t,y\n", "no rows with a value"),
        (b"t,y\n1,\n", "no rows with a value"),
        (b"a,y\n1,2\n", "No column of times among a, y"),
        (b"t,y\n1,2\n3,x\n", "Row 3, column y: 'x' is not a number"),
        (b"t,y\n1,2\ninf,3\n", "Row 3, column t"),
        (b"t,y\n1\n", "Row 2 has 1 cells"),
        (b't,y\n1,"2\n3,4\n', "Row 2: a quote opens that is not closed"),
        (b"t,T,y\n1,2,3\n", "2 columns t"),
        (b"t,y\n1,1_000\n", "'1_000' is not a number"),
        (b"t,y\r1,2\r3,x\r", "Row 3, column y: 'x'"),
        (b"t,y\n1700000000000000300,2\n", "more digits than can be kept"),
        (b"t,z," + b"a," * 9000 + b"\n", r"9,002 column.*, and 8,994 more\).*expected y"),
        (b"t,y\n1," + b"2" * 200_000 + b"\n", "a cell is longer than|is not a number"),
        (b"t,a,b\n1,2,3\n", "2 column.*expected y"),
        (b"\xff\xfe\x00t", "not UTF-8"),
        (b"t,y\x00\n1,2\n", "not text"),
        (b"t,y\n" + b"1,2\n" * 300_000, "bytes; expected"),
    ],
)
def test_bad_files_get_one_message(views, content, says):
    with pytest.raises(ValueError, match=says):
        read_csv(content, views["Sines"])


def test_a_prediction_is_that_of_the_posterior(views):
    view = views["Sines"]
    t, y = np.array([-1.0, 2.0]), np.array([[0.3], [0.5]])
    found = predict(view, Question(t, y, np.zeros(0), level=0.8))
    posterior = view.model.condition(t, y, key=odp.series_key(SERIES, SEED), draws=NUM_DRAWS)
    np.testing.assert_allclose(found.mean, posterior.mean(found.t), atol=1e-6)
    np.testing.assert_array_equal(np.stack([found.low, found.high]), posterior.interval(found.t, 0.8, of="function"))


def test_clicks_compile_nothing_after_the_warm_up(views):
    view = views["Predators and prey"]
    warm_up(view)
    compiled = [batched.observe, batched.decode, batched.draw, batched.quantiles]
    before = [function._cache_size() for function in compiled]
    state = PageState(views)
    state.choose_model("Predators and prey")
    for i in range(MAX_OBSERVATIONS):
        state.add_click(i % 2, i / MAX_OBSERVATIONS, 1.0)
        state.settings.level, state.settings.of = 0.5 + i / 200, ("function", "observations")[i % 2]
        if i % 9 == 0 or i in (16, 17, 32, 33, MAX_OBSERVATIONS - 1):
            state.predict()
    assert [function._cache_size() for function in compiled] == before


def test_a_click_adds_a_value_of_one_channel(state):
    state.choose_model("Predators and prey")
    state.add_click(1, 0.5, 0.7)
    np.testing.assert_array_equal(state.shown_observations()[1], [[math.nan, 0.7]])


def test_each_model_keeps_its_observations(state):
    state.add_click(0, 0.0, 0.5)
    state.choose_model("Predators and prey")
    assert len(state.observations) == 0
    state.choose_model("Sines")
    assert state.shown_observations()[1].tolist() == [[0.5]]


@given(st.floats(0.0, 0.5), st.floats(0.01, 50.0))
def test_a_point_is_shown_where_it_was_dropped_whatever_the_noise(views, noise, level):
    state = PageState(views)
    state.choose_model("table")
    state.set_row(-1, 1.0, [2.0, -1.0])
    state.settings.noise = noise
    assert state.shown_observations()[1][0, 0] > 0  # the logarithm of a level is shaken, so it stays positive
    state.observations.start_drag()
    state.drag(0, 2.0, 0, level)
    np.testing.assert_allclose(state.shown_observations()[1][0, 0], level, rtol=1e-9)
    state.settings.noise = 0.0
    assert state.shown_observations()[1][0, 1] == -1.0


def test_noise_moves_points_until_it_is_turned_off(state):
    for i in range(5):
        state.add_click(0, float(i) - 2, 0.1 * i)
    before = state.shown_observations()[1].copy()
    state.settings.noise = 0.3
    assert (state.shown_observations()[1] != before).all()
    state.settings.noise = 0.0
    np.testing.assert_array_equal(state.shown_observations()[1], before)


def test_values_outside_a_transforms_domain_are_refused(state):
    state.choose_model("table")
    with pytest.raises(ValueError, match="level is -1; expected values above 0"):
        state.add_click(0, 1.0, -1.0)
    with pytest.raises(ValueError, match="level is -2"):
        state.load_csv(b"t,level,speed\n1,-2,3\n")
    assert len(state.observations) == 0


def test_covariates_are_those_of_the_forecaster(state, views):
    state.choose_model("table")
    assert state.static.tolist() == [2.0, 1.0, 0.0]  # the mean dose, and the first sex
    state.set_row(-1, 1.0, [2.0, 0.5])
    usual = state.predict()["Neural ODE process"].mean
    state.static[:] = [4.0, 0.0, 1.0]
    assert np.abs(state.predict()["Neural ODE process"].mean - usual).max() > 1e-4
    rows = {"id": ["x"], "t": [1.0], "level": [2.0], "speed": [0.5], "dose": [4.0], "sex": ["m"]}
    expected = odp.Forecaster.load(views["table"].folder)._read(pd.DataFrame(rows))
    np.testing.assert_array_equal(expected.static[0], state.static)


def test_observations_make_the_band_narrower_and_the_status_says_so(state):
    widths = []
    for t in (-3.0, -1.5, 0.0, 1.5, 3.0):
        found = state.predict()["Neural ODE process"]
        widths.append(found.width.mean())
        state.add_click(0, t, 0.6 * math.sin(t))
    assert widths[-1] < 0.7 * widths[0]
    said = describe_bands(state, state.predict()["Neural ODE process"])
    assert "<b>5 observations</b>: the 90 % band is <b>0." in said and "widest at" in said


def test_a_suggestion_is_within_the_training_times(state):
    state.add_click(0, 0.0, 0.5)
    low, high = state.view.span
    assert low <= state.suggest_time() <= high


@pytest.mark.parametrize("title", ["Sines", "table"])
def test_the_downloaded_script_draws_the_downloaded_figure(views, title, tmp_path, monkeypatch):
    state = PageState(views)
    state.choose_model(title)
    state.settings.beside = tuple(state.view.beside)
    state.settings.exact = False
    values = [1.5, 0.2][: state.view.channels]
    state.set_row(-1, 1.0, values)
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    exec(compile(state.script(state.view.ranges), "saved", "exec"), scope)
    (written,) = tmp_path.glob("*.png")
    assert written.read_bytes() == state.figure_png(state.view.ranges)
    assert list(scope["predictions"]) == list(state.columns())
    found = state.predict()
    for title, said in scope["predictions"].items():
        for one, other in zip(said, found[title], strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_gaussian_process_passes_through_the_points(state):
    pytest.importorskip("tinygp")
    state.settings.beside = (GAUSSIAN_PROCESS,)
    for t in (-2.0, 0.0, 2.0):
        state.add_click(0, t, 0.5 * math.sin(t))
    found, (t, y) = state.predict_gaussian_process(), state.shown_observations()
    at = np.array([np.interp(t, found.t, found.mean[:, 0])]).T
    assert np.abs(at - y).max() < 0.05
    assert list(state.columns()) == ["Neural ODE process", GAUSSIAN_PROCESS]


def test_models_of_other_shapes_are_refused(tmp_path):
    from cases import untrained

    series = odp.make_series([[0.0, 1.0]] * 2, np.random.default_rng(0).random((2, 2, 5)))
    untrained(odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4), series).save(tmp_path / "wide")
    with pytest.raises(ValueError, match="of 5 channels; the playground shows 4 at most"):
        ModelView.load(tmp_path / "wide")


def test_models_of_the_same_variables_can_be_shown_side_by_side(sines_model, tmp_path):
    for name in ("one", "two"):
        sines_model.save(tmp_path / name)
    found = load_views([tmp_path / "one", tmp_path / "two"])
    assert {title: list(each.beside) for title, each in found.items()} == {"one": ["two"], "two": ["one"]}
    assert time_grid(found["one"])[0] < found["one"].span[0]


def test_the_page_is_not_in_the_openapi_document(sines_model):
    app = fastapi.FastAPI()
    mount(app, {"sines": sines_model})
    assert any(getattr(route, "path", "") == "/play" for route in app.routes)
    assert app.openapi()["paths"] == {}, "clients of the API would not expect HTML"


@PANEL
@pytest.mark.parametrize(("t", "y"), [(1e300, 0.5), (0.5, 1e300), (0.5, -1e308), (1e12, 1e12)])
def test_a_number_that_overflows_is_refused_and_changes_nothing(views, t, y):
    page = Page(ModelMenu(views))
    page.attempt(lambda: page.state.set_row(-1, 0.5, [0.2]))
    before, complaint = page.state.observations.rows, page.messages.parts["message"]
    assert complaint.object == ""
    page.attempt(lambda: page.state.set_row(-1, t, [y]))
    assert page.state.observations.rows == before and "too " in complaint.object
    assert "1 observation</b>" in page.messages.parts["status"].object
    page.attempt(lambda: page.state.set_row(-1, -1.0, [0.1]))
    assert len(page.state.observations) == 2 and complaint.object == ""


@PANEL
def test_a_covariate_that_overflows_is_refused_and_changes_nothing(views):
    page = Page(ModelMenu(views))
    page.controls._choose_model("table")
    page.attempt(lambda: page.state.static.__setitem__(0, 1e300))
    assert page.state.static[0] == 2.0
    assert "`static` holds 1e+300" in page.messages.parts["message"].object
