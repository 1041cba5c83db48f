"""`Forecaster` with its defaults on tables: accuracy beside Gaussian processes, and time and memory on large tables.

Theophylline (12 subjects, each held out in turn, its first three rows given) and the Brusselator (1000 series with missing
values, 200 of them held out) are read from the folder that ODEPROCESS_DATA names. A Gaussian process is fitted to each series and
channel by marginal likelihood, the best of three kernels, on untransformed values and on values transformed as the forecaster
does; the better of the two is compared. Each part runs in a process of its own. Writes `results/tables.json`.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.experiments.result_files import read_json, write_json

RESULTS = Path(__file__).parent.parent / "results" / "tables.json"
CONTEXT = {"theophylline": 3, "brusselator": 12}
SCORES = ("nll", "crps", "mse", "coverage")


def measure_theophylline() -> list[dict]:
    """Scores of theophylline, with each subject held out in turn."""
    import pandas as pd

    import odeprocess as odp
    from odeprocess.experiments.baselines.gaussian_processes_on_tables import score_gaussian_processes

    table = pd.read_csv(odp.data.table_path("theophylline"))
    scores, seconds, baseline = [], [], []
    for subject in table["series"].unique():
        train, test = table[table["series"] != subject], table[table["series"] == subject]
        forecaster = odp.Forecaster()
        seconds.append(time_call(lambda f=forecaster, train=train: f.fit(train, "series", "t", "y1", static=["dose", "wt"])))
        scores.append(forecaster.evaluate(test, CONTEXT["theophylline"], "forecast", by="series"))
        baseline.append(score_gaussian_processes(forecaster, train, test, CONTEXT["theophylline"], "forecast"))
    return [compare("theophylline", "forecast", pd.concat(scores), pd.concat(baseline), seconds)]


def measure_brusselator() -> list[dict]:
    """Scores of the Brusselator, with a fifth of the series held out."""
    import pandas as pd

    import odeprocess as odp
    from odeprocess.experiments.baselines.gaussian_processes_on_tables import score_gaussian_processes

    table = pd.read_csv(odp.data.table_path("brusselator"))
    for k in (1, 2):
        table[f"Value_{k}"] = table[f"Value_{k}"].where(table[f"Mask_{k}"] == 1)
    table = table.dropna(subset=["Value_1", "Value_2"], how="all")
    held = np.random.default_rng(0).permutation(np.asarray(table["ID"].unique()))[:200].tolist()
    train, test = table[~table["ID"].isin(held)], table[table["ID"].isin(held)]
    forecaster = odp.Forecaster()
    seconds = [time_call(lambda: forecaster.fit(train, "ID", "Time", ["Value_1", "Value_2"]))]
    rows, context = [], CONTEXT["brusselator"]
    for split in ("interpolation", "forecast"):
        ours = forecaster.evaluate(test, context, split, by="series")
        rows.append(
            compare("brusselator", split, ours, score_gaussian_processes(forecaster, train, test, context, split), seconds)
        )
        fast = forecaster.evaluate(test, context, split, by="series", inference="amortised")
        rows[-1]["amortised"] = {name: float(fast[name].mean()) for name in SCORES}
    return rows


def compare(task: str, split: str, ours: Any, baseline: Any, seconds: list[tuple[float, float]]) -> dict:
    """A row with means over series, and paired differences with their standard errors."""
    row: dict[str, Any] = {"benchmark": "accuracy", "task": task, "split": split, "series": len(ours)}
    wall, cores = zip(*seconds, strict=True)
    row |= {"first fit, s": wall[0], "first fit, s of all cores": cores[0], "median fit, s": float(np.median(wall))}
    row["ours"] = {name: float(ours[name].mean()) for name in SCORES}
    means = {("transformed" if kind else "as they are"): part for kind, part in baseline.groupby("transformed")}
    row["gaussian process"] = {kind: {name: float(part[name].mean()) for name in SCORES} for kind, part in means.items()}
    best = min(means, key=lambda kind: means[kind]["crps"].mean())
    for name in ("nll", "crps"):
        difference = ours[name].to_numpy() - means[best][name].to_numpy()
        row[f"{name} difference"] = [float(difference.mean()), float(difference.std(ddof=1) / len(difference) ** 0.5)]
    return row


def measure_large(count: int) -> list[dict]:
    """Time and memory of an epoch of each half of training, and of predictions, on `count` series of 20 points in Parquet."""
    import tempfile

    import pyarrow as pa
    import pyarrow.parquet

    import odeprocess as odp

    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 10, (count, 20)), 1)
    y = rng.normal(1, 0.2, (count, 1)) * np.sin(t + rng.uniform(0, 1, (count, 1))) + 0.05 * rng.standard_normal(t.shape)
    row: dict[str, Any] = {"benchmark": "large", "series": count}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        pyarrow.parquet.write_table(pa.table({"id": np.repeat(np.arange(count), 20), "t": t.ravel(), "y": y.ravel()}), path)
        forecaster = odp.Forecaster(model="ndp-skip", options={"epochs": 1, "em_epochs": 1}, held_out=0)
        steps = {
            "fit": lambda: forecaster.fit(path),
            "predict, fast": lambda: forecaster.predict(path, times=[2.0, 5.0, 9.0], inference="amortised"),
        }
        if count <= 1_000:
            steps["predict"] = lambda: forecaster.predict(path, times=[2.0, 5.0, 9.0])
        for name, step in steps.items():
            (first, _), (again, cores) = time_call(step), time_call(step)
            row[f"{name}, first time, s"] = first
            row[f"{name}, ms a series"] = 1e3 * again / count
            row[f"{name}, ms of all cores a series"] = 1e3 * cores / count
    return [{**row, "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}]


def time_call(step: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of wall time, and of all cores together."""
    began = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - began[0], time.process_time() - began[1]


PARTS = {
    "theophylline": measure_theophylline,
    "brusselator": measure_brusselator,
    **{f"large-{n}": (lambda n=n: measure_large(n)) for n in (1_000, 10_000, 100_000)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--here", action="store_true", help="run one part in this process, print its rows as JSON")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(PARTS[arguments.parts[0]]()))
        return
    record = read_json(RESULTS) or {}
    for part in arguments.parts or PARTS:
        done = subprocess.run([sys.executable, __file__, part, "--here"], stdout=subprocess.PIPE, text=True, check=True)
        record[part] = json.loads(done.stdout.splitlines()[-1])
        for row in record[part]:
            print(json.dumps(row, indent=1))
        write_json(RESULTS, record)


if __name__ == "__main__":
    main()
