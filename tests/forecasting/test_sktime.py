"""The sktime forecaster: sktime's own checks, and what they do not ask."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sktime.utils.estimator_checks import check_estimator

from odeprocess.forecasting.sktime import ProcessForecaster

TINY = ProcessForecaster.get_test_params()[0]
# Checks of sktime's that are left out, and why.
EXCLUDED = {
    "test_class_has_doctest_example": "the example is docs/howto/sktime.md, and it runs in tests/project/test_docs.py",
}


@pytest.fixture(autouse=True)
def sktime_warns_of_its_own():
    """Of pandas' future and of its own; neither is about the forecaster."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def panel(series: int = 4, rows: int = 10) -> pd.DataFrame:
    index = pd.MultiIndex.from_product([list("abcdefgh"[:series]), range(rows)], names=["who", "when"])
    return pd.DataFrame({"y": 5 + np.sin(np.arange(series * rows) / 2.0)}, index=index)


@pytest.mark.slow
def test_sktime_finds_nothing_wrong():
    found = check_estimator(ProcessForecaster(**TINY), tests_to_exclude=list(EXCLUDED), verbose=0)
    failed = {name: result for name, result in found.items() if result != "PASSED"}
    assert not failed and len(found) > 100


def test_a_panel_is_forecast_after_its_end():
    y = panel()
    y.iloc[3] = np.nan
    forecaster = ProcessForecaster(**TINY).fit(y)
    mean = forecaster.predict(fh=[1, 3])
    assert mean.index.tolist() == [(who, when) for who in "abcd" for when in (10, 12)] and mean.notna().all(axis=None)
    bands = forecaster.predict_interval(fh=[1, 3], coverage=[0.5, 0.9])
    for inner, outer in ((0.5, 0.9),):
        assert (bands[("y", outer, "lower")] < bands[("y", inner, "lower")]).all()
        assert (bands[("y", outer, "upper")] > bands[("y", inner, "upper")]).all()
    assert (bands[("y", 0.9, "lower")] > 0).all()  # the values are positive


def test_new_rows_count_without_training():
    y = panel(rows=12)
    early = y[y.index.get_level_values("when") < 10]
    forecaster = ProcessForecaster(**TINY).fit(early)
    before, trained = forecaster.predict(fh=[3]), forecaster.forecaster_
    forecaster.update(y[y.index.get_level_values("when") >= 10])
    after = forecaster.predict(fh=[1])
    assert forecaster.forecaster_ is trained
    assert before.index.equals(after.index) and not np.allclose(before, after)
