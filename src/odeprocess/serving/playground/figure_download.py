"""The figure of predictions by Matplotlib: for the download of the page, and in the programs that it offers for download."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odeprocess.common.display_names import readable

from .predictions import Prediction

DPI = 200  # dots per inch of the PNG file; chosen by hand


def draw_figure(
    t: np.ndarray,
    y: np.ndarray,
    predictions: Mapping[str, Prediction],
    *,
    names: Sequence[str],
    time: str,
    ranges: Sequence[tuple[float, float]],
    level: float,
    num_draws: int,
) -> Any:
    """Draws each model in a column: every channel, and the phase portrait where there are two.

    Arguments:
        t: times of the observations, `[n]`.
        y: their values, `[n, channels]`, NaN where nothing was measured.
        predictions: of each model, by the title of its column.
        names: the labels of the channels.
        time: the label of times.
        ranges: lowest and highest value shown, for each channel.
        level: the probability that the band holds.
        num_draws: how many draws are shown.

    Returns:
        A Matplotlib figure, made without pyplot, so that any thread can draw one.
    """
    from matplotlib.figure import Figure

    from odeprocess.posterior.plots import COLOURS, INK

    wide, high = 7.0 if len(predictions) == 1 else 4.6, 3.4 if len(names) == 1 else 2.4
    rows = len(names) + (len(names) == 2)
    figure = Figure(figsize=(wide * len(predictions), high * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, len(predictions), squeeze=False)
    for j, (title, found) in enumerate(predictions.items()):
        colour = COLOURS[j % len(COLOURS)]
        for k, name in enumerate(names):
            ax = axes[k, j]
            band, curves = (found.low[:, k], found.high[:, k]), found.draws[:num_draws, :, k]
            ax.fill_between(found.t, *band, color=colour, alpha=0.16, linewidth=0, label=f"{100 * level:g} % band")
            ax.plot(found.t, curves.T, color=colour, alpha=0.35, linewidth=0.7)
            ax.plot(found.t, found.mean[:, k], color=colour, linewidth=2.2, label="mean")
            ax.plot(t, y[:, k], "o", color=INK, markeredgecolor="white", label="observations", zorder=5)
            ax.set(xlim=(found.t[0], found.t[-1]), ylim=ranges[k])
            _label(ax, time if k == len(names) - 1 else "", name)
        axes[0, j].set_title(readable(title), loc="left", color=colour, fontsize=11, parse_math=False)
        if len(names) == 2:
            ax = axes[2, j]
            ax.plot(found.draws[:num_draws, :, 0].T, found.draws[:num_draws, :, 1].T, color=colour, alpha=0.35, linewidth=0.7)
            ax.plot(found.mean[:, 0], found.mean[:, 1], color=colour, linewidth=2.2)
            ax.plot(y[:, 0], y[:, 1], "o", color=INK, markeredgecolor="white", zorder=5)
            ax.set(xlim=ranges[0], ylim=ranges[1])
            _label(ax, *names)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def to_png(figure: Any) -> bytes:
    """Returns a figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, dpi=DPI, format="png")
    return file.getvalue()


def _label(ax: Any, across: str, upwards: str) -> None:
    """Labels both axes with names of columns, in which a `$` does not begin mathematics."""
    ax.set_xlabel(readable(across), parse_math=False)
    ax.set_ylabel(readable(upwards), parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
