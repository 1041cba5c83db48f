"""Theophylline in the blood of twelve subjects: leave-one-subject-out forecasts.

The model is trained on eleven subjects, with dose and weight as covariates. Three samples of the first hour of the twelfth are
given, and the rest of the day is forecast. Data: R's `Theoph`.
"""

import time

import pandas as pd
from _compare import Scores, draw_forecasts, predict_panels, run_options, save

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline

COLUMNS = {"series": "series", "time": "t", "values": "y1", "static": ["dose", "wt"]}
CONTEXT = 3
LABELS = {"t": "hours after the dose", "y1": "theophylline, mg/l"}


def main() -> None:
    """Trains and scores twelve times, and draws six of the held-out subjects."""
    run = run_options(__doc__)
    table = pd.read_csv(odp.data.table_path("theophylline"))
    subjects = table["series"].unique()[: 1 if run.quick else None]
    began, parts = time.process_time(), []
    for subject in subjects:
        train, test = table[table["series"] != subject], table[table["series"] == subject]
        train = run.cut(train, "series")
        forecaster = odp.Forecaster(**run.options).fit(train, **COLUMNS)
        parts.append((forecaster, train, test, Scores.compute(forecaster, train, test, CONTEXT, "forecast")))
        print(f"subject {subject}: CRPS {parts[-1][-1].ours['crps'].item():.2f}")
    scores = Scores.join([part[-1] for part in parts])
    scores.report("theophylline", "The rest of the day, given three samples", run, time.process_time() - began)

    panels = []
    for subject, (forecaster, train, test, _) in zip(subjects[:6], parts, strict=False):
        baseline = GaussianProcessBaseline.from_training_table(forecaster, train, transformed=scores.transformed)
        panels += predict_panels(forecaster, baseline, test, CONTEXT, 25.0, f"subject {subject}, left out")
    figure = draw_forecasts(panels, "t", LABELS)
    save(figure, run.out / "theophylline.png")


if __name__ == "__main__":
    main()
