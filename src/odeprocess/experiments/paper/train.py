"""The runs of the paper's experiments: each trains a cell of a table and scores it, times training, or asks queries."""

from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.experiments.definitions import Advance, Cell, Experiment, Job
from odeprocess.experiments.result_files import run_folder
from odeprocess.training.fit_result import Fit

from . import digit_classifier
from .active_learning import measure_errors_by_queries
from .data_splits import Splits, split
from .evaluate import draw_frames, score
from .training_times import time_training

LARGE = 200_000  # parameters; of larger models only the best seed is kept, to save disk space


def list_jobs(experiment: Experiment, out: Path) -> list[Job]:
    """The runs of an experiment: one for each cell, then those that build on them."""
    if experiment.kind == "timing":
        return _list_timing_jobs(experiment)
    jobs = [Job(cell.key, cell.work, lambda advance, cell=cell: train_and_score(cell, out, advance)) for cell in experiment.cells]
    if experiment.kind == "active":
        queries, count = experiment.settings["queries"], 8 if experiment.quick else 200
        for cell in experiment.cells:

            def ask(advance: Advance, cell: Cell = cell) -> dict[str, Any]:
                return measure_errors_by_queries(cell, run_folder(out, cell.key), queries, count)

            jobs.append(Job(f"queries-{cell.key}-{queries}-{count}", cell.work / 10, ask))
    return jobs


def _list_timing_jobs(experiment: Experiment) -> list[Job]:
    """One for each task, since ratios are of times taken in one process."""
    jobs, repeats = [], 1 if experiment.quick else 5
    for task in dict.fromkeys(cell.task for cell in experiment.cells):
        cells = [cell for cell in experiment.cells if cell.task == task]
        key = f"timing-{task}-{'-'.join(c.key[-4:] for c in cells)}-{repeats}"
        work = sum(cell.work for cell in cells) * (repeats + 1)
        jobs.append(Job(key, work, lambda advance, cells=cells: time_training(cells, repeats, advance)))
    return jobs


_last_split: dict[Any, Splits] = {}


def _load_splits(cell: Cell) -> Splits:
    """The cell's data; cells of a task follow each other, so only the latest is kept in memory."""
    if cell.protocol not in _last_split:
        data = split(cell.protocol)
        _last_split.clear()
        _last_split[cell.protocol] = data
    return _last_split[cell.protocol]


def train_and_score(cell: Cell, out: Path, advance: Advance) -> dict[str, Any]:
    """Trains all seeds of a cell, saves the models in its folder, and returns errors by test and seed."""
    data, epochs = _load_splits(cell), cell.protocol.epochs

    def progress(note: str) -> None:
        advance(cell.work / epochs, f"{cell.task}, {cell.variant}: {note}")

    fit = cell.protocol.fit(cell.spec, data.train, validation=data.validation, seeds=cell.seeds, progress=progress)
    _save(fit, run_folder(out, cell.key))
    tests = {
        name: [None if model is None else score(model, test, draws=cell.protocol.draws) for model in fit.models]
        for name, test in data.tests.items()
    }
    if cell.classify:
        tests["read"] = [_score_readability(model, data, cell.protocol.train) for model in fit.models]
    return {
        "task": cell.task,
        "variant": cell.variant,
        "seeds": list(cell.seeds),
        "tests": tests,
        "training_mean": {name: score_training_mean(data, name) for name in data.tests},
        "curve": {
            "epoch": [e + 1 for e in range(len(fit.history.mse_one)) if np.isfinite(fit.history.mse_one[e]).any()],
            "mse": fit.history.mse_one[np.isfinite(fit.history.mse_one).any(1)].tolist(),
            "nll": fit.history.nll[np.isfinite(fit.history.nll).any(1)].tolist(),
        },
        "best": fit.best,
        "epochs_kept": [None if model is None else model.info["epoch"] for model in fit.models],
        "skipped_steps": fit.skipped.tolist(),
        "parameters": fit.model.num_parameters,
        "seconds": fit.train_seconds,
        "compile_seconds": fit.compile_seconds,
    }


def _save(fit: Fit, folder: Path) -> None:
    """Saves the models, from which the figures are drawn later."""
    large = fit.model.num_parameters > LARGE
    for i, model in enumerate(fit.models):
        if model is not None and (not large or i == fit.best):
            model.save(folder / f"model-{i}")


def _score_readability(model: Any, data: Splits, size: int) -> dict[str, float] | None:
    """The share of frames that a classifier reads as a 3, which all of them show: of the model's frames and of the true ones."""
    if model is None:
        return None
    test, found = data.tests["test"], {}
    net = digit_classifier.train_classifier(steps=2000 if size > 100 else 2)  # 2 in a rehearsal
    drawn, true = draw_frames(model, test.tasks), np.asarray(test.tasks.points.y)
    for group, chosen in test.groups.items():
        suffix = f" ({group})" if group else ""
        found[f"read_as_3{suffix}"] = digit_classifier.compute_share_read_as(net, drawn[:, chosen], 3)
        found[f"read_as_3, true frames{suffix}"] = digit_classifier.compute_share_read_as(net, true[:, chosen], 3)
    return found


def score_training_mean(data: Splits, name: str) -> dict[str, float]:
    """The squared error of always predicting the mean of the training series at that point, by group of points."""
    train, test = data.train, data.tests[name]
    y, mask = np.asarray(train.y, np.float64), np.asarray(train.mask)
    count = mask.sum(0)
    mean = np.where(mask, y, 0.0).sum(0) / np.maximum(count, 1)
    mean[count == 0] = (y[mask].sum() / mask.sum()) if (count == 0).any() else 0.0
    points = test.tasks.points
    errors = {}
    for group, chosen in test.groups.items():
        at = np.flatnonzero(chosen)
        at = at[at < len(mean)]
        if len(at):
            there = np.asarray(points.mask)[:, at]
            error = np.where(there, (np.asarray(points.y)[:, at] - mean[at]) ** 2, 0.0)
            errors[f"mse ({group})" if group else "mse"] = float((error.sum((1, 2)) / there.sum((1, 2))).mean())
    return errors
