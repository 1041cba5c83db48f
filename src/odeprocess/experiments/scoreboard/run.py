"""The scoreboard: every model on every task, given more and more of each series, inside it and ahead of it."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

from odeprocess.data import SOURCES
from odeprocess.data.scaling import Scaling
from odeprocess.data.series import Series
from odeprocess.experiments.baselines import attentive_neural_process, gaussian_processes
from odeprocess.experiments.paper.protocol import protocol
from odeprocess.posterior.model import Model, load
from odeprocess.training.fit import fit
from odeprocess.training.model_selection import held_back, winners
from odeprocess.training.recipes import recipe
from odeprocess.training.result import Fit

from .prediction_scores import FLOOR, of_draws, of_normal

SPLITS = ("interpolation", "forecast")
DRAWS = 128
SERIES_AT_ONCE = 250
LONG = 20  # observations: records of so many or more share one compilation
STEPS, BASELINE_STEPS = 2000, 3000
PAPER = {"paper-ndp": "ndp", "paper-np": "np"}


@dataclasses.dataclass(frozen=True)
class Board:
    """One task with one noise: the data and the cells to be filled.

    Attributes:
        task: the name of a source.
        noise: standard deviation of the noise on every value.
        count: fresh series to score.
        quick: a rehearsal of two cells.
    """

    task: str
    noise: float
    count: int
    quick: bool = False

    @property
    def contexts(self) -> tuple[int, ...]:
        """Numbers of observations given."""
        if self.quick:
            return (0, 3)
        return (0, 1, 2, 3, 5, 10) + ((20, 50, 90) if self.task == "lotka-volterra" else ())

    @property
    def train(self) -> Series:
        """The training series: as many as in the paper."""
        return SOURCES[self.task].sample(protocol(self.task).train, key=jr.key(0), noise=self.noise)

    @property
    def test(self) -> Series:
        """Fresh series."""
        return SOURCES[self.task].sample(self.count, key=jr.key(2), noise=self.noise)

    def given(self, split: str, context: int) -> np.ndarray:
        """Which points of each test series are given, `[series, n]`."""
        length = SOURCES[self.task].num_points
        if split == "forecast":
            return np.broadcast_to(np.arange(length) < context, (self.count, length))
        rank = np.argsort(np.argsort(np.random.default_rng(5).random((self.count, length)), 1), 1)
        return rank < context

    def cells(self) -> list[tuple[str, int]]:
        """(split, context): without any observation there is nothing to be ahead of."""
        return [(s, n) for s in SPLITS for n in self.contexts if s == "interpolation" or n > 0]


def train(board: Board, name: str, seeds: tuple[int, ...], told: Callable[[str], None]) -> Fit:
    """Trains one of the other models."""
    series = board.train
    if name in PAPER:
        plan = protocol(board.task)
        plan = plan.replace(epochs=2) if board.quick else plan
        return plan.fit(PAPER[name], series, seeds=seeds, progress=told)
    plan = recipe(series, spec=name, steps=20 if board.quick else BASELINE_STEPS)
    plan = {**plan, "options": dataclasses.replace(plan["options"], em_epochs=0)}
    return fit(series=series, seeds=seeds, progress=told, **plan)


def score_model(model: Model, board: Board, *, refined: bool, told: Callable[[str], None]) -> dict[str, dict[str, list[float]]]:
    """Scores by cell: `"split context"` → metric → a number a series."""
    test, found = board.test, {}
    t, y = np.asarray(test.t, np.float64), np.asarray(test.y, np.float64)
    floor = FLOOR * np.asarray(_spread(board))
    for split, context in board.cells():
        given = board.given(split, context)
        width = context if context < LONG else t.shape[1]
        index, parts = np.argsort(~given, 1, kind="stable")[:, :width], []
        nothing = np.where(np.arange(width) < context, 0.0, np.nan)[:, None]
        for i in range(0, len(t), SERIES_AT_ONCE):
            part = slice(i, i + SERIES_AT_ONCE)
            seen_t, seen_y = np.take_along_axis(t[part], index[part], 1), np.take_along_axis(y[part], index[part, :, None], 1)
            posterior = model.condition(seen_t, seen_y + nothing, key=jr.key(i), draws=DRAWS)
            posterior = posterior.refine() if refined else posterior
            draws = np.asarray(posterior.sample(t[0], of="function"), np.float64)
            inside = np.asarray(posterior.std(t[0], of="function"), np.float64)
            noise = np.sqrt(np.maximum(np.asarray(posterior.std(t[0])) ** 2 - inside**2, floor**2))[:, None]
            low, high = posterior.interval(t[0])
            chosen = np.broadcast_to(~given[part, :, None], y[part].shape)
            parts.append(of_draws(draws, noise, low, high, y[part], chosen))
        found[f"{split} {context}"] = {name: np.concatenate([p[name] for p in parts]).tolist() for name in parts[0]}
        told(f"{board.task}, {split} from {context}")
    return found


def score_attentive(board: Board, seed: int, told: Callable[[str], None]) -> dict[str, dict[str, list[float]]]:
    """The same for an attentive neural process, which it trains."""
    series, test, found = board.train, board.test, {}
    scaling = Scaling.fit(series)
    steps = 20 if board.quick else BASELINE_STEPS
    model = attentive_neural_process.trained(scaling.apply(series), recipe(series)["sampler"], steps, seed)
    fresh, truth, spread = scaling.apply(test), np.asarray(test.y, np.float64), _spread(board)
    t, y = np.asarray(fresh.t, np.float64), np.asarray(fresh.y, np.float64)
    rng = np.random.default_rng(0)
    for split, context in board.cells():
        given = board.given(split, context)
        index = np.argsort(~given, 1, kind="stable")[:, :context]
        seen_t, seen_y = np.take_along_axis(t, index, 1), np.take_along_axis(y, index[..., None], 1)
        parts = []
        for i in range(0, len(t), SERIES_AT_ONCE):
            part = slice(i, i + SERIES_AT_ONCE)
            loc, std = attentive_neural_process.draws(model, seen_t[part], seen_y[part], t[part], key=jr.key(i), n=DRAWS)
            low, high = np.quantile(loc + std * rng.standard_normal(loc.shape), [0.05, 0.95], axis=1)
            loc, low, high = (np.asarray(scaling.values_to_user(x), np.float64) for x in (loc, low, high))
            chosen = np.broadcast_to(~given[part, :, None], y[part].shape)
            parts.append(of_draws(loc, np.maximum(std, FLOOR) * spread, low, high, truth[part], chosen))
        found[f"{split} {context}"] = {name: np.concatenate([p[name] for p in parts]).tolist() for name in parts[0]}
    told(f"{board.task}, seed {seed}")
    return found


def score_gaussian(board: Board, name: str, told: Callable[[str], None]) -> dict[str, dict[str, list[float]]]:
    """The same for Gaussian processes: fitted to each series alone, with learned hyper-parameters, or of the true family."""
    train_series, test, found = board.train, board.test, {}
    scaling = Scaling.fit(train_series)
    known, fresh = scaling.apply(train_series), scaling.apply(test)
    among = (gaussian_processes.ORACLES[board.task],) if name == "gp-oracle" else gaussian_processes.KERNELS
    arrays = np.asarray(known.t, np.float64), np.asarray(known.y, np.float64)
    hyper = None if name == "gp-series" else gaussian_processes.learned(*arrays, among)
    t, y = np.asarray(fresh.t, np.float64), np.asarray(fresh.y, np.float64)
    spread, truth = np.asarray(_spread(board)), np.asarray(test.y, np.float64)
    for split, context in board.cells():
        given = board.given(split, context)
        index = np.argsort(~given, 1, kind="stable")[:, :context]
        seen_t, seen_y = np.take_along_axis(t, index, 1), np.take_along_axis(y, index[..., None], 1)
        curve = (
            gaussian_processes.per_series(seen_t, seen_y, t)
            if hyper is None
            else gaussian_processes.shared(hyper, seen_t, seen_y, t)
        )
        std = np.sqrt(curve.std**2 + np.maximum(curve.noise, FLOOR) ** 2) * spread
        mean = np.asarray(scaling.values_to_user(curve.mean), np.float64)
        chosen = np.broadcast_to(~given[..., None], y.shape)
        found[f"{split} {context}"] = {k: v.tolist() for k, v in of_normal(mean, std, truth, chosen).items()}
        told(f"{board.task}, {split} from {context}")
    return found


def _spread(board: Board) -> np.ndarray:
    """The standard deviation of each channel over the training series, by which values are scaled."""
    return np.asarray(board.train.y, np.float64).std((0, 1))


def trained(board: Board, name: str, seeds: tuple[int, ...], folder: Path, told: Callable[[str], None]) -> list[Model]:
    """The models of a job, without those that broke down; kept in `folder`, and found there if all of them were kept before.

    So they may be trained on one machine and scored on another, and what stops scoring does not undo training.
    """
    places = [folder / f"model-{i}" for i in range(len(seeds))]
    if all(place.exists() for place in places):
        return [load(place) for place in places]
    if name == "default":
        kept, held = held_back(board.train)
        models = winners(kept, held, steps=20 if board.quick else STEPS, seeds=seeds, progress=told)
    else:
        models = train(board, name, seeds, told).models
    for place, model in zip(places, models, strict=True):
        if model is not None:
            model.save(place)
    return [model for model in models if model is not None]


def run_board(board: Board, name: str, seeds: tuple[int, ...], folder: Path, told: Callable[[str], None]) -> dict[str, Any]:
    """Trains a model where it needs training, and scores it: what a job of the scoreboard leaves behind."""
    about = {"task": board.task, "noise": board.noise, "variant": name, "series": board.count}
    if name.startswith("gp-"):
        return {**about, "seeds": 1, "scores": {name: [score_gaussian(board, name, told)]}}
    if name == "anp":
        return {**about, "seeds": len(seeds), "scores": {name: [score_attentive(board, seed, told) for seed in seeds]}}
    began, (kept, held) = time.perf_counter(), held_back(board.train)
    models = trained(board, name, seeds, folder, told)
    ways = {"default": True, "default-amortised": False} if name == "default" else {name: False}
    seconds, scores = time.perf_counter() - began, {way: [] for way in ways}
    for model in models:
        for way, refined in ways.items():
            if name == "default" and not board.quick:
                model = model.calibrated(held, seen=kept, refined=refined, draws=DRAWS)
            scores[way].append(score_model(model, board, refined=refined, told=told))
    return {**about, "seeds": len(scores[name]), "scores": scores, "train_seconds": seconds}
