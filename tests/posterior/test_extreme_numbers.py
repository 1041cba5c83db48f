"""Numbers of any size: every public result is finite, or one line says what is wrong; far tails and odd values in float64."""

import dataclasses
import math
import warnings

import jax
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special, stats

import odeprocess as odp
import table_cases
from cases import model as case_model
from fuzzing import numbers
from odeprocess.common import checks
from odeprocess.forecasting.prediction_tables import quantile_name

KEY = jr.key(0)
TIMES = np.array([0.1, 0.5, 0.9])


@pytest.fixture(scope="module")
def posterior() -> odp.Posterior:
    return case_model("np").condition([0.2, 0.7], [[0.1, 0.9], [0.5, 0.2]], static=[0.0], key=KEY, draws=8)


@pytest.fixture(scope="module")
def draws(posterior) -> stats.rv_continuous:
    """The same mixture for SciPy: draws, times, channels."""
    predicted, m = posterior._predicted(TIMES, None)
    return stats.norm(*(np.asarray(x, np.float64)[0, :, :m] for x in (predicted.loc, predicted.scale)))


@given(st.floats(-744.0, -0.7).map(math.exp) | st.sampled_from([5e-324, 1e-46, 1e-8, 1.1e-4, 1.3e-4]))
def test_a_quantile_has_its_probability_beneath_it_however_small(posterior, draws, tail):
    found = posterior.quantile(TIMES, tail)
    mass = special.logsumexp(draws.logcdf(found[None]), 0) - np.log(8)
    np.testing.assert_allclose(mass, np.log(tail), atol=1e-3 if tail > 1e-4 else 1e-9)


@given(st.sampled_from([1e-16, 1e-12, 1e-8, 1e-5, 1e-3, 0.1, 0.5]))
def test_an_interval_leaves_as_much_above_as_beneath(posterior, draws, rest):
    low, high = posterior.interval(TIMES, 1.0 - rest)
    rest = 1.0 - (1.0 - rest)  # what is left of it in float64
    for found, outside in ((low, draws.logcdf), (high, draws.logsf)):
        mass = special.logsumexp(outside(found[None]), 0) - np.log(8)
        np.testing.assert_allclose(mass, np.log(rest / 2), atol=1e-3)
    assert (posterior.interval(TIMES, 1e-300)[0] <= posterior.interval(TIMES, 0.5)[1]).all()


def test_far_quantiles_and_near_ones_meet(posterior):
    levels = [1e-300, 1e-46, 1e-8, 1.1e-4, 1.3e-4, 0.01, 0.5, 0.99, 1 - 1.3e-4, 1 - 1.1e-4, 1 - 1e-8, 1 - 1e-16]
    assert (np.diff(posterior.quantile(TIMES, levels), axis=0) > 0).all()
    function = posterior.quantile(TIMES, [1e-300, 1 - 1e-16], of="function")
    curves = posterior.sample(TIMES, of="function")
    np.testing.assert_allclose(function, [curves.min(0), curves.max(0)], rtol=1e-6)


def test_a_tail_too_thin_for_traced_arithmetic_is_refused(posterior):
    with pytest.raises(ValueError, match=r"A tail of 1e-08 is too thin for float32; .* expected 0.00012 or more"):
        jax.jit(lambda t: posterior.quantile(t, 1e-8))(TIMES)


@given(st.floats(0.0, 1e150) | st.sampled_from([1e9, 1.1e9, 1e19, 1e20, 1e30, 1e150]), st.booleans())
def test_log_densities_are_finite_wherever_they_are(posterior, draws, y, joint):
    values = np.full((3, 2), y)
    found = posterior.log_prob(TIMES, values, joint=joint)
    each = draws.logpdf(values[None])
    expected = special.logsumexp(each.sum((1, 2)) if joint else each, 0) - np.log(8)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    assert np.isfinite(found).all()


def test_what_float64_cannot_hold_is_minus_infinity_as_documented(posterior):
    assert posterior.log_prob([0.5], [[1e200, 0.0]]) == -np.inf
    assert "−∞" in odp.Posterior.log_prob.__doc__


FAR = {
    "a time": (lambda p: p.update([1e300], [[0.0, 0.0]]), "`t` holds 1e\\+300, which is too far away"),
    "a value": (lambda p: p.update([0.1], [[0.0, 1e38]]), "`y` holds 1e\\+38, which is too large .* from -2 to 2"),
    "a time that is asked": (lambda p: p.mean([0.0, -1e300]), "`times` holds -1e\\+300"),
    "a time of a density": (lambda p: p.log_prob([1e300], [[0.0, 0.0]]), "`t` holds 1e\\+300"),
    "a value to weigh by": (lambda p: p.log_prob([0.1], [[0.0, 1e30]], method="importance"), "`y` holds 1e\\+30"),
    "a million draws and one": (
        lambda p: p.mean([0.0], 10**6 + 1),
        "`n` is 1000001; expected a whole number from 1 to 1,000,000",
    ),
    "no end of steps": (
        lambda p: p.with_inference("exact", steps=10**9),
        "`steps` is 1000000000; expected a whole number from 1 to 1,000",
    ),
    "a NumPy number": (lambda p: p.interval([0.0], np.float64(1.5)), "`level` is 1.5; expected 0 < level < 1"),
    "a list of them": (lambda p: p.quantile([0.0], [np.float64(0.5), np.float64(2.0)]), r"`q` is \[0.5, 2.0\]"),
    "an array": (lambda p: p.quantile([0.0], np.array([0.5, np.nan])), r"`q` is \[0.5, nan\]"),
    "costs of any ratio": (
        lambda p: odp.suggest(p, [0.0, 0.5], costs=[1e-300, 1e300]),
        "differ by a factor of more than 1e\\+15",
    ),
    "a covariate": (
        lambda p: case_model("np").condition(static=[1e300], key=KEY),
        "`static` holds 1e\\+300, which is too large",
    ),
}


@pytest.mark.parametrize("kind", FAR)
def test_what_is_too_far_is_refused_in_one_line(posterior, kind):
    act, message = FAR[kind]
    with pytest.raises(ValueError, match=message) as raised:
        act(posterior)
    assert "\n" not in str(raised.value) and "np." not in str(raised.value)


def test_a_message_names_what_the_model_was_trained_on(posterior):
    series = odp.make_series([[0.0, 24.0, 48.0]] * 2, [[1.0, 2.0, 3.0], [2.0, 3.0, 5.0]])
    reach = odp.Scaling.fit(series).with_training_range(series)
    model = dataclasses.replace(case_model("np"), scaling=dataclasses.replace(case_model("np").scaling, training_range=None))
    assert model.scaling.training_range is None
    with pytest.raises(ValueError, match=r"`t` holds 1e\+300, .* trained on numbers from 0 to 48. Check the unit of the times"):
        reach.apply_to_new(odp.make_series([1e300], [1.0]))
    with pytest.raises(ValueError, match=r"`y` holds 1e\+38, .* trained on numbers from 1 to 5. Check its unit"):
        reach.apply_to_new(odp.make_series([1.0], [1e38]))


@pytest.mark.parametrize("cost", [5e-324, 1e-300, 1e-20, 1.0, 1e20, 1e300])
def test_costs_in_any_currency_choose_the_same_times(posterior, cost):
    found = odp.suggest(posterior, TIMES, costs=[cost, cost, cost], count=2) if cost > 1e-300 else None
    if found is None:  # scores in such a currency are beyond float64
        with pytest.raises(ValueError, match="scores overflow"):
            odp.suggest(posterior, TIMES, costs=[5e-324] * 3, count=2)
        return
    usual = odp.suggest(posterior, TIMES, count=2)
    assert found.times.tolist() == usual.times.tolist()
    np.testing.assert_allclose(found.scores * cost, usual.scores, rtol=1e-6)


@given(st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), unique=True, min_size=2, max_size=5))
def test_no_two_quantiles_share_a_column(levels):
    assert len({quantile_name(q) for q in levels}) == len(levels)
    assert [quantile_name(q) for q in (0.05, 0.5, 0.95)] == ["q0.05", "q0.5", "q0.95"]


def test_far_quantiles_of_tables_have_columns_full_of_numbers():
    levels = (1e-46, 1e-8, 0.5, 1 - 1e-8)
    found = table_cases.untrained().predict(table_cases.table(series=2), table_cases.TIMES, quantiles=levels)
    names = [quantile_name(q) for q in levels]
    assert list(found)[-4:] == names == ["q1e-46", "q1e-08", "q0.5", "q0.99999999"]
    assert np.isfinite(found[names]).all(axis=None) and (np.diff(found[names], axis=1) >= 0).all()


@given(st.one_of(st.integers(), st.floats(), st.text(), st.sampled_from(numbers.STRANGE)))
def test_what_is_shown_of_a_number_is_short_and_plain(value):
    for given_value in (value, [value], (value, value), np.array([1.0, 2.0])):
        said = checks.shown(given_value)
        assert len(said) <= 80 and said.isprintable() and "np." not in said.replace("np.datetime64", "").replace("np.str_", "")


def test_solver_errors_of_one_draw_are_told_and_not_nan(posterior):
    one = case_model("ndp").condition([0.1], [[0.0, 0.0]], static=[0.0], key=KEY, draws=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = odp.solver_error(one, [0.0, 0.5], n=1)
    assert np.isfinite([found.absolute, found.relative]).all() and found.relative_to_function == np.inf


def test_odd_numbers_give_finite_results_or_one_line():
    """A piece of `make fuzz`, with one kind of model and without what takes long; tests check the types of options themselves."""
    places = tuple(name for name in numbers.PLACES if name not in ("exact inference", "fit", "options"))
    found = numbers.odd_numbers(0, 300, kinds=1, places=places)
    assert set(found) == {"right", "refused"}, found
