"""The baseline for tables: Gaussian processes, by the same rules as the forecaster."""

import numpy as np
import pandas as pd
import pytest

from odeprocess.experiments.baselines.gaussian_processes import predict_each_series
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline, score_gaussian_processes
from table_cases import table, untrained


@pytest.fixture(scope="module")
def forecaster():
    return untrained()


def test_what_is_missing_does_not_count():
    t, y = np.linspace(-2, 2, 6)[None], np.sin(np.linspace(-2, 2, 6))[None, :, None]
    at = np.linspace(-2, 2, 9)[None]
    gone = y.copy()
    gone[0, 2] = np.nan
    kept = np.arange(6) != 2
    for a, b in zip(predict_each_series(t, gone, at), predict_each_series(t[:, kept], y[:, kept], at), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)


def test_both_are_scored_on_the_same_series(forecaster):
    train, test = table(), table(3)
    ours = forecaster.evaluate(test, 3, "forecast", by="series")
    theirs = score_gaussian_processes(forecaster, train, test, 3)
    for _, part in theirs.groupby("transformed"):
        assert part["id"].tolist() == ours["id"].tolist()
        assert np.isfinite(part[["mse", "nll", "crps"]]).all(axis=None) and part["coverage"].between(0, 1).all()


def test_intervals_hold_what_was_given(forecaster):
    smooth = pd.DataFrame({"id": "a", "t": np.arange(6.0), "level": 5.0 + np.sin(np.arange(6.0)), "speed": 1.0, "dose": 1.0})
    smooth["sex"] = "f"
    baseline = GaussianProcessBaseline.from_training_table(forecaster, table(), transformed=True)
    found = baseline.predict(smooth, smooth["t"])
    level = found[found["variable"] == "level"]
    assert (level["q0.05"] > 0).all() and (level["q0.05"] <= level["q0.5"]).all() and (level["q0.5"] <= level["q0.95"]).all()
    inside = (level["q0.05"].to_numpy() <= smooth["level"]) & (smooth["level"] <= level["q0.95"].to_numpy())
    assert inside.all()
