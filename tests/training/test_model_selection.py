"""Model selection: which candidates are trained in full, and which one held-out log predictive density keeps."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.random as jr
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import odeprocess as odp
from odeprocess.training import model_selection, recipes
from odeprocess.training.fit_result import Fit
from odeprocess.training.model_selection import HOPELESS, LEVEL, SHARP, Trainer, scorable, select, simplest, split_series
from odeprocess.training.recipes import CANDIDATES, make_recipe


def test_the_simplest_that_is_not_worse_is_kept():
    base = np.random.default_rng(0).normal(size=40)
    assert simplest([base, base]) == 0
    assert simplest([base - 1e-9, base]) == 1, "worse on every series is worse, however little"
    chance = np.tile([0.01, -0.01], 20)  # no difference in the mean
    assert simplest([base + chance - 1e-4, base]) == 0, "less than a standard error does not count"
    assert simplest([base - 1.0, base - 0.5, base]) == 2


@given(st.lists(st.lists(st.integers(-3, 3) | st.floats(-9, 9), min_size=5, max_size=5), min_size=1, max_size=4))
@example([[1, 1, 1, 1, 1], [-1, -1, -1, 4, 4], [1.1, 1.1, 1.1, 1.1, 1.1]])  # as good as the first on average, and scattered
@settings(max_examples=200)
def test_one_is_always_kept_and_it_is_better_than_all_that_are_simpler(densities):
    tried = [np.array(each, float) for each in densities]
    kept = simplest(tried)
    assert all(tried[kept].mean() > simpler.mean() for simpler in tried[:kept])


@dataclasses.dataclass(frozen=True)
class FakeModel:
    """A model, as far as model selection looks at it: its held-out log predictive density."""

    spec: odp.Spec
    density: float


class FakeTrainings:
    """Stands in for training and scoring: real trainings would not end as a test wants them to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, short: dict[str, float | None], full: dict[str, float | None]):
        self.done: list[str] = []
        self._endings = {True: short, False: full}
        monkeypatch.setattr(model_selection, "train", self.train)
        monkeypatch.setattr(model_selection, "can_converge", lambda model: False)
        monkeypatch.setattr(model_selection, "log_predictive_densities", lambda model, series, key: np.full(4, model.density))

    def train(self, spec: odp.Spec, series: odp.Series, *, options: odp.FitOptions, seeds: Any, **_: Any) -> Fit:
        short = options.epochs < 10
        self.done.append(("short " if short else "") + spec.variant.removeprefix("ndp-"))
        density = self._endings[short][spec.variant]
        if density is None:
            raise odp.TrainingError("broke down")
        models: Any = tuple(FakeModel(spec, density) for _ in seeds)
        return Fit(models, SimpleNamespace(), 0, np.zeros(len(seeds)), 0.0, 0.0)  # type: ignore[arg-type]


LINEAR, STATE, SKIP = CANDIDATES
SHORT_RUNS = ["short linear", "short state", "short skip"]


def selected(series: odp.Series) -> tuple[str, dict[str, float]]:
    recipe = make_recipe(series, options={"epochs": 10})
    spec, scores = select(Trainer(recipe), split_series(series, recipe, 0), 0)
    return spec.variant, scores


@pytest.mark.parametrize(
    ("short", "full", "trained", "kept"),
    [
        pytest.param((0, 0, 0), (1, 1, 1), ["linear", "state", "skip"], LINEAR, id="all are as good: the simplest"),
        pytest.param((0, 0, 0), (1, 1.5, 1.2), ["linear", "state", "skip"], STATE, id="the best"),
        pytest.param((-HOPELESS - 0.1, 0, 0), (None, 1, 1.2), ["state", "skip"], SKIP, id="far behind after short runs"),
        pytest.param((0, 0, 0), (HOPELESS + 0.1, 9, 9), ["linear"], LINEAR, id="far behind one that was trained in full"),
        pytest.param((0, 1, 0), (1 + LEVEL / 2, 9, 1), ["linear", "skip"], LINEAR, id="level with one that was trained in full"),
        pytest.param((SHARP, SHARP, SHARP), (SHARP + 0.1, 9, 9), ["linear"], LINEAR, id="sharp: nothing else is tried"),
        pytest.param((None, 0, None), (9, 1, 9), ["state"], STATE, id="short runs that break down"),
        pytest.param((0, 0, 0), (None, 1, None), ["linear", "state", "skip"], STATE, id="trainings that break down"),
    ],
)
def test_no_candidate_is_trained_longer_than_it_takes_to_decide(monkeypatch, short, full, trained, kept):
    runs = FakeTrainings(monkeypatch, *(dict(zip(CANDIDATES, each, strict=True)) for each in (short, full)))
    found, scores = selected(odp.data.lines.sample(50, key=jr.key(0)))
    assert runs.done == [*SHORT_RUNS, *trained] and found == kept
    assert set(scores) == set(CANDIDATES) and scores[kept] == full[CANDIDATES.index(kept)]


def test_few_series_choose_by_models_that_each_leave_some_out(monkeypatch):
    runs = FakeTrainings(monkeypatch, {}, {LINEAR: 0.0, STATE: 2.0, SKIP: None})
    found, scores = selected(odp.data.lines.sample(12, key=jr.key(0)))
    assert runs.done == [name for name in ("linear", "state", "skip") for _ in range(4)]
    assert found == STATE and scores == {LINEAR: 0.0, STATE: 2.0, SKIP: -np.inf}


@pytest.mark.parametrize("count", [12, 50])
def test_where_all_break_down_the_message_says_so(monkeypatch, count):
    nothing = dict.fromkeys(CANDIDATES)
    FakeTrainings(monkeypatch, nothing, nothing)
    with pytest.raises(odp.TrainingError, match=r"for every candidate: ndp-linear, ndp-state, ndp-skip\. Look for extreme"):
        selected(odp.data.lines.sample(count, key=jr.key(0)))


@pytest.mark.parametrize("count", [12, 50])
def test_without_values_to_predict_the_candidate_that_can_do_most_is_kept(monkeypatch, count):
    runs = FakeTrainings(monkeypatch, {}, {})
    single = odp.make_series(np.zeros((count, 1)), np.random.default_rng(0).normal(size=(count, 1)))
    assert not scorable(single) and selected(single) == (SKIP, {}) and runs.done == []


@pytest.mark.parametrize("count", [3, 5, 12, 39])
def test_every_series_is_left_out_by_a_fold_and_not_trained_on_there(count):
    series = odp.make_series(np.tile(np.arange(3.0), (count, 1)), np.arange(3.0 * count).reshape(count, 3))
    recipe = make_recipe(series, "ndp-skip")
    splits = split_series(series, recipe, 0)
    assert splits.held_out is None and len(splits.folds) == recipe.folds == min(4, count)

    def firsts(part: odp.Series) -> list[float]:
        return np.asarray(part.y)[:, 0, 0].tolist()

    assert {len(fold.training) for fold in splits.folds} == {count}, "so that they share their compilation"
    assert not any(set(firsts(fold.training)) & set(firsts(fold.held_out)) for fold in splits.folds)
    assert {x for fold in splits.folds for x in firsts(fold.held_out)} == set(firsts(series))
    assert sorted(firsts(splits.training)) == firsts(series)


def test_each_series_is_either_trained_on_or_held_out_whatever_their_order_was():
    series = odp.data.lines.sample(100, key=jr.key(0))
    splits = split_series(series, make_recipe(series), 0)
    assert splits.held_out is not None and (len(splits.training), len(splits.held_out)) == (80, 20) and not splits.folds
    both = np.concatenate([splits.training.y, splits.held_out.y])[:, :, 0]
    np.testing.assert_array_equal(both[np.lexsort(both.T)], series.y[np.lexsort(series.y[:, :, 0].T)][:, :, 0])
    places = np.flatnonzero((series.y[:, None] == splits.held_out.y[None]).all((2, 3)).any(1))
    assert places.min() < 25 and places.max() >= 75, "from all parts of a table that may be sorted"


# --- With trainings of small processes ---------------------------------------------------------------------------------

WAVES = odp.make_series(
    np.tile(np.linspace(0.0, 6.0, 8), (14, 1)), np.sin(np.linspace(0.0, 6.0, 8) + np.linspace(0.0, 2.0, 14)[:, None])
)
HOW: dict[str, Any] = {
    "sizes": {"r_dim": 6, "l_dim": 4, "z_dim": 4, "h_dim": 6},
    "options": {"epochs": 5, "batch_size": 5},
    "held_out": 4,
    "draws": 8,
}


@pytest.fixture
def quick_candidates(monkeypatch):
    """Processes that compile soonest."""
    monkeypatch.setattr(recipes, "CANDIDATES", ("np", "np-residual"))


class Stop(Exception):
    pass


def test_fit_goes_on_with_the_candidate_at_which_it_was_stopped(quick_candidates, tmp_path):
    whole = odp.fit(WAVES, **HOW)
    assert set(whole.scores) == {"np", "np-residual"} and whole.model.spec.variant in whole.scores
    assert set(whole.model.calibrations) == {"amortised"}
    assert any("was kept, by held-out log predictive density" in note for note in whole.notes)
    left = iter(range(3, -1, -1))  # two short runs of one epoch, and two epochs of the first training in full

    def stop(note):
        if next(left) == 0:
            raise Stop

    with pytest.raises(Stop):
        odp.fit(WAVES, **HOW, checkpoint=tmp_path / "run", checkpoint_every=0, progress=stop)
    told: list[str] = []
    again = odp.fit(WAVES, **HOW, checkpoint=tmp_path / "run", checkpoint_every=0, resume=True, progress=told.append)
    assert 0 < len(told) <= 8, "what was done is not done again"
    assert again.scores == whole.scores
    for a, b in zip(*(jax.tree.leaves(each.model.process) for each in (whole, again)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_fit_options_say_is_all_that_happens(quick_candidates):
    spec = odp.variant("np", r_dim=6, l_dim=4, z_dim=4, h_dim=6)
    found = odp.fit(WAVES, spec, options=odp.FitOptions(epochs=1, batch_size=5))
    assert found.recipe is not None and (found.recipe.held_out, found.recipe.folds, found.recipe.seeds) == (0, 0, 1)
    assert found.model.calibrations == {} and found.scores == {} and found.model.info["epochs"] == 1


def test_held_out_of_none_leaves_the_model_uncalibrated(quick_candidates):
    found = odp.fit(WAVES, **{**HOW, "options": {"epochs": 1}, "held_out": 0})
    assert found.model.spec.variant == "np-residual" and found.scores == {} and found.model.calibrations == {}
    assert any("none is left to calibrate on" in note for note in found.notes)
