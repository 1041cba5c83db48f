"""The demo: predict the drug concentration of new patients from few blood samples; then the paper's NP beside its NDP.

First it simulates a table of patients, trains a `Forecaster` on it and predicts new patients after 1, 2 and 4 samples. Then it
trains a neural process and a neural ODE process on sines by the paper's protocol. Everything is written to `demo/`.
"""

import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import odeprocess as odp
from odeprocess.posterior.plots import COLOURS, INK, TRUTH, plot_posterior

OUT = Path("demo")

# A one-compartment model with first-order absorption after an oral dose at time 0.
DOSE = 320.0  # mg
TYPICAL = np.array([1.2, 2.8, 32.0])  # absorption rate (1/h), clearance (L/h), volume (L) of the typical patient
SPREAD = np.array([0.5, 0.3, 0.2])  # standard deviations of their logarithms between patients
NOISE = 0.1  # standard deviation of the logarithm of a measurement
DAY = 24.0  # hours
PATIENTS, FRESH = 160, 32
PLAN = np.array([1.0, 2.5, 5.0, 8.0, 11.0, 14.0, 18.0, 23.0])  # hours, of the fresh patients' samples, give or take half an hour
GIVEN = (1, 2, 4)  # first samples after which fresh patients are predicted

SEEDS = (0, 1, 2)
ROWS = {"np": "neural process (NP)", "ndp": "neural ODE process (NDP)"}


def concentration(hours: np.ndarray, absorption: float, clearance: float, volume: float) -> np.ndarray:
    """The concentration in blood, in mg/L."""
    elimination = clearance / volume
    scale = DOSE / volume * absorption / (absorption - elimination)
    return scale * (np.exp(-elimination * hours) - np.exp(-absorption * hours))


def simulate(rng: np.random.Generator, times: list[np.ndarray]) -> tuple[pd.DataFrame, np.ndarray]:
    """A long table of patients with samples at some `times` each, with noise; also the parameters of each patient."""
    parameters, tables = TYPICAL * np.exp(SPREAD * rng.normal(size=(len(times), 3))), []
    for i, hours in enumerate(times):
        values = concentration(hours, *parameters[i]) * np.exp(NOISE * rng.normal(size=len(hours)))
        tables.append(pd.DataFrame({"patient": f"patient {i + 1}", "hours": hours, "mg_per_L": values.round(3)}))
    return pd.concat(tables, ignore_index=True), parameters


def predict_patients(console: Console) -> dict:
    """Trains on a table of patients, scores fresh ones, and draws the predictions of two."""
    rng = np.random.default_rng(0)
    irregular = [np.unique(rng.uniform(0.25, DAY, rng.integers(4, 10)).round(2)) for _ in range(PATIENTS)]
    planned = [(PLAN + rng.uniform(-0.5, 0.5, len(PLAN))).round(2) for _ in range(FRESH)]
    patients, (fresh, parameters) = simulate(rng, irregular)[0], simulate(rng, planned)
    patients.to_csv(OUT / "patients.csv", index=False)
    fresh.to_csv(OUT / "fresh.csv", index=False)
    console.print(patients.head(4).to_string(index=False), style="dim")
    console.print(f"{OUT / 'patients.csv'} has {len(patients)} samples of {PATIENTS} patients.\n")

    began = time.perf_counter()
    with console.status("Compiling, training and calibrating a model of the patients …"):
        forecaster = odp.Forecaster(effort="quick", verbose=False)
        forecaster.fit(OUT / "patients.csv", series="patient", time="hours", values="mg_per_L", origin="absolute")
    seconds = time.perf_counter() - began
    forecaster.save(OUT / "patients-model")

    scores, predicted, grid = {}, {}, np.linspace(0.25, DAY, 96)
    with console.status("Predicting fresh patients …"):
        for count in (0, *GIVEN):
            row = forecaster.evaluate(fresh, count, "forecast").iloc[0]
            scores[count] = {"crps": float(row["crps"]), "coverage": float(row["coverage"])}
        for count in GIVEN:
            predicted[count] = forecaster.predict(fresh.groupby("patient").head(count), times=grid)
        draw_patients(fresh, parameters, predicted, OUT / "patients.png")
    table = Table(title=f"Later samples of {FRESH} fresh patients, predicted")
    for column in ("first samples given", "CRPS (mg/L)", "inside the 90 % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for count, row in scores.items():
        table.add_row(str(count), f"{row['crps']:.3f}", f"{row['coverage']:.0%}")
    console.print(table)
    console.print(f"CRPS is a mean absolute error for distributions. Training took {seconds:.0f} s, compilation included.\n")
    return {"train_seconds": seconds, "by_samples_given": scores}


def draw_patients(fresh: Any, parameters: np.ndarray, predicted: dict[int, Any], path: Path) -> None:
    """Draws two fresh patients, at the quartiles of elimination: predictions after 1, 2 and 4 samples, and the truth."""
    by_elimination = np.argsort(parameters[:, 1] / parameters[:, 2])
    people = {"slow elimination": by_elimination[FRESH // 4], "fast elimination": by_elimination[-FRESH // 4]}
    figure, axes = plt.subplots(2, len(GIVEN), figsize=(10, 5.2), sharex=True, sharey=True, layout="constrained")
    for row, (title, i) in zip(axes, people.items(), strict=True):
        samples = fresh[fresh["patient"] == f"patient {i + 1}"]
        at, values = samples["hours"].to_numpy(), samples["mg_per_L"].to_numpy()
        for ax, n in zip(row, GIVEN, strict=True):
            found = predicted[n][predicted[n]["patient"] == f"patient {i + 1}"]
            t, low, high = (found[name] for name in ("hours", "q0.05", "q0.95"))
            ax.fill_between(t, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label="90 % interval of measurements")
            ax.plot(t, found["mean"], color=COLOURS[0], linewidth=2.2, label="predicted mean")
            ax.plot(t, concentration(t, *parameters[i]), color=TRUTH, linestyle=(0, (4, 2)), linewidth=1.6, label="truth")
            ax.plot(at[:n], values[:n], "o", color=INK, markersize=6, zorder=5, label="samples given")
            ax.plot(at[n:], values[n:], "o", color=INK, markerfacecolor="white", markersize=5, zorder=4, label="later samples")
            ax.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel(f"{title}\nconcentration (mg/L)")
    for ax, n in zip(axes[0], GIVEN, strict=True):
        ax.set_title(f"after {n} sample{'s' if n > 1 else ''}", fontsize=12)
    for ax in axes[1]:
        ax.set_xlabel("hours after the dose")
    axes[0, 0].set(xlim=(0, DAY), ylim=(0, None), xticks=np.arange(0, DAY + 1, 6))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def compare_processes(console: Console) -> dict:
    """Trains the paper's NP and NDP on sines by its protocol, scores them on 1000 fresh series, and draws both."""
    sines = odp.experiments.protocol("sines")
    score = jax.jit(lambda process, tasks: odp.score_all(process, tasks, draws=1, key=jr.key(2)).mse_one.mean())
    series, fresh = sines.series(sines.train, key=jr.key(0)), sines.series(1000, key=jr.key(1))
    tasks = sines.test_tasks(fresh, key=jr.key(3))
    fits, summary = {}, {}
    table = Table(title=f"The paper's sines, {sines.epochs} epochs, {len(SEEDS)} seeds: error given 10 observations")
    for column in ("model", "parameters", "MSE × 100", "paper", "compile", "train"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for (name, title), paper in zip(ROWS.items(), ("5.93 ± 0.96", "2.09 ± 0.12"), strict=True):
        with console.status(f"Compiling and training the {title}, {len(SEEDS)} seeds at once …"):
            fits[name] = fit = sines.fit(name, series, seeds=SEEDS)
            errors = [float(score(model.process, tasks)) for model in fit.models if model is not None]
        mse, stderr = float(np.mean(errors)), float(np.std(errors, ddof=1) / len(errors) ** 0.5)
        summary[name] = {"mse": mse, "mse_stderr": stderr, "seeds": len(errors), "parameters": fit.model.num_parameters}
        summary[name] |= {"train_seconds": fit.train_seconds, "compile_seconds": fit.compile_seconds}
        seconds = f"{fit.compile_seconds:.1f} s", f"{fit.train_seconds:.1f} s"
        error = f"{100 * mse:.2f} ± {100 * stderr:.2f}"
        table.add_row(name.upper(), str(fit.model.num_parameters), error, paper, *seconds)
    console.print(table)
    console.print("One latent draw, all points scored, mean ± standard error; times are those of all seeds together.\n")
    draw_processes(fits, OUT / "sines.png")
    fits["ndp"].model.save(OUT / "model")
    return summary


def draw_processes(fits: dict[str, odp.Fit], path: Path) -> None:
    """Draws both posteriors after 1, 3 and 10 observations of a series that neither has seen."""
    t = np.linspace(-np.pi, np.pi, 200)
    # The first point is always given in training, so it comes first here too.
    at = np.array([-np.pi, 0.6, 2.2, -1.3, 1.4, -0.4, 2.9, -2.0, 0.1, 1.9])
    truth, seen = (0.85 * np.sin(x - 0.25) for x in (t, at))
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.6), sharex=True, sharey=True, layout="constrained")
    for row, (name, colour) in enumerate(zip(ROWS, (COLOURS[1], COLOURS[0]), strict=True)):
        for column, count in enumerate((1, 3, 10)):
            ax = axes[row, column]
            posterior = fits[name].model.condition(at[:count], seen[:count], key=jr.key(7), draws=256)
            plot_posterior(posterior, t, ax=ax, truth=truth, colour=colour)
            if row == 0:
                ax.set(title=f"{count} observation{'s' if count > 1 else ''}", xlabel="")
        axes[row, 0].set_ylabel(f"{name.upper()}\nvalue")
        axes[row, 2].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes[0, 0].set(ylim=(-1.6, 1.6), xlim=(-np.pi, np.pi), xticks=[-np.pi, 0, np.pi], xticklabels=["−π", "0", "π"])
    figure.suptitle("The paper's models, given 1, 3 and 10 observations of a sine")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Runs the demo."""
    console = Console()
    OUT.mkdir(exist_ok=True)
    summary = {"patients": predict_patients(console)}
    summary |= compare_processes(console)
    (OUT / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    console.print(f"Wrote {OUT}/patients.png and {OUT}/sines.png (look at them), the tables, the models, and summary.json.\n")
    console.print("Predict the patients of a table from the shell:\n")
    console.print(f"    .venv/bin/odeprocess predict {OUT}/patients-model {OUT}/fresh.csv --times 6,12,24\n", style="cyan")
    console.print("Or try the model on a page in your browser:\n")
    console.print(f"    .venv/bin/odeprocess play {OUT}/patients-model\n", style="cyan")


if __name__ == "__main__":
    main()
