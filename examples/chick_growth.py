"""Weights of fifty chicks on four diets: the first week is given, the next two are forecast.

Five-fold cross-validation: each chick is forecast by a model that was not trained on it. The diet is a categorical covariate.
Data: R's `ChickWeight`.
"""

import time

import pandas as pd
from _compare import Scores, draw_forecasts, predict_panels, run_options, save

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline

COLUMNS = {"series": "series", "time": "t", "values": "y1", "static": "diet", "categories": ["diet"]}
CONTEXT, FOLDS = 4, 5
LABELS = {"t": "days since hatching", "y1": "weight, g"}


def main() -> None:
    """Trains and scores once for each fold, and draws chicks of the first fold."""
    run = run_options(__doc__)
    table = pd.read_csv(odp.data.table_path("chick-weight"))
    began, parts = time.process_time(), []
    for fold in range(1 if run.quick else FOLDS):
        out = table["series"] % FOLDS == fold
        train, test = run.cut(table[~out], "series"), run.cut(table[out], "series")
        forecaster = odp.Forecaster(**run.options).fit(train, **COLUMNS)
        parts.append((forecaster, train, test, Scores.compute(forecaster, train, test, CONTEXT, "forecast")))
        print(f"fold {fold + 1}: CRPS {parts[-1][-1].ours['crps'].mean():.1f} g")
    scores = Scores.join([part[-1] for part in parts])
    scores.report("chick_growth", "Days 8 to 21, given the first week", run, time.process_time() - began)

    forecaster, train, test, _ = parts[0]
    baseline, panels = GaussianProcessBaseline.from_training_table(forecaster, train, transformed=scores.transformed), []
    for diet, chicks in test.groupby("diet"):
        for _, chick in list(chicks.groupby("series"))[: 2 if diet in (1, 3) else 1]:
            panels += predict_panels(forecaster, baseline, chick, CONTEXT, 21.0, f"a chick on diet {diet}")
    save(draw_forecasts(panels, "t", LABELS), run.out / "chick_growth.png")


if __name__ == "__main__":
    main()
