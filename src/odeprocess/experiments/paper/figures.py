"""Figures of the experiments on series, drawn from finished runs."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from odeprocess.data import load_characters, lotka_volterra
from odeprocess.experiments.result_files import read_run, run_folder
from odeprocess.posterior.model import Model
from odeprocess.posterior.plots import COLOURS, INK, TRUTH, plot_posterior, plt

from .active_learning import run_queries
from .data_splits import shuffle_letters

NP, NDP = COLOURS[1], COLOURS[0]
SHADES = {"np (1000 epochs)": NP, "ndp (1000 epochs)": NDP}
SHADES |= {"np": NP, "np-residual": "#d9a066", "ndp": NDP, "nd2p": COLOURS[2], "ndp-l": COLOURS[3], "nd2p-l": COLOURS[4]}


@dataclasses.dataclass(frozen=True)
class Runs:
    """The finished runs behind a record."""

    out: Path
    record: dict[str, Any]

    def key(self, task: str, variant: str) -> str:
        """The run of a variant on a task; raises `KeyError` where there is none."""
        found = [key for key, what in self.record["runs"].items() if what == [task, variant] and not key.startswith("queries-")]
        if not found:
            raise KeyError(f"{task}, {variant}")
        return found[0]

    def run(self, task: str, variant: str) -> dict[str, Any]:
        """The content of that run's file."""
        done = read_run(self.out, self.key(task, variant))
        if done is None:
            raise KeyError(f"{task}, {variant}")
        return done

    def model(self, task: str, variant: str) -> Model:
        """The model of that run's best seed."""
        run = self.run(task, variant)
        return Model.load(run_folder(self.out, self.key(task, variant)) / f"model-{run['best']}")


def draw_curves(runs: Runs, ax: Any, task: str, variants: dict[str, tuple[str, Any]], unit: float) -> None:
    """Draws test errors by epoch, mean and standard error over seeds; `variants` maps names to labels and colours."""
    for variant, (label, colour) in variants.items():
        curve = runs.run(task, variant)["curve"]
        epoch, mse = np.array(curve["epoch"]), np.array(curve["mse"], float) / unit
        mean = np.nanmean(mse, 1)
        ax.plot(epoch, mean, color=colour, linewidth=1.6, label=label)
        if mse.shape[1] > 1:
            stderr = np.nanstd(mse, 1, ddof=1) / mse.shape[1] ** 0.5
            ax.fill_between(epoch, mean - stderr, mean + stderr, color=colour, alpha=0.18, linewidth=0)
    ax.set(yscale="log", xlabel="epoch", xlim=(0, None))
    label_log_axis(ax)
    ax.grid(True, which="major", axis="y", color="#e4e7eb", linewidth=0.7)
    ax.spines[["top", "right"]].set_visible(False)


def label_log_axis(ax: Any) -> None:
    """Labels a logarithmic axis with a few numbers in decimal notation."""
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def format_unit(unit: float) -> str:
    """The label of an error axis with its unit, such as test MSE ×10⁻²."""
    power = str(-round(math.log10(unit))).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"test MSE ×10⁻{power}"


def draw_training_curves(runs: Runs, names: dict[str, str]) -> Any:
    """Training curves: a panel for each task with all its variants."""
    if not any(variant in names for _, variant in runs.record["runs"].values()):
        raise KeyError(f"There are no runs of {', '.join(names)}.")
    tasks = list(dict.fromkeys(task for task, _ in runs.record["runs"].values()))
    figure, axes = plt.subplots(1, len(tasks), figsize=(max(4.2, 3.1 * len(tasks)), 3.0), layout="constrained", squeeze=False)
    for ax, task in zip(axes[0], tasks, strict=True):
        there = [variant for name, variant in runs.record["runs"].values() if name == task and variant in names]
        shades = {v: SHADES.get(v) or plt.get_cmap("viridis")(i / max(1, len(there) - 1)) for i, v in enumerate(there)}
        draw_curves(runs, ax, task, {v: (names[v], shades[v]) for v in there}, runs.record["unit"])
        ax.set_title(task, fontsize=11)
    axes[0, 0].set_ylabel(format_unit(runs.record["unit"]))
    axes[0, -1].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def draw_sines(runs: Runs) -> Any:
    """Posteriors of NP and NDP for one sine after 1, 4 and 10 observations, and their training curves."""
    figure = plt.figure(figsize=(12.5, 4.8), layout="constrained")
    grid = figure.add_gridspec(2, 4, width_ratios=(1, 1, 1, 1.1))
    t = np.linspace(-np.pi, np.pi, 150)
    at = np.array([-np.pi, 0.6, 2.2, -1.3, 1.4, -0.4, 2.9, -2.0, 0.1, 1.9])
    for row, (name, colour) in enumerate((("np", NP), ("ndp", NDP))):
        model = runs.model("sines", name)
        for column, count in enumerate((1, 4, 10)):
            ax = figure.add_subplot(grid[row, column])
            posterior = model.condition(at[:count], 0.85 * np.sin(at[:count] - 0.25), key=jr.key(7), draws=128)
            plot_posterior(posterior, t, ax=ax, truth=0.85 * np.sin(t - 0.25), colour=colour)
            ax.set(ylim=(-1.7, 1.7), xticks=[-np.pi, 0, np.pi], xlabel="time" if row else "")
            ax.set_xticklabels(["−π", "0", "π"])
            if row == 0:
                ax.set_title(f"{count} observation{'s' if count > 1 else ''}", fontsize=11)
            if column == 0:
                ax.set_ylabel(name.upper(), fontsize=11)
    ax = figure.add_subplot(grid[:, 3])
    draw_curves(runs, ax, "sines", {"np": ("NP", NP), "ndp": ("NDP", NDP)}, runs.record["unit"])
    ax.set_title("training", fontsize=11)
    ax.set_ylabel(format_unit(runs.record["unit"]))
    ax.legend(frameon=False, fontsize=9)
    return figure


def draw_active_learning(runs: Runs) -> Any:
    """The queries of NP and NDP on one sine, and the error by number of queries."""
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.5), layout="constrained")
    times = np.linspace(-np.pi, np.pi, 100).astype(np.float32)
    truth = (0.85 * np.sin(times - 0.25)).astype(np.float32)
    from odeprocess.data.series import make_series

    one = jax.tree.map(lambda x: jnp.asarray(x[0], None if x.dtype == bool else jnp.float32), make_series(times, truth))
    for ax, (name, colour) in zip(axes, (("np", NP), ("ndp", NDP)), strict=False):
        model = runs.model("sines", name)
        asked = np.asarray(run_queries(model.process, one, jr.key(3), 5, True)[2])[:5]
        at = np.concatenate([[0], asked])
        posterior = model.condition(times[at], truth[at], key=jr.key(7), draws=128)
        plot_posterior(posterior, times, ax=ax, truth=truth, colour=colour)
        for number, place in enumerate(at):
            ax.annotate(str(number), (times[place], truth[place]), (0, 7), textcoords="offset points", ha="center", fontsize=9)
        ax.set_title(f"{name.upper()}: start (0) and five queries, in order", fontsize=11)
        ax.set(ylim=(-1.7, 1.7), ylabel="value" if name == "np" else "")
    styles = {"active": "-", "random": "--"}
    for name, colour in (("np", NP), ("ndp", NDP)):
        for way, style in styles.items():
            rows = [r for r in runs.record["rows"] if r["variant"] == f"{name}, {way}" and r["metric"] == "mse_mean"]
            mean = np.array([r["mean"] for r in rows]) / runs.record["unit"]
            stderr = np.array([r["stderr"] or 0.0 for r in rows]) / runs.record["unit"]
            queries = [r["queries"] for r in rows]
            axes[2].plot(queries, mean, style, color=colour, marker="o", markersize=3, label=f"{name.upper()}, {way}")
            axes[2].fill_between(queries, mean - stderr, mean + stderr, color=colour, alpha=0.15, linewidth=0)
    axes[2].set(yscale="log")
    label_log_axis(axes[2])
    axes[2].set(xlabel="queries", ylabel=format_unit(runs.record["unit"]).replace("test ", ""))
    axes[2].set_title("error after each query", fontsize=11)
    axes[2].spines[["top", "right"]].set_visible(False)
    axes[2].legend(frameon=False, fontsize=8)
    return figure


def draw_lotka_volterra(runs: Runs, draws: int = 50) -> Any:
    """One held-out pair of populations: over time, the conserved quantity, and in phase space with the density of the draws."""
    figure, axes = plt.subplots(2, 3, figsize=(12.5, 6.2), layout="constrained", sharex="col", sharey="col")
    y = lotka_volterra.solve(np.array([[1.7, 0.85]]))[0]
    t = np.linspace(0.0, lotka_volterra.end, len(y)) / lotka_volterra.time_scale
    at = np.sort(np.random.default_rng(0).permutation(len(t))[:30])
    at[0] = 0
    for (left, middle, right), (name, colour) in zip(axes, (("np", NP), ("ndp", NDP)), strict=True):
        model = runs.model("lotka-volterra", f"{name} (1000 epochs)")
        paths = model.condition(t[at], y[at], key=jr.key(7), draws=draws).sample(t, draws, of="function")
        for channel, (label, shade) in enumerate((("prey u", colour), ("predator v", COLOURS[2]))):
            each = paths[..., channel]
            left.fill_between(t, each.min(0), each.max(0), color=shade, alpha=0.2, linewidth=0)
            left.plot(t, each.mean(0), color=shade, linewidth=1.8, label=label)
            left.plot(t, y[:, channel], color=INK, linewidth=1.0, linestyle=":", label="truth" if channel else None)
            left.plot(t[at], y[at, channel], "o", color=INK, markersize=2.5, label="30 observations" if channel else None)
        left.set(ylabel=f"{name.upper()}\npopulation", xlabel="time" if name == "ndp" else "")
        with np.errstate(invalid="ignore"):
            kept = lotka_volterra.conserved(np.maximum(paths, 1e-3))
        middle.fill_between(t, kept.min(0), kept.max(0), color=colour, alpha=0.2, linewidth=0)
        middle.plot(t, kept.mean(0), color=colour, linewidth=1.8)
        middle.plot(t, lotka_volterra.conserved(y), color=INK, linewidth=1.0, linestyle=":")
        middle.set(ylabel="conserved quantity V", xlabel="time" if name == "ndp" else "")
        _shade_density(right, paths, colour)
        right.plot(paths[0, :, 0], paths[0, :, 1], color=colour, linewidth=1.0, linestyle="--", label="one draw")
        right.plot(paths[..., 0].mean(0), paths[..., 1].mean(0), color=colour, linewidth=1.8, label="mean")
        right.plot(y[:, 0], y[:, 1], color=INK, linewidth=1.2, linestyle=":", label="truth")
        right.set(ylabel="predator v", xlabel="prey u" if name == "ndp" else "")
        right.legend(frameon=False, fontsize=8, loc="upper right")
    axes[0, 0].legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    axes[0, 0].set_ylim(0, 1.35 * y.max())
    for ax, title in zip(axes[0], ("populations", "conserved quantity", "phase space"), strict=True):
        ax.set_title(title, fontsize=11)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _shade_density(ax: Any, paths: np.ndarray, colour: str) -> None:
    """Shades a kernel density estimate of the draws."""
    from matplotlib.colors import LinearSegmentedColormap
    from scipy.stats import gaussian_kde

    points = paths[:, ::4].reshape(-1, 2).T
    low, high = points.min(1) - 0.1, points.max(1) + 0.1
    u, v = np.meshgrid(np.linspace(low[0], high[0], 70), np.linspace(low[1], high[1], 70))
    density = gaussian_kde(points, 0.07)(np.stack([u.ravel(), v.ravel()])).reshape(u.shape)
    shade = LinearSegmentedColormap.from_list("", ["white", colour])
    ax.contourf(u, v, np.sqrt(density), levels=12, cmap=shade, alpha=0.55)


def draw_letters(runs: Runs, counts: tuple[int, ...] = (1, 3, 10, 20, 50, 100)) -> Any:
    """A held-out letter “a”, predicted by NP and NDP from 1 to 100 of its points."""
    characters = load_characters()
    test = shuffle_letters(len(characters))[:400]
    chosen = test[characters.letters[test] == "a"][0]
    series = characters.series[chosen : chosen + 1]
    there = np.asarray(series.observed[0])
    t, y = np.asarray(series.t[0])[there], np.asarray(series.y[0])[there]
    order = np.concatenate([[0], 1 + np.random.default_rng(1).permutation(len(t) - 1)])
    figure, axes = plt.subplots(2, len(counts), figsize=(2.0 * len(counts), 3.2), layout="constrained", sharex=True, sharey=True)
    for row, (name, colour) in zip(axes, (("np", NP), ("ndp", NDP)), strict=True):
        model = runs.model("handwriting", name)
        for ax, count in zip(row, counts, strict=True):
            at = order[:count]
            paths = model.condition(t[at], y[at], key=jr.key(7)).sample(t, 10, of="function")
            ax.plot(y[:, 0], y[:, 1], color=TRUTH, linewidth=1.0, linestyle=":")
            for path in paths:
                ax.plot(path[:, 0], path[:, 1], color=colour, linewidth=0.8, alpha=0.55)
            ax.plot(y[at, 0], y[at, 1], "o", color=INK, markersize=2.2)
            ax.set(xticks=[], yticks=[], aspect="equal")
            ax.set_title(f"{count} point{'s' if count > 1 else ''}" if name == "np" else "", fontsize=10)
        row[0].set_ylabel(name.upper(), fontsize=11)
    return figure
