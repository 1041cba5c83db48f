"""Recipes: defaults that suit any number of series, which a user can overrule one by one."""

import numpy as np
import pytest

import odeprocess as odp
from odeprocess.training.plan import padded_size
from odeprocess.training.recipes import CANDIDATES, make_recipe


def series(count: int, points: int = 6, channels: int = 1) -> odp.Series:
    y = np.random.default_rng(0).normal(size=(count, points, channels))
    return odp.make_series(np.tile(np.arange(float(points)), (count, 1)), y)


@pytest.mark.parametrize("count", [2, 3, 12, 39, 40, 1000])
def test_a_recipe_suits_any_number_of_series(count):
    recipe = make_recipe(series(count))
    assert recipe.held_out == (0 if count < 40 else min(60, count // 5))
    assert recipe.folds == (0 if count in (2, 40, 1000) else min(4, count))
    assert recipe.options.batch_size <= padded_size(count, 6)[0]
    assert tuple(spec.variant for spec in recipe.specs) == CANDIDATES and recipe.seeds == 1
    assert any(note.startswith("Candidates: ndp-linear, ndp-state, ndp-skip") for note in recipe.notes)


def test_everything_can_be_overruled():
    recipe = make_recipe(
        series(50),
        "ndp-linear",
        "best",
        options={"epochs": 3, "batch_size": 2},
        sampler={"context": (1, 2)},
        sizes={"h_dim": 5},
        held_out=0,
    )
    assert (recipe.options.epochs, recipe.options.batch_size) == (3, 2) and recipe.options.clip == 100.0
    assert recipe.options.resolved(learned_prior=True).em_epochs == 9, "three times as many epochs"
    assert recipe.sampler.context == (1, 2) and recipe.sampler.split == "mixed"
    assert [spec.variant for spec in recipe.specs] == ["ndp-linear"] and recipe.specs[0].h_dim == 5
    assert (recipe.held_out, recipe.folds, recipe.seeds) == (0, 0, 3)


def test_more_effort_is_longer_training():
    quick, default, best = (make_recipe(series(100, 20), effort=effort) for effort in ("quick", "default", "best"))
    assert quick.options.epochs < default.options.epochs < best.options.epochs
    assert len(quick.specs) == 1 and len(default.specs) == len(best.specs) == 3
    assert (quick.seeds, default.seeds, best.seeds) == (1, 1, 3)


def test_options_that_say_everything_are_taken_as_they_are():
    options = odp.FitOptions(epochs=7)
    recipe = make_recipe(series(50), "ndp", options=options)
    assert recipe.options is options and recipe.sampler == odp.TaskSampler() and recipe.specs == (odp.variant("ndp"),)
    assert (recipe.held_out, recipe.folds) == (0, 0)
    assert make_recipe(series(50), "ndp", options=options, held_out=10).held_out == 10


def test_a_spec_keeps_its_sizes():
    spec = odp.variant("ndp-linear", l_dim=3, z_dim=5)
    assert make_recipe(series(50), spec).specs == (spec,)


WRONG = {
    "a model": ({"model": "gp"}, "`model` is 'gp'; expected 'auto', the name of a variant"),
    "a model that is none": ({"model": 3}, "`model` is 3; expected 'auto'"),
    "an effort": ({"effort": "much"}, "`effort` is 'much'; expected"),
    "an option": ({"options": {"epoch": 3, "batch": 2}}, "`options` holds 'batch', 'epoch'; expected names among"),
    "options that are none": ({"options": 3}, "`options` is 3; expected"),
    "a value of an option": ({"options": {"epochs": 0}}, "`epochs` is 0"),
    "a sampler": ({"sampler": {"contexts": (0, 3)}}, "`sampler` is .*; expected a TaskSampler"),
    "a sampler that is none": ({"sampler": "prefix"}, "`sampler` is 'prefix'; expected a TaskSampler"),
    "a size": ({"sizes": {"width": 3}}, "Unknown option"),
    "sizes that are none": ({"sizes": 3}, "`sizes` is 3; expected"),
    "too many held out": ({"held_out": 49}, "`held_out` is 49; expected a whole number of series, and two or more of the 50"),
    "a part of a series": ({"held_out": 2.5}, "`held_out` is 2.5; expected"),
    "patience without a judge": ({"options": {"patience": 3}, "held_out": 0}, "no series is held out .*Pass `held_out` as well"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_refused_in_one_line(kind):
    changes, message = WRONG[kind]
    with pytest.raises(ValueError, match=message) as raised:
        make_recipe(series(50), **changes)
    assert "\n" not in str(raised.value)


def test_series_come_first():
    with pytest.raises(ValueError, match=r"`series` is .*; expected a batch of series: make one with make_series"):
        odp.fit("ndp", series(5))  # type: ignore[arg-type]
