"""The predictions that the page shows: draws, mean and band at fixed times, given the observations.

Shapes are few: observations are padded to 16, 32 or 64, and the numbers of times and draws never change. So everything is
compiled once, by `warm_up`, and a click takes milliseconds.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import bucket
from odeprocess.posterior.next_measurement import suggest
from odeprocess.posterior.posterior import DRAWS, Of, Posterior
from odeprocess.posterior.series_keys import series_key

from .model_view import GAUSSIAN_PROCESS, ModelView
from .observations import MAX_OBSERVATIONS

NUM_TIMES = 128  # at which curves are drawn; chosen by hand
NUM_DRAWS = DRAWS  # from which mean and band are computed
NUM_CANDIDATES = 61  # times that may be suggested; chosen by hand
SEED = 0  # of the draws, so that the same observations show the same draws,
SERIES = "series"  # which are those of a series of this name in a table, a stream or a server


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """The observations and settings for which models predict.

    Attributes:
        t: times of the observations, `[n]`.
        y: their values in the user's units, `[n, channels]`, NaN where missing.
        static: covariates as the model takes them, `[k]`.
        level: the probability that the band holds.
        of: whether the band is of the curve or of new measurements.
    """

    t: np.ndarray
    y: np.ndarray
    static: np.ndarray
    level: float = 0.9
    of: Of = "function"


class Prediction(NamedTuple):
    """The prediction of one model, in the user's units."""

    t: np.ndarray
    draws: np.ndarray  # [draws, times, channels]
    mean: np.ndarray  # [times, channels]
    low: np.ndarray
    high: np.ndarray

    @property
    def width(self) -> np.ndarray:
        """The width of the band, `[times, channels]`."""
        return self.high - self.low


def time_grid(view: ModelView) -> np.ndarray:
    """The times at which curves are drawn."""
    return np.linspace(*view.window, NUM_TIMES)


def condition(view: ModelView, question: Question, *, exact: bool = False) -> Posterior:
    """Returns the model's posterior, given the observations."""
    model = view.model
    origin = 0.0 if model.scaling.origin == "first" else None
    values = view.units.to_model(question.y)
    options = {"key": series_key(SERIES, SEED), "static": question.static, "origin": origin, "draws": NUM_DRAWS}
    return model.condition(question.t, values, **options, inference="auto" if exact else "amortised")


def predict(view: ModelView, question: Question, *, times: np.ndarray | None = None, exact: bool = False) -> Prediction:
    """Returns the model's prediction at `times`, by default those of its own grid."""
    t = time_grid(view) if times is None else times
    posterior = condition(view, question, exact=exact)
    draws = view.units.sample(posterior, t, of="function")
    low, high = view.units.interval(posterior, t, question.level, of=question.of)
    found = Prediction(t, draws, draws.mean(0), low, high)
    finite = all(np.isfinite(part).all() for part in found)
    checks.require(finite, "The model's numbers overflow here. Take observations that are closer to those of training.")
    return found


def predict_gaussian_process(view: ModelView, question: Question, *, times: np.ndarray | None = None) -> Prediction:
    """Returns the prediction of a Gaussian process that is fitted to these observations only.

    Mean and standard deviation of the training values are those of the model.

    Raises:
        ImportError: if tinygp is not installed.
        ValueError: if its numbers overflow.
    """
    from scipy.stats import norm

    from odeprocess.experiments.baselines.gaussian_processes import predict_each_series

    t, scaling = time_grid(view) if times is None else times, view.model.scaling
    low, high = view.span

    def scale_times(t: np.ndarray) -> np.ndarray:
        return 4 * (t - low) / (high - low) - 2

    count = len(question.t)
    size = bucket(count, 16) if count else 0
    observed_t, observed_y = np.zeros((1, size)), np.full((1, size, view.channels), np.nan)
    observed_t[0, :count] = scale_times(question.t)
    observed_y[0, :count] = scaling.values(view.units.to_model(question.y))
    curve = predict_each_series(observed_t, observed_y, scale_times(t)[None])
    std = np.sqrt(curve.std**2 + (curve.noise**2 if question.of == "observations" else 0.0))[0]
    margin = norm.ppf(0.5 + question.level / 2) * std
    ends = (curve.mean[0], curve.mean[0] - margin, curve.mean[0] + margin)
    mean, below, above = (view.units.to_user(scaling.values_to_user(x)) for x in ends)
    finite = all(np.isfinite(part).all() for part in (mean, below, above))
    checks.require(finite, f"The numbers of the {GAUSSIAN_PROCESS} overflow here.")
    return Prediction(t, np.zeros((0, len(t), view.channels)), mean, below, above)


def suggest_time(view: ModelView, question: Question, *, exact: bool = False) -> float:
    """Returns the time at which one more measurement reduces the uncertainty about the whole trajectory most."""
    return float(suggest(condition(view, question, exact=exact), np.linspace(*view.span, NUM_CANDIDATES)).times[0])


def warm_up(view: ModelView, *, exact: bool = False) -> None:
    """Compiles what a click needs; or, with `exact`, exact inference, for models that use it by default."""
    times = time_grid(view)
    for each in (view, *view.beside.values()):
        if exact and each.model.spec.prior == "learned":
            predict(each, _example(view, 1), times=times, exact=True)
        if not exact:
            for count in (16, 32, MAX_OBSERVATIONS):
                predict(each, _example(view, count), times=times)
            predict(each, _example(view, 1, of="observations"), times=times)
    if not exact:
        suggest_time(view, _example(view, 1))


def _example(view: ModelView, count: int, of: Of = "function") -> Question:
    t = np.linspace(*view.span, count)
    y = np.broadcast_to(view.units.to_user(view.model.scaling.y_shift), (count, view.channels))
    return Question(t, y, view.typical_static, of=of)
