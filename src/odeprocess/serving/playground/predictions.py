"""What a page shows of a model: draws, mean and band on a fixed grid of times, given some observations.

Shapes are few: observations are padded to buckets of 16, 32 and 64, the grid and the number of draws never change. So
everything is compiled once, by `warm_up`, and a click takes milliseconds.
"""

import dataclasses
from typing import NamedTuple

import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import bucket
from odeprocess.posterior.next_measurement import suggest
from odeprocess.posterior.posterior import Of, Posterior

from .model_view import GAUSSIAN, ModelView
from .observations import CAPACITY

GRID = 128  # times
DRAWS = 64  # behind mean and band
CANDIDATES = 61  # times that may be suggested
SEED = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What is asked of every model on the page.

    Attributes:
        t: times of the observations, `[n]`.
        y: their values in the user's units, `[n, channels]`, NaN where missing.
        static: covariates as the model takes them, `[k]`.
        level: of the band.
        of: whether the band is that of the curve or of new measurements.
    """

    t: np.ndarray
    y: np.ndarray
    static: np.ndarray
    level: float = 0.9
    of: Of = "function"


class Prediction(NamedTuple):
    """The answer of one model, in the user's units."""

    t: np.ndarray
    draws: np.ndarray  # [draws, times, channels]
    mean: np.ndarray  # [times, channels]
    low: np.ndarray
    high: np.ndarray

    @property
    def width(self) -> np.ndarray:
        """How wide the band is, `[times, channels]`."""
        return self.high - self.low


def grid(view: ModelView) -> np.ndarray:
    """The times that are drawn."""
    return np.linspace(*view.window, GRID)


def posterior_of(view: ModelView, question: Question, *, refine: bool = False) -> Posterior:
    """What the model believes, in its own units."""
    model = view.model
    origin = 0.0 if model.scaling.origin == "first" else None
    values = view.into_model(question.y)
    found = model._amortised(question.t, values, key=jr.key(SEED), static=question.static, origin=origin, draws=DRAWS)
    return found.follow("auto" if refine else "amortised")


def predict(view: ModelView, question: Question, *, times: np.ndarray | None = None, refine: bool = False) -> Prediction:
    """What the model says; on the grid of `times`, by default its own."""
    t = grid(view) if times is None else times
    posterior = posterior_of(view, question, refine=refine)
    draws = view.from_model(posterior.sample(t, of="function"))
    low, high = (view.from_model(x) for x in posterior.interval(t, question.level, of=question.of))
    found = Prediction(t, draws, draws.mean(0), low, high)
    finite = all(np.isfinite(part).all() for part in found)
    checks.require(finite, "The model has no finite answer here: its numbers overflow. Take observations that are more usual.")
    return found


def gaussian(view: ModelView, question: Question, *, times: np.ndarray | None = None) -> Prediction:
    """What a Gaussian process says that is fitted to these observations alone; it knows mean and spread of the training data.

    Raises:
        ImportError: where tinygp is not installed.
        ValueError: where its numbers overflow.
    """
    from scipy.stats import norm

    from odeprocess.experiments.baselines.gaussian_processes import per_series

    t, scaling = grid(view) if times is None else times, view.model.scaling
    low, high = view.span
    count = len(question.t)
    size = bucket(count, 16) if count else 0
    at, seen = np.zeros((1, size)), np.full((1, size, view.channels), np.nan)
    at[0, :count] = 4 * (question.t - low) / (high - low) - 2
    seen[0, :count] = scaling.values(view.into_model(question.y))
    curve = per_series(at, seen, (4 * (t - low) / (high - low) - 2)[None])
    std = np.sqrt(curve.std**2 + (curve.noise**2 if question.of == "observations" else 0.0))[0]
    reach = norm.ppf(0.5 + question.level / 2) * std
    mean, below, above = (
        view.from_model(scaling.values_to_user(x)) for x in (curve.mean[0], curve.mean[0] - reach, curve.mean[0] + reach)
    )
    finite = all(np.isfinite(part).all() for part in (mean, below, above))
    checks.require(finite, f"The {GAUSSIAN} has no finite answer here: its numbers overflow.")
    return Prediction(t, np.zeros((0, len(t), view.channels)), mean, below, above)


def suggested(view: ModelView, question: Question, *, refine: bool = False) -> float:
    """The time at which one more measurement would tell most about the whole trajectory."""
    return float(suggest(posterior_of(view, question, refine=refine), np.linspace(*view.span, CANDIDATES)).times[0])


def warm_up(view: ModelView, *, refine: bool = False) -> None:
    """Compiles all that a click may need; or what refining a few observations does, where that is on by default."""
    times = grid(view)
    for each in (view, *view.beside.values()):
        if refine and each.model.spec.prior == "learned":
            predict(each, _example(view, 1), times=times, refine=True)
        if not refine:
            for count in (16, 32, CAPACITY):
                predict(each, _example(view, count), times=times)
            predict(each, _example(view, 1, of="observations"), times=times)
    if not refine:
        suggested(view, _example(view, 1))


def _example(view: ModelView, count: int, of: Of = "function") -> Question:
    t = np.linspace(*view.span, count)
    y = np.broadcast_to(view.from_model(view.model.scaling.y_shift), (count, view.channels))
    return Question(t, y, view.usual, of=of)
