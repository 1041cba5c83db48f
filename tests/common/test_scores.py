"""Scores agree with their definitions as integrals, and with each other."""

import numpy as np
import pytest
from scipy import integrate, stats

from odeprocess.common import scores


def crps_integral(distribution, y: float) -> float:
    """∫ (F(x) − 1{x ≥ y})² dx."""
    low, high = distribution.ppf(1e-12), distribution.ppf(1 - 1e-12)
    below, _ = integrate.quad(lambda x: distribution.cdf(x) ** 2, min(low, y), y, limit=200)
    above, _ = integrate.quad(lambda x: distribution.sf(x) ** 2, y, max(high, y), limit=200)
    return below + above


@pytest.mark.parametrize("y", [-3.0, 0.2, 0.7, 4.0])
def test_crps_of_a_normal_is_its_integral(y):
    assert scores.crps_normal(0.2, 0.5, y) == pytest.approx(crps_integral(stats.norm(0.2, 0.5), y), rel=1e-7)


@pytest.mark.parametrize("distribution", [stats.norm(1.0, 2.0), stats.gamma(2.0), stats.uniform(-1.0, 3.0)])
def test_crps_of_draws_is_the_integral_without_bias(distribution):
    draws = distribution.rvs((20_000, 4), random_state=0)  # few draws each: a biased estimate would be off by a quarter
    found = scores.crps_draws(draws, np.full(len(draws), 0.7))
    assert abs(found.mean() - crps_integral(distribution, 0.7)) < 4 * found.std() / len(found) ** 0.5


def test_crps_of_draws_is_the_mean_over_pairs_and_of_one_draw_the_absolute_error():
    draws, y = np.random.default_rng(0).standard_normal((3, 7, 2)), np.random.default_rng(1).standard_normal((3, 2))
    pairs = np.abs(draws[:, :, None] - draws[:, None]).sum((1, 2)) / (7 * 6)
    np.testing.assert_allclose(scores.crps_draws(draws, y), np.abs(draws - y[:, None]).mean(1) - 0.5 * pairs)
    np.testing.assert_allclose(scores.crps_draws(draws[:, :1], y), np.abs(draws[:, 0] - y))


def test_log_densities_integrate_to_one():
    means, std = np.array([[-1.0, 0.5, 2.0]]), np.array([[0.3, 1.0, 0.1]])
    mixture = integrate.quad(lambda x: np.exp(scores.log_density_mixture(means, std, np.array([x]))[0]), -8, 8, points=[-1, 2])[0]
    assert mixture == pytest.approx(1.0, rel=1e-6)
    assert scores.log_density_normal(0.2, 0.5, 0.7) == pytest.approx(stats.norm(0.2, 0.5).logpdf(0.7))


def test_the_log_density_of_a_series_is_that_of_the_product():
    rng = np.random.default_rng(0)
    means, y, chosen = rng.standard_normal((2, 5, 3, 1)), rng.standard_normal((2, 3, 1)), np.ones((2, 3, 1), bool)
    chosen[1, 0] = False
    found, size = scores.log_density_of_series(means, 0.5, y, chosen)
    for i, kept in enumerate(([0, 1, 2], [1, 2])):
        weights = stats.norm(means[i, :, kept, 0], 0.5).pdf(y[i, kept]).prod(0)
        assert found[i] == pytest.approx(np.log(weights.mean()) / len(kept))
        assert size[i] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_intervals_contain_their_level():
    low, high = scores.normal_interval(1.0, 2.0, 0.9)
    draws = stats.norm(1.0, 2.0).ppf((np.arange(1000) + 0.5) / 1000)
    assert scores.coverage(low, high, draws).mean() == pytest.approx(0.9)
    assert scores.coverage(0.0, 1.0, np.array([0.0, 0.5, 1.0, 1.1])).tolist() == [1.0, 1.0, 1.0, 0.0]


def test_the_bandwidth_is_that_of_scipy_for_normal_draws():
    draws = stats.norm(0.0, 3.0).rvs((1, 5000), random_state=0)
    assert scores.silverman_bandwidth(draws)[0] == pytest.approx(3.0 * 0.9 * 5000**-0.2, rel=0.03)
