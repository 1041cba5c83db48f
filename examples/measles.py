"""Measles in English and Welsh towns, 1944 to 1964: one year is given and the next one forecast, in held-out towns.

Epidemics came every other year, so a series is two years of one town, in counts of four weeks. Counts are transformed by a
logarithm, so that intervals stay above zero; the size of the town is a covariate. Data: `twentymeas` of R's package tsiR.
"""

import time
from typing import Any

import numpy as np
import pandas as pd
from _compare import Scores, draw_forecasts, predict_panels, run_options, save

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline

HELD_OUT = ["Bradford", "Cardiff", "Hastings", "Leeds", "Northwich"]
DRAWN = ["Bradford 1948", "Bradford 1954", "Hastings 1948", "Hastings 1954", "Leeds 1948", "Leeds 1954"]
CONTEXT = 13  # counts of four weeks: a year
LABELS = {"years": "years", "cases": "cases in four weeks"}


def cut_into_two_years(table: Any) -> Any:
    """Cuts the record of each town into series of two years, and adds up pairs of fortnights."""
    place = table.groupby("series").cumcount()
    table = table.assign(window=place // 52, count=place % 52 // 2)
    table = table[table["window"] < 10]
    found = table.groupby(["series", "window", "count"], as_index=False).agg(cases=("y1", "sum"), people=("pop", "mean"))
    size = np.log10(found.groupby("series")["people"].transform("mean"))
    begins = 1944 + 2 * found["window"]
    return found.assign(id=found["series"] + " " + begins.astype(str), years=found["count"] / 13, size=size)


def main() -> None:
    """Trains on fifteen towns, scores on five others, and draws some of their epidemics."""
    run = run_options(__doc__)
    table = cut_into_two_years(pd.read_csv(odp.data.table_path("measles")))
    out = table["series"].isin(HELD_OUT)
    train, test = run.cut(table[~out], "id"), run.cut(table[out], "id")
    began = time.process_time()
    forecaster = odp.Forecaster(**run.options).fit(train, "id", "years", "cases", static="size")
    scores = Scores.compute(forecaster, train, test, CONTEXT, "forecast")
    scores.report("measles", "The second year, given the first", run, time.process_time() - began)

    baseline, panels = GaussianProcessBaseline.from_training_table(forecaster, train, transformed=scores.transformed), []
    for name, rows in test.groupby("id"):
        if run.quick or name in DRAWN:
            panels += predict_panels(forecaster, baseline, rows, CONTEXT, 2.0, f"{name} and the year after")
    save(draw_forecasts(panels, "years", LABELS), run.out / "measles.png")


if __name__ == "__main__":
    main()
