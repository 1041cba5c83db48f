"""Whoever goes beyond what a model was trained on is told; whoever does not, is not."""

import dataclasses
import warnings

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, strategies as st

import odeprocess as odp
import table_cases
from cases import SOLVER, untrained
from odeprocess.data.training_range import ExtrapolationWarning, TrainingRange

VALUES = np.random.default_rng(0).uniform(-1, 3, (5, 9))
SERIES = odp.make_series(np.tile(np.linspace(2.0, 6.0, 9), (5, 1)), VALUES, static=np.arange(5.0)[:, None])
SPEC = odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4, solver=SOLVER)
KEY = jr.key(0)


def reaching(origin: str = "absolute") -> odp.Model:
    model = untrained(SPEC, SERIES)
    scaling = odp.Scaling.fit(SERIES, origin=origin).with_training_range(SERIES)  # type: ignore[arg-type]
    return odp.Model(model.process, model.spec, scaling)


MODEL = reaching()


@given(st.floats(-100, 100))
def test_times_are_reported_if_and_only_if_they_lie_outside(t):
    posterior = MODEL.condition([3.0], [1.0], static=[2.0], key=KEY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior.mean([4.0, t])
        posterior.update([t], [1.0])
    outside = not 1.8 <= t <= 6.2  # a twentieth of the range may be a margin
    assert [w.category for w in caught] == [ExtrapolationWarning] * (2 if outside else 0)
    assert all(w.filename == __file__ and "2 to 6" in str(w.message) for w in caught)


@given(st.floats(-100, 100), st.floats(-100, 100))
def test_values_and_covariates_are_reported_if_they_lie_far_outside(y, static):
    low, high = SERIES.y.min(), SERIES.y.max()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MODEL.condition([3.0, 4.0], [1.0, y], static=[static], key=KEY)
    expected = ["covariate 0"] * (not -2.0 <= static <= 6.0)
    expected += ["channel 0"] * (not 1.5 * low - 0.5 * high <= y <= 1.5 * high - 0.5 * low)
    assert len(caught) == len(expected)
    assert all(words in str(w.message) for words, w in zip(expected, caught, strict=True))


def test_missing_values_empty_contexts_and_padding_are_never_outside():
    MODEL.condition(static=[1.0], key=KEY).mean([2.0, 6.0])  # warnings are errors here
    batch = MODEL.condition([[3.0, 4.0], [5.0]], [[1.0, np.nan], [2.0]], static=[[1.0], [2.0]], key=KEY)
    batch.log_prob([[3.0], [4.0, 5.0]], [[1.0], [1.0, 1.0]])
    MODEL.condition([99.0], [np.nan], static=[1.0], key=KEY)


def test_what_never_varied_may_differ_by_rounding_and_pixels_share_a_range():
    flat = odp.Series(
        SERIES.t, np.repeat(0.0 * SERIES.y + 5.1, 2, -1).astype(np.float32), np.repeat(SERIES.mask, 2, -1), SERIES.static
    )
    flat.y[:, :, 0] = np.linspace(0, 1, 9, dtype=np.float32)
    apart, alike = (TrainingRange.of(flat, np.zeros(5), relative=False, alike=way) for way in (False, True))
    value = np.array([[0.5, 5.1], [0.5, 4.0]])
    assert apart.beyond_values(value).tolist() == [[False, False], [False, True]] and not alike.beyond_values(value).any()


def test_times_count_from_where_a_series_begins():
    model = reaching("first")
    late = model.condition([102.0, 103.0], [1.0, 2.0], static=[1.0], key=KEY)
    late.mean([102.0, 106.0])
    with pytest.warns(ExtrapolationWarning, match="0 to 4"):
        late.mean([107.0])


def test_streams_tell_too_and_a_saved_model_knows(tmp_path):
    MODEL.save(tmp_path)
    stream = odp.Stream(odp.load(tmp_path), key=KEY)
    stream.open(["a", "b"], static=[[1.0], [2.0]])
    stream.observe(["a", "b", "a"], [3.0, 4.0, 5.0], [1.0, 1.0, 2.0])
    with pytest.warns(ExtrapolationWarning, match=r"1 of 2\): channel 0 is 50"):
        stream.observe(["a", "b"], [3.0, 4.0], [1.0, 50.0])
    with pytest.warns(ExtrapolationWarning, match="from 9 to 9"):
        stream.observe("a", [9.0], [1.0])


def test_a_channel_that_was_never_observed_has_no_outside(tmp_path):
    values = np.stack([SERIES.y[..., 0], np.full(SERIES.t.shape, np.nan)], -1)
    blank = odp.make_series(SERIES.t, values)
    model = odp.fit(blank, SPEC, options=odp.FitOptions(epochs=1)).model
    model.save(tmp_path)
    reach = odp.load(tmp_path).scaling.training_range
    assert (
        reach is not None
        and np.isnan(reach.y[:, 1]).all()
        and reach.y[:, 0].tolist() == model.scaling.training_range.y[:, 0].tolist()
    )
    odp.load(tmp_path).condition([3.0], [[1.0, 1e9]], key=KEY)  # warnings are errors here


def test_seconds_since_1970_have_no_more_room_than_others():
    reach = TrainingRange(np.array([1.7e9, 1.7e9 + 3600.0]), np.zeros((2, 1)), np.zeros((2, 0)))
    assert reach.beyond_times(np.array([1.7e9 - 200.0, 1.7e9 - 100.0, 1.7e9 + 3900.0])).tolist() == [True, False, True]


def test_fit_notes_how_far_its_series_reach():
    model = odp.fit(SERIES, SPEC, options=odp.FitOptions(epochs=1)).model
    reach = model.scaling.training_range
    assert isinstance(reach, TrainingRange) and reach.t.tolist() == [2.0, 6.0] and reach.static.tolist() == [[0.0], [4.0]]
    np.testing.assert_allclose(reach.y[:, 0], [SERIES.y.min(), SERIES.y.max()], rtol=1e-6)


def test_a_table_names_the_series_once():
    forecaster, data = table_cases.untrained(), table_cases.table()
    scaling = forecaster.model_.scaling
    known = TrainingRange(np.array([0.0, 8.0]), np.array([[-9.0, -9.0], [9.0, 9.0]]), np.zeros((2, 0)))
    forecaster.model_ = dataclasses.replace(forecaster.model_, scaling=dataclasses.replace(scaling, training_range=known))
    forecaster.predict(data, [0.0, 7.0])  # warnings are errors here
    with pytest.warns(ExtrapolationWarning) as caught:
        forecaster.predict(data, [0.0, 9.0])
    assert len(caught) == 1 and str(caught[0].message).startswith("5 series ('a', 'b', 'c', …) are asked about")
    data.loc[data.id == "b", "speed"] = 1e6
    with pytest.warns(ExtrapolationWarning, match=r"^1 series \('b'\) is observed with values far outside"):
        forecaster.predict(data, [0.0, 7.0])
