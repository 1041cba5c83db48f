"""The picture of what models say, by Matplotlib: drawn here for the page, and by the program that the page saves."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odeprocess.common.display_names import readable

from .predictions import Prediction

DOTS = 200  # an inch of the file


def draw(
    t: np.ndarray,
    y: np.ndarray,
    answers: Mapping[str, Prediction],
    *,
    names: Sequence[str],
    time: str,
    ranges: Sequence[tuple[float, float]],
    level: float,
    shown: int,
) -> Any:
    """Draws, for each model, every channel, and one over the other where there are two.

    Arguments:
        t: times of the observations, `[n]`.
        y: their values, `[n, channels]`, NaN where nothing was measured.
        answers: what each model says, by the title of its column.
        names: what the channels are.
        time: what times are.
        ranges: lowest and highest value shown, for each channel.
        level: of the band.
        shown: how many draws are.

    Returns:
        A Matplotlib figure, which has no part in pyplot's state, so any thread may draw one.
    """
    from matplotlib.figure import Figure

    from odeprocess.posterior.plots import COLOURS, INK

    wide, high = 7.0 if len(answers) == 1 else 4.6, 3.4 if len(names) == 1 else 2.4
    rows = len(names) + (len(names) == 2)
    figure = Figure(figsize=(wide * len(answers), high * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, len(answers), squeeze=False)
    for j, (title, found) in enumerate(answers.items()):
        colour = COLOURS[j % len(COLOURS)]
        for k, name in enumerate(names):
            ax = axes[k, j]
            band, curves = (found.low[:, k], found.high[:, k]), found.draws[:shown, :, k]
            ax.fill_between(found.t, *band, color=colour, alpha=0.16, linewidth=0, label=f"{100 * level:g} % band")
            ax.plot(found.t, curves.T, color=colour, alpha=0.35, linewidth=0.7)
            ax.plot(found.t, found.mean[:, k], color=colour, linewidth=2.2, label="mean")
            ax.plot(t, y[:, k], "o", color=INK, markeredgecolor="white", label="observations", zorder=5)
            ax.set(xlim=(found.t[0], found.t[-1]), ylim=ranges[k])
            _name(ax, time if k == len(names) - 1 else "", name)
        axes[0, j].set_title(readable(title), loc="left", color=colour, fontsize=11, parse_math=False)
        if len(names) == 2:
            ax = axes[2, j]
            ax.plot(found.draws[:shown, :, 0].T, found.draws[:shown, :, 1].T, color=colour, alpha=0.35, linewidth=0.7)
            ax.plot(found.mean[:, 0], found.mean[:, 1], color=colour, linewidth=2.2)
            ax.plot(y[:, 0], y[:, 1], "o", color=INK, markeredgecolor="white", zorder=5)
            ax.set(xlim=ranges[0], ylim=ranges[1])
            _name(ax, *names)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def png(figure: Any) -> bytes:
    """A picture as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, dpi=DOTS, format="png")
    return file.getvalue()


def _name(ax: Any, across: str, upwards: str) -> None:
    """Names both axes by what somebody chose, in which a `$` is a dollar."""
    ax.set_xlabel(readable(across), parse_math=False)
    ax.set_ylabel(readable(upwards), parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
