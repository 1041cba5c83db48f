"""The runner: trains what is not there yet, scores it, and leaves a folder for every cell.

A folder's `run.json` is written last and in one step: where it is, the run is whole and is not done again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.experiments.baselines.gaussian_processes import ORACLES
from odeprocess.experiments.result_files import provenance, read_json, write_json
from odeprocess.experiments.scoreboard.run import Board, run_board
from odeprocess.training.result import Fit

from . import digit_classifier
from .active_learning import query_curves
from .data_splits import Splits, split
from .plan import Cell, Experiment
from .test_errors import frames_of, score
from .training_times import time_task

RUN = "run.json"
Advance = Callable[[float, str], None]  # work done, and a note


def run_folder(out: Path, key: str) -> Path:
    """Where the run named `key` is kept."""
    return out / "runs" / key


def finished(out: Path, key: str) -> dict[str, Any] | None:
    """What the run named `key` found, or `None` if it is still to be done."""
    return read_json(run_folder(out, key) / RUN)


def jobs(experiment: Experiment, out: Path) -> list[tuple[str, float, Callable[[Advance], dict[str, Any]]]]:
    """Everything the experiment needs, as (key, work, function): a cell each, then what builds on them."""
    found: list[Any] = []
    if experiment.kind == "timing":
        for task in dict.fromkeys(cell.task for cell in experiment.cells):
            cells = [cell for cell in experiment.cells if cell.task == task]
            repeats = 1 if experiment.quick else 5
            key = f"timing-{task}-{'-'.join(c.key[-4:] for c in cells)}-{repeats}"
            work = sum(cell.work for cell in cells) * (repeats + 1)
            found.append((key, work, lambda advance, cells=cells, repeats=repeats: time_task(cells, repeats, advance)))
        return found
    if experiment.kind == "accuracy":
        return _boards(experiment, out)
    found = [(cell.key, cell.work, lambda advance, cell=cell: _train(cell, out, advance)) for cell in experiment.cells]
    if experiment.kind == "active":
        queries, count = experiment.settings["queries"], 8 if experiment.quick else 200
        for cell in experiment.cells:

            def ask(advance: Advance, cell: Cell = cell) -> dict[str, Any]:
                return query_curves(cell, run_folder(out, cell.key), queries, count)

            found.append((f"queries-{cell.key}-{queries}-{count}", cell.work / 10, ask))
    return found


def _boards(experiment: Experiment, out: Path) -> list[Any]:
    """The scoreboard's jobs: each model on each task, without noise and with it."""
    settings, found = experiment.settings, []
    seeds = tuple(range(experiment.seeds))
    for task in settings["quick"]["tasks"] if experiment.quick else settings["tasks"]:
        for noise in settings["noise"]:
            for name in settings["variants"]:
                if name == "gp-oracle" and task not in ORACLES:
                    continue
                count = 4 if experiment.quick else settings["gp_series" if name == "gp-series" else "series"]
                board = Board(task, noise, count, experiment.quick)
                trained = "" if name.startswith("gp-") else f"-{len(seeds)}"
                key = f"accuracy-{task}-{noise}-{name}-{count}{trained}{'-quick' if experiment.quick else ''}"

                def job(advance: Advance, board: Board = board, name: str = name, key: str = key) -> dict[str, Any]:
                    def told(note: str) -> None:
                        advance(1e-3, f"{name}, {note}")

                    return run_board(board, name, seeds, run_folder(out, key), told)

                found.append((key, 1.0, job))
    return found


def run(experiment: Experiment, out: Path, advance: Advance) -> None:
    """Does what is missing."""
    for key, work, job in jobs(experiment, out):
        if finished(out, key) is None:
            write_json(run_folder(out, key) / RUN, {**job(advance), **provenance()})
        else:
            advance(work, f"{key}: already there")


def collect(experiment: Experiment, out: Path) -> dict[str, dict[str, Any]]:
    """What every finished job of the experiment found, by key."""
    found = ((key, finished(out, key)) for key, _, _ in jobs(experiment, out))
    return {key: done for key, done in found if done is not None}


_last_split: dict[Any, Splits] = {}


def _data(cell: Cell) -> Splits:
    """The cell's data; cells of a task follow each other, so only the latest is kept."""
    if cell.protocol not in _last_split:
        data = split(cell.protocol)
        _last_split.clear()
        _last_split[cell.protocol] = data
    return _last_split[cell.protocol]


def _train(cell: Cell, out: Path, advance: Advance) -> dict[str, Any]:
    data, epochs = _data(cell), cell.protocol.epochs

    def told(note: str) -> None:
        advance(cell.work / epochs, f"{cell.task}, {cell.variant}: {note}")

    fit = cell.protocol.fit(cell.spec, data.train, validation=data.validation, seeds=cell.seeds, progress=told)
    _save(fit, run_folder(out, cell.key))
    tests = {
        name: [None if model is None else score(model, test, draws=cell.protocol.draws) for model in fit.models]
        for name, test in data.tests.items()
    }
    if cell.classify:
        tests["read"] = [_read(model, data, cell.protocol.train) for model in fit.models]
    return {
        "task": cell.task,
        "variant": cell.variant,
        "seeds": list(cell.seeds),
        "tests": tests,
        "training_mean": {name: mean_error(data, name) for name in data.tests},
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
    """Keeps the models for the pictures: all of them, or only the best where they are large."""
    large = fit.model.num_parameters > 200_000
    for i, model in enumerate(fit.models):
        if model is not None and (not large or i == fit.best):
            model.save(folder / f"model-{i}")


def _read(model: Any, data: Splits, size: int) -> dict[str, float] | None:
    """The share of frames that a classifier reads as the digit they show, of the model's and of the true ones."""
    if model is None:
        return None
    test, found = data.tests["test"], {}
    net = digit_classifier.trained(steps=2000 if size > 100 else 2)
    drawn, true = frames_of(model, test.tasks), np.asarray(test.tasks.points.y)
    for group, chosen in test.groups.items():
        suffix = f" ({group})" if group else ""
        found[f"read_as_3{suffix}"] = digit_classifier.share_read_as(net, drawn[:, chosen], 3)
        found[f"read_as_3, true frames{suffix}"] = digit_classifier.share_read_as(net, true[:, chosen], 3)
    return found


def mean_error(data: Splits, name: str) -> dict[str, float]:
    """The squared error of always predicting the mean of the training series at that point."""
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
