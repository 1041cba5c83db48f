"""The Brusselator: two reacting species, measured at irregular times, often only one of them.

Missing cells stay empty; nothing is imputed. A species without a measurement is inferred from the other. Data: BXLator of
the repository edebrouwer/gru_ode_bayes.
"""

import time

import pandas as pd
from _compare import Scores, draw_forecasts, predict_panels, run_options, save

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline

TRAIN, TEST, CONTEXT = 300, 60, 12
LABELS = {"Time": "time", "Value_1": "species 1", "Value_2": "species 2"}


def main() -> None:
    """Trains on 300 series, scores on 60 others, and draws three of them."""
    run = run_options(__doc__)
    table = pd.read_csv(odp.data.table_path("brusselator"))
    for k in (1, 2):
        table[f"Value_{k}"] = table[f"Value_{k}"].where(table[f"Mask_{k}"] == 1)
    table["ID"] = table["ID"].astype(int)
    train, test = run.cut(table[table["ID"] < TRAIN], "ID"), run.cut(table[table["ID"] >= 1000 - TEST], "ID")

    began = time.process_time()
    forecaster = odp.Forecaster(**run.options).fit(train, "ID", "Time", ["Value_1", "Value_2"])
    scores = Scores.compute(forecaster, train, test, CONTEXT, "forecast")
    scores.report("brusselator", "Everything after the first twelve rows", run, time.process_time() - began)

    baseline = GaussianProcessBaseline.from_training_table(forecaster, train, transformed=scores.transformed)
    each = sorted((rows for _, rows in test.groupby("ID")), key=len)[-3:]
    asked = [predict_panels(forecaster, baseline, rows, CONTEXT, 50.0, "{}") for rows in each]
    panels = [panels[j]._replace(title=f"series {rows['ID'].iloc[0]}, {LABELS[panels[j].variable]}")
              for j in range(2) for rows, panels in zip(each, asked, strict=True)]  # fmt: skip
    save(draw_forecasts(panels, "Time", LABELS, wide=len(each)), run.out / "brusselator.png")


if __name__ == "__main__":
    main()
