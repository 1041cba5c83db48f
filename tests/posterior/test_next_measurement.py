"""The next best measurement: exact where everything is normal, greedy, and never what is forbidden."""

import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from cases import model as case_model
from odeprocess.posterior.next_measurement import condition_on_measurement

KEY = jr.key(2)
MODEL = "ndp, fixed noise"


@pytest.fixture(scope="module")
def posterior():
    return case_model(MODEL).condition([0.2], [[0.1, 0.5]], key=KEY, static=[0.3], draws=32)


def covariance(posterior, times):
    """Of the draws' values, all channels, and the variance of noise."""
    draws = posterior.sample(times, of="function").reshape(posterior.draws, -1)
    return np.cov(draws.T, bias=True), case_model(MODEL).spec.noise_std ** 2


def half_log_det(matrix):
    return 0.5 * np.linalg.slogdet(matrix)[1]


def test_information_is_the_log_determinant_that_a_measurement_takes_away(posterior):
    """By brute force, with the whole covariance of what is measured and of what it is about."""
    times, about = np.linspace(0, 1, 5), [0.1, 0.9]
    both, noise = covariance(posterior, [*times, *about])
    both = both + noise * np.eye(len(both))
    blocks = [np.arange(2 * i, 2 * i + 2) for i in range(5)]
    target = np.arange(10, 14)
    whole = [half_log_det(both[np.ix_(b, b)] / noise) for b in blocks]
    apart = [
        half_log_det(both[np.ix_(b, b)]) + half_log_det(both[np.ix_(target, target)]) - half_log_det(both[np.ix_(j, j)])
        for b in blocks
        for j in [np.concatenate([b, target])]
    ]
    for options, expected in (({}, whole), ({"about": about}, apart)):
        found = odp.suggest(posterior, times, **options)
        assert found.times == times[np.argmax(expected)]
        np.testing.assert_allclose(found.scores, np.max(expected), rtol=2e-2)


def test_a_batch_is_chosen_as_if_those_before_had_been_measured(posterior):
    """The information of all together is the sum of what each promised."""
    times = np.linspace(0, 1, 5)
    found = odp.suggest(posterior, times, count=3)
    which = np.concatenate([[2 * i, 2 * i + 1] for i in np.searchsorted(times, found.times)])
    whole, noise = covariance(posterior, times)
    together = half_log_det(whole[np.ix_(which, which)] / noise + np.eye(len(which)))
    np.testing.assert_allclose(found.scores.sum(), together, rtol=2e-2)
    assert len(set(found.times)) == 3 and (np.diff(found.scores) <= 1e-6).all()
    assert odp.suggest(posterior, times, count=1).times == found.times[:1]


def test_a_measurement_shrinks_draws_as_conditioning_does():
    rng = np.random.default_rng(0)
    curves = (rng.normal(size=(400, 3)) @ rng.normal(size=(3, 4)))[:, :, None]
    after = np.asarray(condition_on_measurement(curves, curves[:, 1, 0], 0.5))[..., 0]
    before = np.cov(curves[..., 0].T, bias=True)
    exact = before - np.outer(before[1], before[1]) / (before[1, 1] + 0.5)
    np.testing.assert_allclose(np.cov(after.T, bias=True), exact, atol=1e-4)
    np.testing.assert_allclose(after.mean(0), curves[..., 0].mean(0), atol=1e-5)


def test_spread_is_where_the_draws_lie_furthest_apart(posterior):
    times = np.linspace(0, 1, 5)
    widest = posterior.std(times, of="function").sum(-1)
    found = odp.suggest(posterior, times, by="spread")
    assert found.times == times[widest.argmax()]
    np.testing.assert_allclose(found.scores, widest.max(), rtol=1e-4)


def test_costs_forbidden_times_and_missing_candidates(posterior):
    times = np.array([0.0, 0.25, np.nan, 0.75, 1.0])
    best = odp.suggest(posterior, times).times[0]
    dear = np.where(times == best, 1e4, 1.0)
    assert odp.suggest(posterior, times, costs=dear).times[0] != best
    assert odp.suggest(posterior, times, forbidden=[(best, best)]).times[0] != best
    assert set(odp.suggest(posterior, times, count=4).times) == {0.0, 0.25, 0.75, 1.0}
    assert odp.suggest(posterior, np.full(5, 0.5)).times == 0.5  # ties


def test_every_series_of_a_batch_gets_its_own(posterior):
    both = case_model(MODEL).condition([[0.2], [0.9]], np.full((2, 1, 2), 0.3), key=KEY, static=[[0.3], [0.1]], draws=32)
    times = np.array([[0.0, 0.3, 0.6, 1.0, 0.8], [0.5, np.nan, np.nan, 0.2, np.nan]])
    found = odp.suggest(both, times, count=2)
    for i in range(2):
        alone = odp.suggest(both[i], times[i], count=2)
        assert (found.times[i] == alone.times).all()
        np.testing.assert_allclose(found.scores[i], alone.scores, rtol=1e-3)


def test_what_cannot_be_suggested_is_explained(posterior):
    bad = {
        "only 0 of 2 candidates": {"candidates": [0.1, 0.2], "forbidden": [(0.0, 1.0)]},
        "only 1 of 2 candidates": {"candidates": [0.1, np.nan], "count": 2},
        "is empty": {"candidates": []},
        "infinite times": {"candidates": [np.inf]},
        "expected one of 'spread', 'information'": {"candidates": [0.1], "by": "variance"},
        "pairs": {"candidates": [0.1], "forbidden": [(0.5, 0.2)]},
        "a single time t is": {"candidates": [0.1], "forbidden": [0.5]},
        "one for each candidate": {"candidates": [0.1], "costs": [1.0, 2.0]},
        "above 0": {"candidates": [0.1], "costs": [0.0]},
        "for by='information'": {"candidates": [0.1], "by": "spread", "about": [0.5]},
    }
    for message, options in bad.items():
        with pytest.raises(ValueError, match=message):
            odp.suggest(posterior, **options)
