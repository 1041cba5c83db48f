"""Scores of each model on a task of the scoreboard, cell by cell: a cell is a split and a number of given points."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from odeprocess.data.scaling import Scaling
from odeprocess.experiments.baselines import attentive_neural_process, gaussian_processes
from odeprocess.experiments.baselines.attentive_neural_process import AttentiveNeuralProcess
from odeprocess.posterior.latent_posterior import Inference
from odeprocess.posterior.model import Model

from .models import DRAWS, Progress
from .series_scores import NOISE_FLOOR, score_draws, score_normals
from .tasks import ScoreboardTask

SERIES_AT_ONCE = 250  # bounds the memory of a prediction
PADDED_FROM = 20  # contexts of so many points or more are padded to the series' length, so that they share one compilation

CellScores = dict[str, dict[str, list[float]]]  # "split context" → metric → a number for each series


class Query(NamedTuple):
    """What a model is asked about some of a task's series.

    Attributes:
        part: the series.
        context: how many points of each are given.
        order: indices of each series' points, given ones first, `[series, n]`.
        scored: the values that are predicted and scored, `[series, n, channels]`.
    """

    part: slice
    context: int
    order: np.ndarray
    scored: np.ndarray

    def take(self, values: np.ndarray, width: int | None = None) -> np.ndarray:
        """The values at the first `width` points in `order`, by default at the given ones."""
        order = self.order[:, : self.context if width is None else width]
        return np.take_along_axis(values[self.part], order[(...,) + (None,) * (values.ndim - 2)], 1)


def score_cells(
    task: ScoreboardTask,
    predict_and_score: Callable[[Query], dict[str, np.ndarray]],
    progress: Progress,
    *,
    series_at_once: int | None = None,
) -> CellScores:
    """Scores every cell of a task.

    Arguments:
        task: the data.
        predict_and_score: from a query to a number for each series, by metric.
        progress: called after each cell.
        series_at_once: how many series a query holds at most; all of them by default.
    """
    found, channels = {}, task.test.channels
    for split, context in task.cells():
        given, parts = task.given(split, context), []
        for start in range(0, len(given), series_at_once or len(given)):
            part = slice(start, start + (series_at_once or len(given)))
            order = np.argsort(~given[part], 1, kind="stable")
            scored = np.broadcast_to(~given[part, :, None], (*order.shape, channels))
            parts.append(predict_and_score(Query(part, context, order, scored)))
        found[f"{split} {context}"] = {name: np.concatenate([p[name] for p in parts]).tolist() for name in parts[0]}
        progress(f"{task.name}, {split} from {context}")
    return found


def score_model(model: Model, task: ScoreboardTask, *, inference: Inference, progress: Progress) -> CellScores:
    """Scores a model of ours, with exact or with amortised inference."""
    test, floor = task.test, NOISE_FLOOR * task.spread
    t, y = np.asarray(test.t, np.float64), np.asarray(test.y, np.float64)

    def predict_and_score(query: Query) -> dict[str, np.ndarray]:
        width = query.context if query.context < PADDED_FROM else t.shape[1]
        padding = np.where(np.arange(width) < query.context, 0.0, np.nan)[:, None]
        seen_t, seen_y = query.take(t, width), query.take(y, width) + padding
        key = jr.key(query.part.start)
        posterior = model.condition(seen_t, seen_y, key=key, draws=DRAWS, inference=inference)
        draws = np.asarray(posterior.sample(t[0], of="function"), np.float64)
        function_std = np.asarray(posterior.std(t[0], of="function"), np.float64)
        noise = np.sqrt(np.maximum(np.asarray(posterior.std(t[0])) ** 2 - function_std**2, floor**2))[:, None]
        low, high = posterior.interval(t[0])
        return score_draws(draws, noise, low, high, y[query.part], query.scored)

    return score_cells(task, predict_and_score, progress, series_at_once=SERIES_AT_ONCE)


def score_attentive(model: AttentiveNeuralProcess, task: ScoreboardTask, progress: Progress) -> CellScores:
    """Scores an attentive neural process."""
    test, scaling, rng = task.test, Scaling.fit(task.train), np.random.default_rng(0)
    t, y, truth, spread = *_scaled(scaling, test), np.asarray(test.y, np.float64), task.spread

    def predict_and_score(query: Query) -> dict[str, np.ndarray]:
        key = jr.key(query.part.start)
        loc, std = attentive_neural_process.draw(model, query.take(t), query.take(y), t[query.part], key=key, n=DRAWS)
        low, high = np.quantile(loc + std * rng.standard_normal(loc.shape), [0.05, 0.95], axis=1)
        loc, low, high = (np.asarray(scaling.values_to_user(x), np.float64) for x in (loc, low, high))
        return score_draws(loc, np.maximum(std, NOISE_FLOOR) * spread, low, high, truth[query.part], query.scored)

    return score_cells(task, predict_and_score, progress, series_at_once=SERIES_AT_ONCE)


def score_gaussian_process(name: str, task: ScoreboardTask, progress: Progress) -> CellScores:
    """Fits and scores Gaussian processes: to each series alone, with shared hyper-parameters, or with the true kernel."""
    train, test, scaling = task.train, task.test, Scaling.fit(task.train)
    kernels = (gaussian_processes.TRUE_KERNELS[task.name],) if name == "gp-oracle" else gaussian_processes.KERNELS
    shared = None if name == "gp-series" else gaussian_processes.fit_shared(*_scaled(scaling, train), kernels)
    t, y, truth, spread = *_scaled(scaling, test), np.asarray(test.y, np.float64), task.spread

    def predict_and_score(query: Query) -> dict[str, np.ndarray]:
        points = query.take(t), query.take(y), t[query.part]
        if shared is None:
            curve = gaussian_processes.predict_each_series(*points)
        else:
            curve = gaussian_processes.predict_with_shared(shared, *points)
        std = np.sqrt(curve.std**2 + np.maximum(curve.noise, NOISE_FLOOR) ** 2) * spread
        mean = np.asarray(scaling.values_to_user(curve.mean), np.float64)
        return score_normals(mean, std, truth[query.part], query.scored)

    return score_cells(task, predict_and_score, progress)


def _scaled(scaling: Scaling, series: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scaled times and values in float64."""
    scaled = scaling.apply(series)
    return np.asarray(scaled.t, np.float64), np.asarray(scaled.y, np.float64)
