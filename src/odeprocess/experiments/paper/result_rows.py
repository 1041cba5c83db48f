"""From what runs found to the rows of a result: means and standard errors over seeds, the paper's beside them."""

import statistics
from typing import Any

import numpy as np

from .plan import Experiment

PRINCIPAL = ("fresh", "test")  # the tests whose error is *the* error of a row; other tests are named


def rows(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an experiment."""
    make = {"train": _trained, "timing": _timed, "active": _queried, "accuracy": _boards}[experiment.kind]
    return make(experiment, results)


def _row(experiment: Experiment, run: dict[str, Any], variant: str, metric: str, values: list[Any], **more: Any) -> dict:
    sound = [float(v) for v in values if v is not None and np.isfinite(v)]
    mean, stderr = experiment.paper.get(metric, {}).get(run["task"], {}).get(variant, (None, None))
    return {
        "task": run["task"],
        "variant": variant,
        "metric": metric,
        "mean": float(np.mean(sound)) if sound else None,
        "stderr": float(np.std(sound, ddof=1) / len(sound) ** 0.5) if len(sound) > 1 else None,
        "seeds": len(sound),
        "values": sound,
        "paper_mean": mean,
        "paper_stderr": stderr,
        **more,
        **{name: run[name] for name in ("machine", "commit", "versions")},
    }


def _trained(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
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
                metric = name if test in (*PRINCIPAL, "read") else f"{name}, {test}"
                values = [None if scores is None else scores[name] for scores in by_seed]
                found.append(_row(experiment, run, run["variant"], metric, values, **about))
        if run["task"] not in tasks:
            tasks.add(run["task"])
            for test, errors in run["training_mean"].items():
                for name, error in errors.items():
                    metric = name if test in PRINCIPAL else f"{name}, {test}"
                    found.append(_row(experiment, run, "training-mean", metric, [error]))
    return found


def _timed(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for run in results.values():
        for variant, seconds in run["seconds"].items():
            more = {"compile_seconds": run["compile_seconds"][variant], "released": experiment.settings["released"].get(variant)}
            found.append(_row(experiment, run, variant, "seconds", seconds, median=statistics.median(seconds), **more))
            if variant != run["base"]:
                ratios = run["ratios"][variant]
                found.append(_row(experiment, run, variant, "ratio_to_np", ratios, median=statistics.median(ratios)))
    return found


def _queried(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for key, run in results.items():
        if not key.startswith("queries-"):
            continue
        for way in ("active", "random"):
            for metric, curves in run[way].items():
                for queries in range(run["queries"] + 1):
                    values = [curve[queries] for curve in curves]
                    found.append(_row(experiment, run, f"{run['variant']}, {way}", metric, values, queries=queries))
    return found


def _boards(experiment: Experiment, results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for run in results.values():
        for variant, by_seed in run["scores"].items():
            for cell in by_seed[0]:
                split, context = cell.split()
                for metric in by_seed[0][cell]:
                    means = [float(np.mean(scores[cell][metric])) for scores in by_seed]
                    # Of one seed the spread over series, of several the spread over seeds.
                    spread = by_seed[0][cell][metric] if len(means) == 1 else means
                    stderr = float(np.std(spread, ddof=1) / len(spread) ** 0.5)
                    about = {"noise": run["noise"], "context": int(context), "split": split, "series": run["series"]}
                    found.append(
                        {
                            "task": run["task"],
                            **about,
                            "variant": variant,
                            "metric": metric,
                            "mean": _short(np.mean(means)),
                            "stderr": _short(stderr),
                            "seeds": len(means),
                        }
                    )
    return found + _against(results)


def _short(number: Any) -> float:
    """To six digits: there are thousands of rows."""
    return float(f"{number:.6g}")


def _against(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The default model against each Gaussian process: mean differences over the series that both were asked about."""
    boards: dict[Any, dict[str, Any]] = {}
    for run in results.values():
        boards.setdefault((run["task"], run["noise"]), {}).update(run["scores"])
    found = []
    for (task, noise), scores in boards.items():
        for rival in ("gp-series", "gp-shared"):
            if rival not in scores or "default" not in scores:
                continue
            for cell in [c for c in scores["default"][0] if c in scores[rival][0]]:
                split, context = cell.split()
                for metric in ("mse", "log_likelihood"):
                    theirs = np.asarray(scores[rival][0][cell][metric])
                    ours = np.mean([s[cell][metric] for s in scores["default"]], 0)[: len(theirs)]
                    difference = ours - theirs[: len(ours)]
                    found.append(
                        {
                            "task": task,
                            "noise": noise,
                            "context": int(context),
                            "split": split,
                            "variant": f"default against {rival}",
                            "metric": metric,
                            "mean": _short(difference.mean()),
                            "stderr": _short(difference.std(ddof=1) / len(difference) ** 0.5),
                            "seeds": len(scores["default"]),
                            "tie": bool(metric == "mse" and max(ours.mean(), theirs.mean()) < 1e-6),
                        }
                    )
    return found
