"""The demo: a neural process and a neural ODE process on sines, by the paper's protocol.

Trains both with five seeds at once, scores them on 1000 fresh series, prints a table, and leaves a picture, a saved
model and the numbers in `demo/`.
"""

import json
from pathlib import Path

import jax
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import odeprocess as odp
from odeprocess.posterior.plots import COLOURS, plot_posterior

OUT = Path("demo")
SEEDS = (0, 1, 2, 3, 4)
ROWS = {"np": "neural process (NP)", "ndp": "neural ODE process (NDP)"}
sines = odp.experiments.protocol("sines")
one_draw_error = jax.jit(lambda process, tasks: odp.score_all(process, tasks, draws=1, key=jr.key(2)).mse_one.mean())


def train(console: Console) -> tuple[dict[str, odp.Fit], dict[str, dict]]:
    """Trains and scores both models."""
    series, fresh = sines.series(sines.train, key=jr.key(0)), sines.series(1000, key=jr.key(1))
    tasks = sines.test_tasks(fresh, key=jr.key(3))
    fits, summary = {}, {}
    for name, title in ROWS.items():
        with console.status(f"Compiling and training the {title}, {len(SEEDS)} seeds at once …"):
            fits[name] = fit = sines.fit(name, series, seeds=SEEDS)
            errors = [float(one_draw_error(model.process, tasks)) for model in fit.models if model is not None]
        summary[name] = {
            "mse": float(np.mean(errors)),
            "mse_stderr": float(np.std(errors, ddof=1) / len(errors) ** 0.5),
            "train_seconds": fit.train_seconds,
            "compile_seconds": fit.compile_seconds,
            "parameters": fit.model.num_parameters,
            "seeds": len(errors),
            "epochs": sines.epochs,
        }
    return fits, summary


def show(console: Console, summary: dict[str, dict]) -> None:
    """Prints the table."""
    table = Table(title=f"Sines, {sines.epochs} epochs, {len(SEEDS)} seeds: error given 10 observations")
    for column in ("model", "parameters", "MSE × 100", "paper", "compile", "train"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for name, paper in zip(ROWS, ("5.93 ± 0.96", "2.09 ± 0.12"), strict=True):
        row = summary[name]
        error = f"{100 * row['mse']:.2f} ± {100 * row['mse_stderr']:.2f}"
        seconds = f"{row['compile_seconds']:.1f} s", f"{row['train_seconds']:.1f} s"
        table.add_row(name.upper(), str(row["parameters"]), error, paper, *seconds)
    console.print(table)
    console.print("One latent draw, all points scored, mean ± standard error; training time is that of all seeds together.")
    ratio = summary["ndp"]["train_seconds"] / summary["np"]["train_seconds"]
    console.print(f"Training the NDP took {ratio:.1f} times as long as the NP (paper: 22).")


def draw(fits: dict[str, odp.Fit], path: Path) -> None:
    """Draws both posteriors after 1, 3 and 10 observations of a series that neither has seen."""
    t = np.linspace(-np.pi, np.pi, 200)
    truth = 0.85 * np.sin(t - 0.25)
    # The first point is always given in training, so it comes first here too.
    at = np.array([-np.pi, 0.6, 2.2, -1.3, 1.4, -0.4, 2.9, -2.0, 0.1, 1.9])
    seen = 0.85 * np.sin(at - 0.25)
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.6), sharex=True, sharey=True, layout="constrained")
    for row, (name, colour) in enumerate(zip(ROWS, (COLOURS[1], COLOURS[0]), strict=True)):
        for column, count in enumerate((1, 3, 10)):
            ax = axes[row, column]
            posterior = fits[name].model.condition(at[:count], seen[:count], key=jr.key(7), draws=256)
            plot_posterior(posterior, t, ax=ax, truth=truth, colour=colour)
            if row == 0:
                ax.set_title(f"{count} observation{'s' if count > 1 else ''}", fontsize=11)
                ax.set_xlabel("")
            if column == 0:
                ax.set_ylabel(f"{name.upper()}\nvalue", fontsize=11)
        axes[row, 2].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes[0, 0].set(ylim=(-1.6, 1.6), xlim=(-np.pi, np.pi), xticks=[-np.pi, 0, np.pi])
    axes[0, 0].set_xticklabels(["−π", "0", "π"])
    figure.suptitle("What each model believes about one sine, as observations arrive", fontsize=13)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Runs the demo."""
    console = Console()
    OUT.mkdir(exist_ok=True)
    fits, summary = train(console)
    show(console, summary)
    draw(fits, OUT / "posterior.png")
    fits["ndp"].model.save(OUT / "model")
    (OUT / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    console.print(f"\nWrote {OUT / 'posterior.png'} (look at it), {OUT / 'summary.json'} and {OUT / 'model'}. Use the model:\n")
    console.print(
        "    import jax, odeprocess as odp\n"
        "    model = odp.load('demo/model')\n"
        "    posterior = model.condition([-3.1, 1.0], [0.2, 0.6], key=jax.random.key(0))\n"
        "    low, high = posterior.interval([0.0, 0.5, 1.0], level=0.9)\n",
        style="cyan",
    )
    console.print("Or touch it, on a page in your browser:\n")
    console.print("    .venv/bin/odeprocess play demo/model\n", style="cyan")


if __name__ == "__main__":
    main()
