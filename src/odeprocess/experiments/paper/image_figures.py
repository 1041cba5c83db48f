"""Figures of the experiments on images."""

from typing import Any

import numpy as np

from odeprocess.data.tasks import Task
from odeprocess.posterior.plots import INK, plt

from .data_splits import HeldOut, split
from .evaluate import draw_frames
from .figures import NDP, NP, Runs
from .protocol import DIGITS, protocol


def _load_test(task: str) -> HeldOut:
    """The test tasks."""
    return split(protocol(task).replace(copies=1, restarts=1)).tests["test"]  # without more training series than needed


def _select(tasks: Task, index: Any) -> Task:
    points = tasks.points[index]
    return Task(points, tasks.context[index], tasks.target[index])


def draw_strips(runs: Runs, task: str, rows: dict[str, str], digit: int = 3) -> Any:
    """One held-out digit: the truth, the given frames, and each model's prediction, with frames after the times of training."""
    tasks = _select(_load_test(task).tasks, slice(digit, digit + 1))
    true = np.asarray(tasks.points.y[0])
    given = np.asarray(tasks.context[0])
    lines = {"truth": true, "given": np.where(given, true, np.nan)}
    for label, variant in rows.items():
        lines[label] = draw_frames(runs.model(task, variant), tasks)[0]
    count, inside = len(true), DIGITS[task].frames
    removed = DIGITS[task].removed
    figure, axes = plt.subplots(len(lines), count, figsize=(0.56 * count, 0.64 * len(lines) + 0.5))
    top = 1.0 - 0.45 / (0.64 * len(lines) + 0.5)
    figure.subplots_adjust(0.085, 0.01, 0.995, top, wspace=0.06, hspace=0.08)
    for row, (label, images) in zip(axes, lines.items(), strict=True):
        for place, ax in enumerate(row):
            ax.set(xticks=[], yticks=[])
            ax.set_facecolor("#f1f3f5")
            ax.spines[:].set_visible(False)
            if np.isfinite(images[place]).all():
                ax.imshow(images[place].reshape(28, 28), cmap="gray_r", vmin=0, vmax=1)
            else:
                ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        row[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=9)
    for place, ax in enumerate(axes[0]):
        beyond = place >= inside
        colour = NP if beyond else (NDP if place == removed else INK)
        ax.set_title(f"{place / 10:.1f}", fontsize=8, color=colour, pad=2, weight="normal" if colour == INK else "bold")
    note = f"time of the frame; bold orange: beyond training{'; bold blue: removed from training' if removed is not None else ''}"
    figure.text(0.54, 0.995, note, ha="center", va="top", fontsize=9, color=INK)
    return figure


def draw_styles(runs: Runs, task: str, variant: str, digits: int = 8, every: int = 2) -> Any:
    """Held-out digits in different hands: the truth on the left, the model's prediction on the right."""
    test = _load_test(task)
    inside = np.flatnonzero(test.groups[""])[::every]
    tasks = _select(test.tasks, slice(10, 10 + digits))
    drawn, true = draw_frames(runs.model(task, variant), tasks), np.asarray(tasks.points.y)
    figure, axes = plt.subplots(
        digits, 2 * len(inside) + 1, figsize=(0.42 * (2 * len(inside) + 1), 0.44 * digits + 0.3), layout=None
    )
    figure.subplots_adjust(0.005, 0.005, 0.995, 0.93, wspace=0.05, hspace=0.05)
    for i, row in enumerate(axes):
        for ax in row:
            ax.axis("off")
        for column, place in enumerate(inside):
            row[column].imshow(true[i, place].reshape(28, 28), cmap="gray_r", vmin=0, vmax=1)
            row[column + len(inside) + 1].imshow(drawn[i, place].reshape(28, 28), cmap="gray_r", vmin=0, vmax=1)
    figure.text(0.25, 0.955, "truth", ha="center", fontsize=9)
    figure.text(0.75, 0.955, "NDP, given five frames", ha="center", fontsize=9)
    return figure
