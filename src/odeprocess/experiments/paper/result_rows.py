"""The rows of the paper's records: means and standard errors over seeds, with the published values beside them."""

import statistics
from typing import Any

import numpy as np

from odeprocess.experiments.definitions import Experiment

MAIN_TESTS = ("fresh", "test")  # their metrics have plain names; those of other tests have the test's name behind them


def make_rows(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an experiment, from what its runs found, by key."""
    make = {"train": _make_error_rows, "timing": _make_timing_rows, "active": _make_query_rows}[experiment.kind]
    return make(experiment, results)


def _make_row(experiment: Experiment, run: dict[str, Any], variant: str, metric: str, values: list[Any], **more: Any) -> dict:
    finite = [float(v) for v in values if v is not None and np.isfinite(v)]
    mean, stderr = experiment.paper.get(metric, {}).get(run["task"], {}).get(variant, (None, None))
    return {
        "task": run["task"],
        "variant": variant,
        "metric": metric,
        "mean": float(np.mean(finite)) if finite else None,
        "stderr": float(np.std(finite, ddof=1) / len(finite) ** 0.5) if len(finite) > 1 else None,
        "seeds": len(finite),
        "values": finite,
        "paper_mean": mean,
        "paper_stderr": stderr,
        **more,
        **{name: run[name] for name in ("machine", "commit", "versions")},
    }


def _make_error_rows(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found, tasks = [], set()
    for cell in experiment.cells:
        if (run := results.get(cell.key)) is None:
            continue
        about = {
            "parameters": run["parameters"],
            "seconds": run["seconds"],
            "compile_seconds": run["compile_seconds"],
            "optimiser": cell.protocol.optimiser,
            "epochs": cell.protocol.epochs,
        }
        for test, by_seed in run["tests"].items():
            names = next((list(scores) for scores in by_seed if scores), [])
            for name in names:
                metric = name if test in (*MAIN_TESTS, "read") else f"{name}, {test}"
                values = [None if scores is None else scores[name] for scores in by_seed]
                found.append(_make_row(experiment, run, run["variant"], metric, values, **about))
        if run["task"] not in tasks:
            tasks.add(run["task"])
            for test, errors in run["training_mean"].items():
                for name, error in errors.items():
                    metric = name if test in MAIN_TESTS else f"{name}, {test}"
                    found.append(_make_row(experiment, run, "training-mean", metric, [error]))
    return found


def _make_timing_rows(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for run in results.values():
        for variant, seconds in run["seconds"].items():
            more = {"compile_seconds": run["compile_seconds"][variant], "released": experiment.settings["released"].get(variant)}
            found.append(_make_row(experiment, run, variant, "seconds", seconds, median=statistics.median(seconds), **more))
            if variant != run["base"]:
                ratios = run["ratios"][variant]
                found.append(_make_row(experiment, run, variant, "ratio_to_np", ratios, median=statistics.median(ratios)))
    return found


def _make_query_rows(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for key, run in results.items():
        if not key.startswith("queries-"):
            continue
        for way in ("active", "random"):
            for metric, curves in run[way].items():
                for queries in range(run["queries"] + 1):
                    values = [curve[queries] for curve in curves]
                    found.append(_make_row(experiment, run, f"{run['variant']}, {way}", metric, values, queries=queries))
    return found
