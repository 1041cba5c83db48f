"""The rows of `results/accuracy.json`: a mean and a standard error for each task, cell, model and metric."""

from typing import Any

import numpy as np

BASELINES = ("gp-series", "gp-shared")  # what the default model is compared with, series by series
TIE = 1e-6  # squared errors below it count as equal


def make_rows(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows of the scoreboard, from what its runs found: every model's scores, then the paired comparisons."""
    rows = [row for run in results.values() for row in _score_rows(run)]
    return rows + _comparison_rows(results)


def _score_rows(run: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for variant, by_seed in run["scores"].items():
        for cell in by_seed[0]:
            for metric in by_seed[0][cell]:
                means = [float(np.mean(scores[cell][metric])) for scores in by_seed]
                # With one seed the standard error is over series, with several over seeds.
                values = by_seed[0][cell][metric] if len(means) == 1 else means
                about = {"task": run["task"], "noise": run["noise"], **_parse(cell), "series": run["series"]}
                rows.append(
                    {**about, "variant": variant, "metric": metric, **_summarise(values, np.mean(means)), "seeds": len(means)}
                )
    return rows


def _comparison_rows(results: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The default model against each Gaussian process: mean differences over the series on which both were scored."""
    by_task: dict[Any, dict[str, Any]] = {}
    for run in results.values():
        by_task.setdefault((run["task"], run["noise"]), {}).update(run["scores"])
    rows = []
    for (task, noise), scores in by_task.items():
        for baseline in BASELINES:
            if baseline not in scores or "default" not in scores:
                continue
            for cell in [c for c in scores["default"][0] if c in scores[baseline][0]]:
                for metric in ("mse", "log_likelihood"):
                    theirs = np.asarray(scores[baseline][0][cell][metric])
                    ours = np.mean([s[cell][metric] for s in scores["default"]], 0)[: len(theirs)]
                    differences = ours - theirs[: len(ours)]
                    row = {
                        "task": task,
                        "noise": noise,
                        **_parse(cell),
                        "variant": f"default against {baseline}",
                        "metric": metric,
                    }
                    row |= {**_summarise(differences, differences.mean()), "seeds": len(scores["default"])}
                    rows.append({**row, "tie": bool(metric == "mse" and max(ours.mean(), theirs.mean()) < TIE)})
    return rows


def _parse(cell: str) -> dict[str, Any]:
    split, context = cell.split()
    return {"context": int(context), "split": split}


def _summarise(values: Any, mean: Any) -> dict[str, float]:
    return {"mean": float(mean), "stderr": float(np.std(values, ddof=1) / len(values) ** 0.5)}
