"""`learn`: processes compete on held-out series; linear and autonomous ones are what they say they are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import odeprocess as odp
from cases import process, small
from odeprocess.posterior.held_out import WORST
from odeprocess.training import model_selection
from odeprocess.training.model_selection import (
    DOUBTFUL,
    ENOUGH,
    HEAT,
    RIVALS,
    Entry,
    held_back,
    may_win,
    much_worse,
    simplest,
    winners,
)


def test_the_simplest_that_is_not_worse_wins():
    base = np.random.default_rng(0).normal(size=40)
    assert simplest([base, base]) == 0
    assert simplest([base + 1e-9, base]) == 1, "worse on every series is worse, however little"
    chance = np.tile([0.01, -0.01], 20)  # no difference in the mean
    assert simplest([base + chance + 1e-4, base]) == 0, "less than a standard error does not count"
    assert simplest([base + 1.0, base + 0.5, base]) == 2
    assert simplest([np.full(40, np.log(WORST)), base]) == 1, "a process that broke down never wins"


@given(st.lists(st.lists(st.integers(-3, 3) | st.floats(-9, 9), min_size=5, max_size=5), min_size=1, max_size=4))
@example([[1, 1, 1, 1, 1], [3, 3, 3, -2, -2], [0.9, 0.9, 0.9, 0.9, 0.9]])  # as good as the first on average, and scattered
@settings(max_examples=200)
def test_somebody_always_wins_and_is_better_than_all_that_are_simpler(errors):
    tried = [np.array(each, float) for each in errors]
    winner = simplest(tried)
    assert all(tried[winner].mean() < simpler.mean() for simpler in tried[:winner])


def test_a_heat_is_followed_up_where_the_rest_of_training_may_decide():
    best = np.random.default_rng(0).normal(size=40)
    assert may_win(best - 0.1, best) and may_win(best + 0.1, best), "better already, or not much worse"
    assert not may_win(best + np.log(HEAT) + 0.1, best), "hopeless"
    assert not may_win(best + 0.01, best) and not may_win(best - 0.01, best), "as good: what is left is noise"
    assert not may_win(np.full(40, np.log(WORST)), best), "it broke down"
    assert may_win(best, np.full(40, np.log(WORST))), "the other did"


def test_much_worse_is_more_than_the_rest_of_training_makes_up_for():
    errors = np.random.default_rng(0).normal(size=40)
    one, other = Entry(None, errors + np.log(HEAT) + 0.1), Entry(None, errors)
    assert much_worse(one, other) and not much_worse(other, one)
    assert not much_worse(Entry(None, errors + np.log(HEAT) - 0.1), other)


class Ended(NamedTuple):
    """A model, as far as a model_selection looks at it."""

    name: str
    ending: float


class Done(NamedTuple):
    """A training."""

    models: list[Ended]


LINEAR, STATE = RIVALS
GOOD, FAIR, BAD, BROKEN = 0.5 * ENOUGH, 0.5 * DOUBTFUL, 3 * DOUBTFUL, None


@pytest.mark.parametrize(
    ("heats", "full", "trainings", "winner"),
    [
        ({LINEAR: FAIR}, {LINEAR: GOOD}, ["heat linear", "linear"], LINEAR),
        ({LINEAR: BAD, STATE: BAD}, {LINEAR: BAD}, ["heat linear", "heat state", "linear"], LINEAR),
        ({LINEAR: 9 * BAD, STATE: BAD}, {STATE: FAIR}, ["heat linear", "heat state", "state"], STATE),
        ({LINEAR: FAIR, STATE: 2 * FAIR}, {LINEAR: FAIR, STATE: GOOD}, ["heat linear", "linear", "heat state", "state"], STATE),
        ({LINEAR: BROKEN, STATE: BAD}, {STATE: FAIR}, ["heat linear", "heat state", "state"], STATE),
        ({LINEAR: BAD, STATE: BROKEN}, {LINEAR: FAIR}, ["heat linear", "heat state", "linear"], LINEAR),
    ],
)
def test_no_process_is_trained_longer_than_it_takes_to_decide(monkeypatch, heats, full, trainings, winner):
    """Trainings are stood in for by the errors that they end with: real ones would not end so on demand."""
    series, done = odp.data.lines.sample(12, key=jr.key(0)), []

    def fitted(*, spec, options, seeds, **_):
        heat = options.epochs < odp.recipe(kept, steps=1000)["options"].epochs
        done.append(("heat " if heat else "") + spec.variant.removeprefix("ndp-"))
        ending = (heats if heat else full)[spec.variant]
        if ending is BROKEN:
            raise odp.TrainingError("broke down")
        return Done([Ended(spec.variant, ending) for _ in seeds])

    kept, held = held_back(series)
    monkeypatch.setattr(model_selection, "fit", fitted)
    monkeypatch.setattr(model_selection, "settles", lambda model: False)
    monkeypatch.setattr(model_selection, "errors_on", lambda model, held, key: np.full(4, np.log(model.ending)))
    monkeypatch.setattr(model_selection, "_noted", lambda model, rivals, entries: model)
    (best,) = winners(kept, held, steps=1000, seeds=(0,))
    assert done == trainings and best is not None and best.name == winner


def test_where_all_break_down_the_message_says_so(monkeypatch):
    def broken(**_):
        raise odp.TrainingError("broke down")

    monkeypatch.setattr(model_selection, "fit", broken)
    with pytest.raises(odp.TrainingError, match=r"Every process broke down: ndp-linear, ndp-state\. Look for"):
        odp.learn(odp.data.lines.sample(12, key=jr.key(0)))


@pytest.mark.parametrize("count", [0, 9, 10, 2.5, True])
def test_a_wrong_number_of_held_out_series_is_refused(count):
    series = odp.data.lines.sample(10, key=jr.key(0))
    if count is True:  # one series: a whole number after all
        assert len(held_back(series, count)[1]) == 1
        return
    with pytest.raises(ValueError, match="held out; expected a whole number"):
        held_back(series, count)


def test_a_contest_needs_somebody():
    with pytest.raises(ValueError, match="`rivals` is empty; expected the names"):
        odp.learn(odp.data.lines.sample(10, key=jr.key(0)), rivals=())


def test_each_series_is_either_trained_on_or_held_back_whatever_their_order_was():
    series = odp.data.lines.sample(100, key=jr.key(0))
    kept, held = held_back(series)
    assert (len(kept), len(held)) == (80, 20)
    both = np.concatenate([kept.y, held.y])[:, :, 0]
    np.testing.assert_array_equal(both[np.lexsort(both.T)], series.y[np.lexsort(series.y[:, :, 0].T)][:, :, 0])
    places = np.flatnonzero((series.y[:, None] == held.y[None]).all((2, 3)).any(1))
    assert places.min() < 25 and places.max() >= 75, "from all parts of a table that may be sorted"


def test_a_linear_process_is_affine_in_its_latents():
    made = process("ndp-linear")
    a, b = jr.normal(jr.key(1), (2, made.z_dim))
    t = jnp.linspace(0, 1, 7)
    mean = jax.jit(lambda z: made.predict(z, t)[0].mean)
    np.testing.assert_allclose(mean(0.3 * a + 0.7 * b), 0.3 * mean(a) + 0.7 * mean(b), rtol=1e-4, atol=1e-5)
    assert float(jnp.abs(mean(a) - mean(b)).max()) > 1e-2


@pytest.mark.parametrize("name", ["ndp-state", "nd2p"])
def test_an_untimed_field_is_the_same_at_all_times(name):
    spec = small(name, timed=False)
    field = jax.tree.map(lambda x: x + 0.1, spec.build(key=jr.key(0)).flow.field)  # networks begin at zero
    l, prepared = jr.normal(jr.key(1), (spec.l_dim,)), field.prepare(jr.normal(jr.key(2), (spec.z_dim - spec.l_dim,)))
    np.testing.assert_array_equal(*(field.velocity(jnp.asarray(t), l, prepared) for t in (0.0, 5.0)))
    told = jax.tree.map(lambda x: x + 0.1, spec.replace(timed=True).build(key=jr.key(0)).flow.field)
    prepared = told.prepare(jr.normal(jr.key(2), (spec.z_dim - spec.l_dim,)))
    apart = jnp.subtract(*(told.velocity(jnp.asarray(t), l, prepared) for t in (0.0, 5.0)))
    assert float(jnp.abs(apart).max()) > 1e-3


def test_learn_gives_a_calibrated_winner_that_forecasts():
    series = odp.data.lines.sample(60, key=jr.key(0))
    model = odp.learn(series, steps=150, progress=False)
    tried = model.info["model_selection"]
    assert model.spec.variant in tried and set(tried) <= set(RIVALS) and RIVALS[0] in tried
    assert len(tried) == len(RIVALS) or tried[RIVALS[0]] < ENOUGH, "all are tried unless the first is good enough"
    assert set(model.calibrations) == {"refined", "amortised"}
    fresh = odp.data.lines.sample(8, key=jr.key(1))
    t, y = np.asarray(fresh.t, np.float64), np.asarray(fresh.y, np.float64)
    posterior = model.condition(t[:, :50], y[:, :50], key=jr.key(2))
    off = np.abs(posterior.mean(t[:, 50:]) - y[:, 50:])
    assert np.median(off) < 0.05 * y.std(), "after so short a training"
