"""Pictures of posteriors (needs the `plots` extra)."""

from typing import Any

import numpy as np

from .posterior import Posterior

try:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes
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
