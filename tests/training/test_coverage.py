"""What calibration is for: intervals of new series hold as much as they say."""

import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp

POINTS, GIVEN = 16, 4
SIZES = {"l_dim": 2, "z_dim": 4, "h_dim": 16, "r_dim": 16}


def waves(count: int, seed: int) -> odp.Series:
    """Sines of random amplitude and phase at irregular times, with measurement noise."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(-3.0, 3.0, (count, POINTS)))
    y = rng.uniform(0.5, 1.5, (count, 1)) * np.sin(t - rng.uniform(-0.8, 0.8, (count, 1)))
    return odp.make_series(t, y + 0.1 * rng.normal(size=y.shape))


@pytest.fixture(scope="module")
def model() -> odp.Model:
    """Trained on 80 series and calibrated on 40 more."""
    options = {"epochs": 40, "em_epochs": 40, "batch_size": 40}
    return odp.fit(waves(120, 0), "ndp-linear", effort="quick", options=options, sizes=SIZES, held_out=40, progress=False).model


@pytest.mark.parametrize("inference", ["exact", "amortised"])
def test_calibrated_intervals_hold_nine_tenths_of_fresh_series(model, inference):
    fresh = waves(200, 1)
    t, y = np.asarray(fresh.t, np.float64), np.asarray(fresh.y, np.float64)
    order = np.random.default_rng(2).permuted(np.tile(np.arange(POINTS), (200, 1)), axis=1)
    given, rest = np.sort(order[:, :GIVEN], 1), np.sort(order[:, GIVEN:], 1)

    def at(index):
        return np.take_along_axis(t, index, 1), np.take_along_axis(y, index[..., None], 1)

    posterior = model.condition(*at(given), key=jr.key(3), inference=inference)
    times, values = at(rest)
    low, high = posterior.interval(times, 0.9)
    assert 0.80 <= ((low <= values) & (values <= high)).mean() <= 0.97
    # And what else is asked says the same: draws of new measurements, and densities.
    sample = posterior.sample(times)
    rank = (sample < values[:, None]).mean(1)
    assert 0.80 <= ((rank > 0.05) & (rank < 0.95)).mean() <= 0.97
    assert np.isfinite(posterior.log_prob(times, values)).all()
