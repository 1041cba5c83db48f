"""Handwritten letters: the path of the pen, predicted from ten of its points.

A series is one letter, its two variables are the position of the pen at 30 random times. Ten points of a held-out letter are
given, but not which letter it is; the points between them are predicted. Data: CharacterTrajectories.
"""

import time
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from _compare import OURS, THEIRS, Run, Scores, run_options, save

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline
from odeprocess.posterior.plots import COLOURS, INK

LETTERS, CONTEXT, POINTS = "aegmsw", 10, 30


def load_letters(each: int) -> Any:
    """The first letters of each kind as a long table."""
    found, rng, frames = odp.data.load_characters(), np.random.default_rng(0), []
    for kind in LETTERS:
        for i in np.flatnonzero(found.letters == kind)[:each]:
            length = int(np.asarray(found.series.observed[i]).sum())
            kept = np.sort(rng.choice(length, POINTS, replace=False))
            t, y = np.asarray(found.series.t[i])[kept], np.asarray(found.series.y[i])[kept]
            frames.append(pd.DataFrame({"id": i, "kind": kind, "t": t, "x": y[:, 0], "y": y[:, 1]}))
    return pd.concat(frames, ignore_index=True)


def draw(forecaster: odp.Forecaster, baseline: GaussianProcessBaseline, test: Any, run: Run) -> None:
    """Draws a letter of each kind: the whole stroke, ten points of it, and both predictions."""
    chosen = test[test["id"].isin(test.groupby("kind")["id"].first())]
    given = chosen.groupby("id").sample(CONTEXT, random_state=4).sort_values(["id", "t"])
    figure, axes = plt.subplots(2, len(LETTERS), figsize=(11, 3.8), sharex="col", sharey="col", layout="constrained")
    for column, (name, rows) in enumerate(chosen.groupby("id", sort=False)):
        points = given[given["id"] == name]
        times = np.linspace(rows["t"].min(), rows["t"].max(), 120)
        drawn = forecaster.sample(points, times, 8, of="function").pivot(index=["draw", "t"], columns="variable", values="value")
        theirs = baseline.predict(points, times).pivot(index="t", columns="variable", values="q0.5")
        for ax, paths, colour in ((axes[0, column], drawn, COLOURS[0]), (axes[1, column], theirs, COLOURS[1])):
            for _, path in paths.groupby("draw") if "draw" in paths.index.names else [(0, paths)]:
                ax.plot(path["x"], path["y"], color=colour, alpha=0.5 if ax is axes[0, column] else 1.0, linewidth=1.2)
            ax.plot(rows["x"], rows["y"], ".", color="#9aa3ad", markersize=3)
            ax.plot(points["x"], points["y"], "o", color=INK, markersize=4)
            ax.set(aspect="equal", xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
        axes[0, column].set_title(f"“{rows['kind'].iloc[0]}”", fontsize=11)
    axes[0, 0].set_ylabel(f"{OURS},\neight draws", fontsize=9)
    axes[1, 0].set_ylabel(f"{THEIRS},\nmedian", fontsize=9)
    figure.suptitle("Letters from ten points each (black; grey: the points to predict)", fontsize=11)
    save(figure, run.out / "handwriting.png")


def main() -> None:
    """Trains on 300 letters of six kinds, scores on 60 others, and draws one of each kind."""
    run = run_options(__doc__)
    table = load_letters(2 if run.quick else 60)
    place = table.groupby("kind")["id"].rank(method="dense")
    out = place <= (1 if run.quick else 10)
    train, test = run.cut(table[~out], "id"), run.cut(table[out], "id")
    began = time.process_time()
    forecaster = odp.Forecaster(**run.options).fit(train, "id", "t", ["x", "y"], origin="absolute")
    scores = Scores.compute(forecaster, train, test, CONTEXT, "interpolation")
    scores.report("handwriting", "The stroke between ten points", run, time.process_time() - began)
    draw(forecaster, GaussianProcessBaseline.from_training_table(forecaster, train, transformed=scores.transformed), test, run)


if __name__ == "__main__":
    main()
