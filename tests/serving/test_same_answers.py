"""One policy of inference: the same folder gives the same answer in Python, tables, streams, the server and the playground."""

import numpy as np
import pandas as pd
import pytest

import odeprocess as odp
from odeprocess.forecasting.user_units import UserUnits
from odeprocess.serving.http import ServedModel, create_app
from odeprocess.serving.playground import ModelView, Question
from odeprocess.serving.playground.predictions import SERIES, predict
from server_cases import API, run_app

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

TIMES, LEVEL = np.array([0.5, 2.0, 5.0]), 0.9
SIZES = {"l_dim": 2, "z_dim": 4, "h_dim": 8, "r_dim": 8}


def levels(series: int) -> pd.DataFrame:
    """Positive levels, whose times all count from zero."""
    rng, parts = np.random.default_rng(0), []
    for i in range(series):
        t = np.concatenate([[0.0], np.sort(rng.uniform(0, 6, 5)).round(3)])
        level = np.exp(rng.normal(1, 0.3) - 0.2 * t + 0.05 * rng.normal(size=len(t)))
        parts.append(pd.DataFrame({"id": f"s{i}", "t": t, "level": level}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module", params=["ndp-linear", "np"])
def folder(request, tmp_path_factory):
    """Of a calibrated model whose inference is exact by default, or amortised."""
    fitted = odp.Forecaster(model=request.param, options={"epochs": 3}, sizes=SIZES, held_out=4).fit(
        levels(12), "id", "t", "level"
    )
    path = tmp_path_factory.mktemp("same") / "model"
    fitted.save(path)
    return path


def answers(folder) -> dict[str, np.ndarray]:
    """Mean, lower and upper end of new measurements at `TIMES`, `[3, times]`, of one series, by the way of asking."""
    table = levels(1).iloc[:4].assign(id=SERIES)
    t, y = table["t"].to_numpy(), table["level"].to_numpy()[:, None]
    quantiles = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)

    found = odp.Forecaster.load(folder).predict(table, TIMES, quantiles=quantiles)
    by_table = found[["mean", *(f"q{q!r}" for q in quantiles)]].to_numpy().T

    model = odp.load(folder)
    units = UserUnits.of_model(model)
    posterior = model.condition(t[None], units.to_model(y)[None], key=odp.series_keys([SERIES]))
    stream = odp.Stream(model)
    stream.observe(SERIES, t, units.to_model(y))

    def by_posterior(posterior: odp.Posterior) -> np.ndarray:
        asked = TIMES[None]
        low, high = units.interval(posterior, asked, LEVEL)
        return np.stack([units.moments(posterior, asked)[0], low, high])[:, 0, :, 0]

    with run_app(create_app([ServedModel.load(folder)], warm=False)) as client:
        observations = [{"t": at, "y": [value]} for at, value in zip(t.tolist(), y[:, 0].tolist(), strict=True)]
        made = client.post(f"{API}/series", json={"id": SERIES, "observations": observations})
        assert made.status_code == 201, made.text
        said = client.post(f"{API}/series/{SERIES}/predict", json={"times": TIMES.tolist(), "level": LEVEL}).json()

    shown = predict(ModelView.load(folder), Question(t, y, np.zeros(0), LEVEL, "observations"), times=TIMES, exact=True)
    return {
        "table": by_table,
        "stream": by_posterior(stream.posterior([SERIES])),
        "python": by_posterior(posterior),
        "server": np.array([said["mean"], said["low"], said["high"]])[..., 0],
        "playground": np.stack([shown.low[:, 0], shown.high[:, 0]]),  # no mean: it draws that of the curves
    }


def test_the_same_folder_gives_the_same_answer_everywhere(folder):
    found = answers(folder)
    for way, values in found.items():
        np.testing.assert_allclose(values, found["table"][-len(values) :], rtol=1e-5, err_msg=way)
