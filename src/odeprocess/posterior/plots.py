"""Pictures of posteriors (needs the `plots` extra). Names that somebody chose are no mathematics, whatever `$` they hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common.display_names import readable

from .posterior import Posterior

try:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("Pictures need matplotlib: pip install 'odeprocess[plots]'.") from error

INK, TRUTH = "#1b1f24", "#6a737d"
COLOURS = ("#0b6e99", "#c2571a", "#3d7d3a", "#8a4f9e", "#a8323e")


def plot_posterior(
    posterior: Posterior,
    times: Any,
    *,
    ax: Axes | None = None,
    channel: int = 0,
    level: float = 0.9,
    draws: int = 20,
    truth: Any = None,
    colour: str = COLOURS[0],
    labels: bool = True,
) -> Axes:
    """Draws one channel of one series' posterior: trajectories, their mean, the interval of the function, observations.

    Arguments:
        posterior: of one series; `posterior[i]` picks one of a batch.
        times: where to draw, in order.
        ax: axes to draw on; new ones by default.
        channel: which channel.
        level: of the shaded interval.
        draws: how many trajectories are shown.
        truth: the true values at `times`, if known.
        colour: of everything but the truth and the observations.
        labels: whether the parts are named for a legend.
    """
    if not posterior.record.single:
        raise ValueError(f"{posterior!r} is a batch; plot one series of it: plot_posterior(posterior[0], …).")
    t = np.asarray(times, np.float64)
    ax = plt.subplots(figsize=(6, 3.6), layout="constrained")[1] if ax is None else ax

    def name(text: str) -> str | None:
        return text if labels else None

    low, high = (x[:, channel] for x in posterior.interval(t, level, of="function"))
    ax.fill_between(t, low, high, color=colour, alpha=0.16, linewidth=0, label=name(f"{level:.0%} interval"))
    for i, path in enumerate(posterior.sample(t, draws, of="function")[..., channel]):
        ax.plot(t, path, color=colour, alpha=0.35, linewidth=0.7, label=name("draws") if i == 0 else None)
    ax.plot(t, posterior.mean(t)[:, channel], color=colour, linewidth=2.2, label=name("mean"))
    if truth is not None:
        ax.plot(t, truth, color=TRUTH, linewidth=1.4, linestyle=(0, (4, 2)), label=name("truth"))
    at, seen = posterior.record.observations()
    ax.plot(
        at,
        seen[:, channel],
        "o",
        color=INK,
        markersize=4.5,
        markeredgecolor="white",
        zorder=5,
        clip_on=False,
        label=name("observations"),
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.set(xlim=(t.min(), t.max()), xlabel="time")
    return ax


def plot_table(predicted: Any, observed: Any, series: str, time: str, values: Sequence[str]) -> Figure:
    """Draws predictions of a `Forecaster`: a row of panels for each variable, a panel for each series.

    Arguments:
        predicted: a long Arrow table of predictions, with columns `variable`, `mean`, `q0.05` and `q0.95`.
        observed: an Arrow table of the rows that were given.
        series: the column of both that names the series.
        time: the column of both that holds the times.
        values: the columns of `observed` that hold what was measured.
    """
    names = predicted.column(series).unique().to_pylist()
    wide = min(len(names), 3)
    deep = -(-len(names) // wide)
    shape = {"nrows": deep * len(values), "ncols": wide, "squeeze": False, "sharex": True, "layout": "constrained"}
    figure, axes = plt.subplots(figsize=(1 + 3.2 * wide, 0.6 + 2.2 * deep * len(values)), **shape)
    who, what = (np.array(predicted.column(name).to_pylist(), object) for name in (series, "variable"))
    given, lines = np.array(observed.column(series).to_pylist(), object), {}
    for name in (time, "mean", "q0.05", "q0.95"):
        lines[name] = predicted.column(name).to_numpy()
    for j, value in enumerate(values):
        for i, name in enumerate(names):
            ax, here = axes[j * deep + i // wide, i % wide], (who == name) & (what == value)
            t, mean, low, high = (lines[k][here] for k in (time, "mean", "q0.05", "q0.95"))
            order = np.argsort(t)
            ax.fill_between(t[order], low[order], high[order], color=COLOURS[j % 5], alpha=0.16, linewidth=0)
            ax.plot(t[order], mean[order], color=COLOURS[j % 5], linewidth=2.0)
            rows = given == name
            ax.plot(observed.column(time).to_numpy()[rows], observed.column(value).to_numpy()[rows], "o", color=INK, markersize=4)
            ax.set_title(readable(str(name)), fontsize=9, parse_math=False)
            ax.spines[["top", "right"]].set_visible(False)
        axes[j * deep, 0].set_ylabel(readable(value), parse_math=False)
    for ax in axes.flat:
        ax.set_visible(bool(ax.lines))
    for ax in axes[-1]:
        ax.set_xlabel(readable(time), parse_math=False)
    return figure
