"""Tables: accuracy of `Forecaster` with its defaults against Gaussian processes, and time and memory on large tables.

Theophylline (12 subjects, each left out in turn, its first three rows given) and the Brusselator (1000 series with missing
channels, 200 of them held out) are read from the folder that ODEPROCESS_DATA names. The Gaussian process is fitted to each
series and channel alone, by marginal likelihood, the best of three kernels, on values as they are and on values transformed
as the forecaster does; the better of the two is what we compare with. Each part runs in a process of its own. Writes
`results/tables.json`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent.parent / "results" / "tables.json"
CONTEXT = {"theophylline": 3, "brusselator": 12}
SCORES = ("nll", "crps", "mse", "coverage")
FLOOR = 1e-3  # of the noise of a Gaussian process, in scaled units


def data(*parts: str) -> Path:
    folder = os.environ.get("ODEPROCESS_DATA")
    if not folder:
        sys.exit("Set ODEPROCESS_DATA to the folder that holds the public data sets.")
    return Path(folder).joinpath(*parts)


def theophylline() -> list[dict]:
    """Each subject left out in turn."""
    import pandas as pd

    import odeprocess as odp

    table = pd.read_csv(data("pharmacokinetics", "theophylline.csv.gz"))
    scores, seconds, baseline = [], [], []
    for subject in table["series"].unique():
        train, test = table[table["series"] != subject], table[table["series"] == subject]
        began = time.perf_counter(), time.process_time()
        forecaster = odp.Forecaster().fit(train, "series", "t", "y1", static=["dose", "wt"])
        seconds.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        scores.append(forecaster.evaluate(test, CONTEXT["theophylline"], "forecast", by="series"))
        baseline.append(gaussian(forecaster, train, test, CONTEXT["theophylline"], "forecast"))
    return [compared("theophylline", "forecast", pd.concat(scores), pd.concat(baseline), seconds)]


def brusselator() -> list[dict]:
    """A fifth of the series held out."""
    import pandas as pd

    import odeprocess as odp

    table = pd.read_csv(data("brusselator", "brusselator.csv.gz"))
    for k in (1, 2):
        table[f"Value_{k}"] = table[f"Value_{k}"].where(table[f"Mask_{k}"] == 1)
    table = table.dropna(subset=["Value_1", "Value_2"], how="all")
    held = np.random.default_rng(0).permutation(np.asarray(table["ID"].unique()))[:200].tolist()
    train, test = table[~table["ID"].isin(held)], table[table["ID"].isin(held)]
    began = time.perf_counter(), time.process_time()
    forecaster = odp.Forecaster().fit(train, "ID", "Time", ["Value_1", "Value_2"])
    seconds = [(time.perf_counter() - began[0], time.process_time() - began[1])]
    rows, context = [], CONTEXT["brusselator"]
    for split in ("interpolation", "forecast"):
        ours = forecaster.evaluate(test, context, split, by="series")
        rows.append(compared("brusselator", split, ours, gaussian(forecaster, train, test, context, split), seconds))
        fast = forecaster.evaluate(test, context, split, by="series", refine=False)
        rows[-1]["without refinement"] = {name: float(fast[name].mean()) for name in SCORES}
    return rows


def compared(task: str, split: str, ours: Any, baseline: Any, seconds: list[tuple[float, float]]) -> dict:
    """Means over series, and paired differences with their standard errors."""
    row: dict[str, Any] = {"benchmark": "accuracy", "task": task, "split": split, "series": len(ours)}
    wall, cores = zip(*seconds, strict=True)
    row |= {"first fit, s": wall[0], "first fit, s of all cores": cores[0], "median fit, s": float(np.median(wall))}
    row["ours"] = {name: float(ours[name].mean()) for name in SCORES}
    means = {kind: part for kind, part in baseline.groupby("values are")}
    row["gaussian process"] = {kind: {name: float(part[name].mean()) for name in SCORES} for kind, part in means.items()}
    best = min(means, key=lambda kind: means[kind]["crps"].mean())
    for name in ("nll", "crps"):
        difference = ours[name].to_numpy() - means[best][name].to_numpy()
        row[f"{name} less"] = [float(difference.mean()), float(difference.std(ddof=1) / len(difference) ** 0.5)]
    return row


def gaussian(forecaster: Any, train: Any, test: Any, context: int, split: str) -> Any:
    """The same scores, on the same rows, of a Gaussian process for each series and channel."""
    import pandas as pd

    from odeprocess.tables.evaluating import given_rows
    from odeprocess.tables.reading import read
    from odeprocess.tables.transforms import Transform

    long, known = (forecaster.layout_.read(read(each)) for each in (test, train))
    index, given, asked = given_rows(long, context, split, forecaster.seed)
    frames = []
    for kind in ("as they are", "transformed"):
        total: dict[int, list[np.ndarray]] = {int(i): [] for i in index}
        for channel, transform in enumerate(forecaster.layout_.transforms):
            transform = transform if kind == "transformed" else Transform()
            for i, scores in curves(long, known, index, given, asked, channel, transform):
                total[int(i)].append(scores)
        each = [np.concatenate(total[int(i)], 1).mean(1) for i in index]
        frames.append(pd.DataFrame(np.array(each), columns=list(SCORES)).assign(**{"values are": kind}))
    return pd.concat(frames)


def curves(long: Any, known: Any, index: Any, given: Any, asked: Any, channel: int, transform: Any) -> list:
    """Scores `[score, rows]` of one channel, series by series; series with as many points given are fitted together."""
    from odeprocess.experiments.gaussian import per_series

    x = transform.forward(known.values[:, channel])
    shift, scale = float(np.nanmean(x)), float(np.nanstd(x))
    low, high = known.t.min(), known.t.max()

    def scaled(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = rows[np.isfinite(long.values[rows, channel])]
        t = 4 * (long.t[rows] - low) / (high - low) - 2
        return t, (transform.forward(long.values[rows, channel]) - shift) / scale

    groups: dict[int, list] = {}
    for i, some, others in zip(index, given, asked, strict=True):
        seen, wanted = scaled(some), scaled(others)
        if len(wanted[0]):
            groups.setdefault(len(seen[0]), []).append((i, seen, wanted))
    found = []
    for group in groups.values():
        width = max(len(wanted[0]) for _, _, wanted in group)
        at = np.stack([np.pad(wanted[0], (0, width - len(wanted[0]))) for _, _, wanted in group])
        curve = per_series(np.stack([s[0] for _, s, _ in group]), np.stack([s[1] for _, s, _ in group])[..., None], at)
        for k, (i, _, (_, y)) in enumerate(group):
            mean, noise = curve.mean[k, : len(y), 0], np.maximum(curve.noise[k, : len(y), 0], FLOOR)
            found.append((i, scored(mean, np.sqrt(curve.std[k, : len(y), 0] ** 2 + noise**2), y, shift, scale, transform)))
    return found


def scored(mean: Any, std: Any, y: Any, shift: float, scale: float, transform: Any) -> np.ndarray:
    """Scores of normal predictions of scaled values, in the user's units: `[score, rows]`."""
    from odeprocess.tables.evaluating import crps

    truth = transform.inverse(y * scale + shift)
    nll = 0.5 * ((y - mean) / std) ** 2 + np.log(std * scale) + 0.5 * np.log(2 * np.pi) - transform.log_slope(truth)
    draws = transform.inverse((mean + std * np.random.default_rng(0).standard_normal((2000, len(y)))) * scale + shift)
    centre, _ = transform.moments((mean * scale + shift)[None], (std * scale)[None])
    covered = np.abs(y - mean) <= 1.6448536 * std
    return np.stack([nll, crps(draws[None], truth[None])[0], (centre - truth) ** 2, covered.astype(float)])


def large(count: int) -> list[dict]:
    """One epoch of each half and predictions on `count` series of 20 points, from a Parquet file; compiling is apart."""
    import tempfile

    import jax
    import pyarrow as pa
    import pyarrow.parquet

    import odeprocess as odp

    compiling: list[float] = []

    def noted(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            compiling.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(noted)
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 10, (count, 20)), 1)
    y = rng.normal(1, 0.2, (count, 1)) * np.sin(t + rng.uniform(0, 1, (count, 1))) + 0.05 * rng.standard_normal(t.shape)
    row: dict[str, Any] = {"benchmark": "large", "series": count}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        pyarrow.parquet.write_table(pa.table({"id": np.repeat(np.arange(count), 20), "t": t.ravel(), "y": y.ravel()}), path)
        forecaster = odp.Forecaster(epochs=1, polish=1, held_out=0)
        steps = {
            "fit": lambda: forecaster.fit(path),
            "predict, fast": lambda: forecaster.predict(path, times=[2.0, 5.0, 9.0], refine=False),
        }
        if count <= 1_000:
            steps["predict"] = lambda: forecaster.predict(path, times=[2.0, 5.0, 9.0])
        for name, step in steps.items():
            compiling.clear()
            began = time.perf_counter(), time.process_time()
            step()
            seconds = time.perf_counter() - began[0]
            row[f"{name}, compiling, s"] = sum(compiling)
            row[f"{name}, ms a series"] = 1e3 * (seconds - sum(compiling)) / count
            row[f"{name}, s of all cores"] = time.process_time() - began[1]
    return [{**row, "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}]


PARTS = {
    "theophylline": theophylline,
    "brusselator": brusselator,
    **{f"large-{n}": (lambda n=n: large(n)) for n in (1_000, 10_000, 100_000)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--here", action="store_true", help="run one part in this process, print its rows as JSON")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(PARTS[arguments.parts[0]]()))
        return
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in arguments.parts or PARTS:
        done = subprocess.run([sys.executable, __file__, part, "--here"], stdout=subprocess.PIPE, text=True, check=True)
        known[part] = json.loads(done.stdout.splitlines()[-1])
        for row in known[part]:
            print(json.dumps(row, indent=1))
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
