"""Theophylline in the blood of twelve subjects, of whom each is left out in turn.

Eleven subjects teach how the drug comes and goes; dose and weight are known for all. Of the twelfth, three samples of the
first hour are given, and the remaining day is forecast. Data: R's `Theoph`.
"""

import time

import pandas as pd
from _compare import Scores, ask, draw_forecasts, run_options, save

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline

COLUMNS = {"series": "series", "time": "t", "values": "y1", "static": ["dose", "wt"]}
CONTEXT = 3
LABELS = {"t": "hours after the dose", "y1": "theophylline, mg/l"}


def main() -> None:
    """Trains twelve times, scores, and draws six of the subjects that were left out."""
    run = run_options(__doc__)
    table = pd.read_csv(odp.data.table_path("theophylline"))
    subjects = table["series"].unique()[: 1 if run.quick else None]
    began, parts = time.process_time(), []
    for subject in subjects:
        train, test = table[table["series"] != subject], table[table["series"] == subject]
        train = run.cut(train, "series")
        forecaster = odp.Forecaster(**run.options).fit(train, **COLUMNS)
        parts.append((forecaster, train, test, Scores.of(forecaster, train, test, CONTEXT, "forecast")))
        print(f"subject {subject}: CRPS {parts[-1][-1].ours['crps'].item():.2f}")
    scores = Scores.joined([part[-1] for part in parts])
    scores.report("theophylline", "The rest of the day, given three samples", run, time.process_time() - began)

    panels = []
    for subject, (forecaster, train, test, _) in zip(subjects[:6], parts, strict=False):
        baseline = GaussianProcessBaseline.from_training_table(forecaster, train, transformed=scores.transformed)
        panels += ask(forecaster, baseline, test, CONTEXT, 25.0, f"subject {subject}, left out")
    figure = draw_forecasts(panels, "t", LABELS)
    save(figure, run.out / "theophylline.png")


if __name__ == "__main__":
    main()
