"""Hares and lynxes of Hudson Bay: trained on simulations of predators and prey, tested on the real record.

One record of 21 years is too short to train on. The model is trained on noisy simulations of the Lotka–Volterra equations with
random rates, then conditioned on the first years of the real record to forecast the others. Data: pelts of the Hudson Bay
Company, in thousands.
"""

import time
from typing import Any

import numpy as np
import pandas as pd
from _compare import Scores, draw_forecasts, predict_panels, run_options, save

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline

CONTEXTS = (8, 10, 12, 14)
LABELS = {"year": "year", "hares": "hares, thousands", "lynxes": "lynxes, thousands"}


def simulate(count: int, years: int, seed: int) -> Any:
    """Simulates populations with rates around those of ten-year cycles, observed with an error of 25 %."""
    rng = np.random.default_rng(seed)
    alpha, gamma = rng.lognormal(np.log(0.6), 0.25, (2, count))
    beta, delta = rng.lognormal(np.log(0.028), 0.25, (2, count))
    system = odp.data.LotkaVolterra(
        alpha=alpha,  # pyright: ignore[reportArgumentType] (one rate for each series)
        beta=beta,  # pyright: ignore[reportArgumentType]
        gamma=gamma,  # pyright: ignore[reportArgumentType]
        delta=delta,  # pyright: ignore[reportArgumentType]
        end=years - 1.0,
        num_points=years,
    )
    start = np.stack([rng.lognormal(np.log(30), 0.6, count), rng.lognormal(np.log(10), 0.8, count)], -1)
    counted = system.solve(start) * rng.lognormal(0.0, 0.25, (count, years, 2))
    columns = {"id": np.repeat(np.arange(count), years), "year": np.tile(np.arange(years), count)}
    return pd.DataFrame({**columns, "hares": counted[..., 0].ravel(), "lynxes": counted[..., 1].ravel()})


def main() -> None:
    """Trains on simulations, scores forecasts of the real record after 8 to 14 years, and draws the one after ten."""
    run = run_options(__doc__)
    real = pd.read_csv(odp.data.table_path("hare-lynx"))
    real = real.rename(columns={"series": "id", "t": "year", "y1": "hares", "y2": "lynxes"})
    began = time.process_time()
    train = simulate(2 if run.quick else 300, len(real), seed=0)
    forecaster = odp.Forecaster(**run.options).fit(train, "id", "year", ["hares", "lynxes"])
    parts = [Scores.compute(forecaster, real, real, context, "forecast") for context in CONTEXTS[: 1 if run.quick else None]]
    scores = Scores.join(parts)
    scores.report("hare_lynx", "The real record, given 8, 10, 12 and 14 years", run, time.process_time() - began)

    baseline = GaussianProcessBaseline.from_training_table(forecaster, real, transformed=scores.transformed)
    panels = predict_panels(forecaster, baseline, real, 10, 20.0, "{} of Hudson Bay, from ten years on")
    save(draw_forecasts(panels, "year", LABELS, wide=2), run.out / "hare_lynx.png")


if __name__ == "__main__":
    main()
