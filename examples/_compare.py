"""Helpers of the worked examples: command-line options, the table of scores, and the figure of forecasts."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import odeprocess as odp
from odeprocess.experiments.baselines.gaussian_processes_on_tables import GaussianProcessBaseline, score_gaussian_processes
from odeprocess.experiments.result_files import read_json, write_json
from odeprocess.posterior.plots import COLOURS, INK

ROOT = Path(__file__).parent.parent
SCORES = ("mse", "nll", "crps", "coverage")
OURS, THEIRS = "odeprocess", "Gaussian process"
QUICK = {
    "model": "ndp-skip",
    "options": {"epochs": 1, "em_epochs": 0},
    "held_out": 0,
    "draws": 8,
    "inference": "amortised",
    "sizes": {"l_dim": 2, "z_dim": 4, "h_dim": 8, "r_dim": 8},
}


class Run(NamedTuple):
    """Options of an example: whether it is a rehearsal of seconds, the folder of its figure, and options of the forecaster."""

    quick: bool
    out: Path
    options: dict[str, Any]

    def cut(self, table: Any, series: str) -> Any:
        """The table; in a rehearsal its first two series."""
        return table[table[series].isin(table[series].unique()[:2])] if self.quick else table


def run_options(description: str | None) -> Run:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a rehearsal of seconds; its numbers mean nothing")
    parser.add_argument("--out", type=Path, help="folder of the figure; docs/gallery, or build/gallery with --quick")
    found = parser.parse_args()
    out = found.out or ROOT / ("build" if found.quick else "docs") / "gallery"
    out.mkdir(parents=True, exist_ok=True)
    return Run(found.quick, out, QUICK if found.quick else {})


class Scores(NamedTuple):
    """Scores of held-out series, a row for each: ours, and those of Gaussian processes fitted to each series."""

    ours: Any
    theirs: Any

    @classmethod
    def compute(cls, forecaster: odp.Forecaster, train: Any, test: Any, context: int, split: str) -> "Scores":
        """Gives both the same rows of each series, and scores their predictions of the others."""
        ours = forecaster.evaluate(test, context, split, by="series")
        return cls(ours, score_gaussian_processes(forecaster, train, test, context, split))

    @classmethod
    def join(cls, parts: Sequence["Scores"]) -> "Scores":
        """Joins the scores of several held-out sets."""
        return cls(*(pd.concat(x, ignore_index=True) for x in zip(*parts, strict=True)))

    @property
    def transformed(self) -> bool:
        """Whether the baseline has the lower CRPS on transformed values."""
        return bool(self.theirs.groupby("transformed")["crps"].mean().idxmin())

    @property
    def baseline(self) -> Any:
        """The scores of the better baseline."""
        return self.theirs[self.theirs["transformed"] == self.transformed]

    def report(self, name: str, title: str, run: Run, seconds: float) -> None:
        """Prints means over series with the paired difference, and writes them to results/examples.json and for the page."""
        table = Table(title=title)
        for column in ("", *SCORES):
            table.add_column(column, justify="left" if not column else "right")
        rows: dict[str, Any] = {"title": title, "series": len(self.ours), "seconds of all cores": round(seconds, 1)}
        for label, scores in ((OURS, self.ours), (THEIRS, self.baseline)):
            rows[label] = {score: float(scores[score].mean()) for score in SCORES}
            table.add_row(label, *(f"{value:.3g}" for value in rows[label].values()))
        apart = self.ours[list(SCORES)].to_numpy() - self.baseline[list(SCORES)].to_numpy()
        error = apart.std(0, ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else np.full(len(SCORES), np.nan)
        rows["difference"] = {s: [float(m), float(e)] for s, m, e in zip(SCORES, apart.mean(0), error, strict=True)}
        table.add_row("difference", *(f"{mean:+.3g} ± {e:.2g}" for mean, e in rows["difference"].values()))
        Console().print(table)
        if not run.quick:
            path = ROOT / "results" / "examples.json"
            write_json(path, {**(read_json(path) or {}), name: rows})
            (run.out / f"{name}.txt").write_text(format_for_page(rows))


def format_for_page(rows: dict[str, Any]) -> str:
    """The table of scores in Markdown, for the gallery."""
    lines = [f"| {rows['title']} | MSE | NLL | CRPS | 90 % intervals hold |", "|---|---|---|---|---|"]
    for label in (OURS, THEIRS):
        mse, nll, crps, coverage = rows[label].values()
        lines.append(f"| {label} | {mse:.3g} | {nll:.3g} | {crps:.3g} | {coverage:.0%} |")
    return "\n".join(lines) + "\n"


class Panel(NamedTuple):
    """One panel of a figure: a variable of a series, its rows, the given ones, and both predictions."""

    title: str
    variable: str
    rows: Any
    given: Any
    ours: Any
    theirs: Any


def predict_panels(
    forecaster: odp.Forecaster, baseline: GaussianProcessBaseline, table: Any, context: int, until: float, title: str
) -> list[Panel]:
    """Predicts one series with both after its first rows; returns a panel for each variable.

    Arguments:
        forecaster: our model.
        baseline: the Gaussian processes.
        table: the whole series.
        context: how many rows are given.
        until: end of the horizontal axis, counted from the first row.
        title: of the panels; `{}` is replaced by the variable.
    """
    columns, grid = forecaster.layout_.columns, np.linspace(0.0, until, 160)
    rows = table.sort_values(columns.time)
    given = rows.head(context)
    both = forecaster.predict(given, grid), baseline.predict(given, grid)
    return [
        Panel(title.format(name), name, rows, given, *(found[found["variable"] == name] for found in both))
        for name in columns.values
    ]


def draw_forecasts(panels: Sequence[Panel], time: str, labels: dict[str, str], wide: int = 3) -> Figure:
    """Draws panels, `wide` in a row; `labels` holds the labels of axes by column."""
    deep = -(-len(panels) // wide)
    figure, axes = plt.subplots(
        deep, wide, figsize=(max(3.3 * wide, 9.0), 0.7 + 2.4 * deep), squeeze=False, sharex=True, layout="constrained"
    )
    for i, (ax, panel) in enumerate(zip(axes.flat, panels, strict=False)):
        for found, colour, label, style in ((panel.theirs, COLOURS[1], THEIRS, "--"), (panel.ours, COLOURS[0], OURS, "-")):
            t, low, mid, high = (found[column].to_numpy() for column in (time, "q0.05", "q0.5", "q0.95"))
            ax.fill_between(t, low, high, color=colour, alpha=0.16, linewidth=0)
            ax.plot(t, mid, style, color=colour, linewidth=1.8, label=f"{label}, 90 % interval")
        ax.plot(panel.rows[time], panel.rows[panel.variable], "o", mfc="white", mec=INK, markersize=4.5, label="held out")
        ax.plot(panel.given[time], panel.given[panel.variable], "o", color=INK, markersize=4.5, label="given")
        ends = np.r_[panel.rows[panel.variable].dropna(), panel.ours["q0.05"], panel.ours["q0.95"]]
        room = 0.06 * (ends.max() - ends.min())
        ax.set_ylim(ends.min() - room, ends.max() + room)
        ax.set_title(panel.title, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        if i % wide == 0 or panel.variable != panels[i - 1].variable:
            ax.set_ylabel(labels[panel.variable])
        ax.locator_params(axis="x", nbins=6, steps=[1, 2, 5, 10])
        if i + wide >= len(panels):
            ax.set_xlabel(labels[time])
            ax.tick_params(labelbottom=True)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as a small file: a palette of 128 colours is enough for lines and bands."""
    from PIL import Image

    figure.savefig(path, dpi=110)
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(128)
    small.save(path, optimize=True)
    print(f"Wrote {path}")
