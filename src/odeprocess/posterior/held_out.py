"""What held-out series teach about a model's certainty: they are asked about, given more and more of them."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from odeprocess.common import checks
from odeprocess.data.scaling import series_origins
from odeprocess.data.series import Series, bucket, filled_up, pack
from odeprocess.inference.noise_scale import NoiseScale

from . import latent_posterior
from .calibration import COUNTS, Calibration, HeldOutErrors, PredictionPlaces, fit_noise_scale
from .posterior import Posterior

LEAST_HALF = 0.05  # of an interval, on either side of the mean
SCORED_COUNTS = (1, 3, 10)  # observations that are given when models are compared, beside half of a series
LEAST_DENSITY = -20.0  # nats: one value that a sharp model gets wrong does not decide about it
AGAIN, MOST_ASKED = 4, 240  # times that a series is asked about anew, given other points of it; and series in all
WITH_SEEN = 120  # series that are asked about, if they may be filled up with such that were trained on
TIMES = 32  # of a series that are asked about at once: neighbours tell the same
MANY = 20  # observations from which a series is asked about once: given others of them it would tell the same
MODE_STEPS = 8  # double steps of the solver, in search of one


def held_out_errors(model: Any, series: Series, seen: Series | None, *, inference: str, key: Any, draws: int) -> HeldOutErrors:
    """The errors of a model's predictions on held-out series, and on some that it has seen."""
    exact = inference == "exact"
    ask, number = Questions(model, key, draws, exact), len(series)
    noise_scale = ask.noise_scale(series) if exact else None
    more = 0 if seen is None else min(len(seen), max(0, WITH_SEEN - number))
    if seen is not None and more:
        series = _together(series, seen[np.linspace(0, len(seen) - 1, more).astype(int)])
    shape, series = series.t.shape, _padded(series)
    t, observed = np.asarray(series.t, np.float64), np.asarray(series.observed)
    horizon = float((t[observed].max() - t[observed].min()) or 1.0)
    bare = Calibration.none(horizon, noise_scale)
    ask = dataclasses.replace(ask, model=dataclasses.replace(model, calibrations={"exact": bare}))
    rng, questions = np.random.default_rng(0), []
    # Before any observation an exact posterior is what all training series showed: fewer series cannot correct that.
    all_ = seen is not None and more == len(seen)
    tried = COUNTS[1:] if exact and model.process.mixture is not None and not all_ else COUNTS
    for count in tried[observed.sum(-1).max() > tried]:
        repeats = 1 if more or count >= MANY else max(1, min(MOST_ASKED // shape[0], AGAIN))
        questions += [(_ordered(t, order), count, 1) for order in rng.random((repeats, *shape))]
        questions += [(t, count, repeats)]  # either kind weighs the same
    checks.require(bool(questions), "The series have a single observation each: nothing is left to calibrate on.")
    answers = at_once(lambda asked: ask.held_out_errors(series, *asked[:2]), questions)
    evidence = [(count, *found) for (_, count, times), found in zip(questions, answers, strict=True) for _ in range(times)]
    counts = np.concatenate([np.full(len(held_out_errors), count) for count, *_, held_out_errors, _ in evidence])
    _, *places, held_out_errors, who = (np.hstack(x) for x in zip(*evidence, strict=True))
    return HeldOutErrors(counts, PredictionPlaces(*places), held_out_errors, who, horizon, noise_scale).match_scale(number)


def log_predictive_densities(model: Any, series: Series, *, key: Any, draws: int = 64) -> np.ndarray:
    """Log predictive densities of held-out series, a number for each question and series.

    Given 1, 3 or 10 observations, or half of them, anywhere in a series or at its beginning: the mean over all other values of
    a series, in nats a value of standardised data and with the inference that the model uses by default. No calibration, but the
    noise scale that exact inference learns from whole series.
    """
    exact = latent_posterior.choose_inference(model.process, "auto") == "exact"
    ask = Questions(model, key, draws, exact)
    noise_scale = ask.noise_scale(series) if exact else None
    shape, series = series.t.shape, _padded(series)
    (t, y), observed = _values(series), np.asarray(series.observed)
    checks.require(bool((observed.sum(-1) > 1).any()), "The held-out series have one observation each: nothing is left to ask.")
    calibrations = {"exact": Calibration.none(1.0, noise_scale)} if exact else {}
    ask = dataclasses.replace(ask, model=dataclasses.replace(model, calibrations=calibrations))
    longest = int(np.flatnonzero(observed.any(0)).max()) + 1
    some = np.unique(np.linspace(0, longest - 1, min(TIMES, longest)).astype(int))
    shift = np.log(np.asarray(model.scaling.y_scale, np.float64))

    def densities(question):
        order, count = question
        posterior, given = ask.after(series, order, count, t.shape[1])
        posterior = posterior.follow("auto")
        chosen = ((~given & observed)[..., None] & np.isfinite(y))[:, some]
        each = np.asarray(posterior.log_prob(t[:, some], np.where(chosen, y[:, some], np.nan), joint=False), np.float64) + shift
        each = np.where(chosen, np.maximum(np.nan_to_num(each, nan=LEAST_DENSITY), LEAST_DENSITY), 0.0)
        scored = chosen.any((1, 2)) & given.any(1)
        return each[scored].sum((1, 2)) / chosen[scored].sum((1, 2))

    most, half = int(observed.sum(-1).max()), observed.sum(-1) // 2
    random = _ordered(t, np.random.default_rng(0).random(shape))
    counts = [*(np.full(len(half), count) for count in SCORED_COUNTS if count < most), half]
    return np.concatenate(at_once(densities, [(order, count) for count in counts for order in (random, t)]))


@dataclasses.dataclass(frozen=True)
class Questions:
    """How a `Model` is asked about series whose end is known."""

    model: Any
    key: Any
    draws: int
    exact: bool

    def posterior(self, series: Series, t: np.ndarray, y: np.ndarray) -> Posterior:
        """The model's answer to observations of some series, which keep their own clock."""
        origin = None
        if self.model.scaling.origin == "first":
            origin = series_origins(np.asarray(series.t, np.float64), np.asarray(series.observed), "first")
            origin = np.where(np.isfinite(origin), origin, 0.0)  # of series that only pad
        return self.model._amortised(t, y, key=self.key, static=series.static, origin=origin, draws=self.draws)

    def noise_scale(self, series: Series) -> NoiseScale:
        """How well whole series can be fitted."""
        count, series = len(series), _padded(series)
        _, costs = self.likeliest(self.posterior(series, *_values(series)), series.t.shape[1])
        return fit_noise_scale(np.asarray(costs, np.float64)[:count], np.asarray(series.mask).sum((1, 2))[:count])

    def likeliest(self, found: Posterior, least: int) -> tuple[Posterior, Any]:
        """A posterior that is its highest peak alone, and how badly that fits."""
        belief = latent_posterior.amortised(found.process, found.record, found.summary)
        mode, costs = latent_posterior.modes(found.process, found.record, belief, found.keys, MODE_STEPS, least)
        return dataclasses.replace(found, belief=mode, draws=1, steps=MODE_STEPS, _last={}), costs

    def after(self, series: Series, order: np.ndarray, count: Any, width: int = 0) -> tuple[Posterior, np.ndarray]:
        """The encoder's answer to the first `count` points by `order` (one number, or one for each series), and which those are.

        The record is as wide as `count`, or as `width`, with nothing in the rest: so that several share one compilation.
        """
        (t, y), observed = _values(series), np.asarray(series.observed)
        rank = np.argsort(np.argsort(np.where(observed, order, np.inf), 1), 1)
        given = (rank < np.broadcast_to(count, len(t))[:, None]) & observed
        index = np.argsort(~given, 1, kind="stable")[:, : max(np.max(count), width)]
        seen = np.where(np.take_along_axis(given, index, 1)[..., None], np.take_along_axis(y, index[..., None], 1), np.nan)
        return self.posterior(series, np.take_along_axis(t, index, 1), seen), given

    def held_out_errors(self, series: Series, order: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
        """Given the first `count` points by `order`: gap, side, span, miss and series of every other value, flat."""
        (t, y), observed = _values(series), np.asarray(series.observed)
        posterior, given = self.after(series, order, count, t.shape[1])
        posterior = posterior.follow("exact") if self.exact else posterior
        longest = int(np.flatnonzero(observed.any(0)).max()) + 1
        some = np.unique(np.linspace(0, longest - 1, min(TIMES, longest)).astype(int))
        places = [x[:, some] for x in PredictionPlaces.of(t, t, given)]
        t, y, chosen = t[:, some], y[:, some], (~given & observed)[:, some]
        (low, high), mean = posterior.interval(t), posterior.mean(t)
        # Spread is corrected around the mean, which in a skewed belief is not in the middle of the interval.
        half = np.maximum(np.where(y < mean, mean - low, high - mean), LEAST_HALF * (high - low))
        miss = np.abs(y - mean) / half
        places = [np.broadcast_to(x[..., None], y.shape) for x in places]
        chosen = chosen[..., None] & np.isfinite(miss)
        who = np.broadcast_to(np.arange(len(t))[:, None, None], y.shape)
        return tuple(x[chosen] for x in (*places, miss, who))


def at_once(answer: Callable[[Any], Any], questions: Sequence[Any]) -> list[Any]:
    """The answers to questions that take long, several at a time: one alone keeps one core of a processor busy.

    The first is answered alone, since it may compile what the others need.
    """
    double = jax.config.read("jax_enable_x64")  # threads do not know in what context they were started

    def one(question):
        with jax.enable_x64(double):
            return answer(question)

    with ThreadPoolExecutor(os.cpu_count() if jax.default_backend() == "cpu" else 1) as pool:
        return [pool.submit(one, each).result() for each in questions[:1]] + list(pool.map(one, questions[1:]))


def _together(first: Series, second: Series) -> Series:
    """Two batches as one."""
    length = max(first.t.shape[1], second.t.shape[1])
    parts = [pack(*_values(each), np.asarray(each.static), length) for each in (first, second)]
    return jax.tree.map(lambda a, b: np.concatenate([a, b]), *parts)


def _padded(series: Series) -> Series:
    """The same questions in one of few sizes, so that those to other series share compiled programs."""
    return filled_up(series, bucket(len(series), powers=16), bucket(series.t.shape[1], 8))


def _ordered(t: np.ndarray, order: np.ndarray) -> np.ndarray:
    """An order of points, as many as there are `t`."""
    more = [(0, whole - part) for whole, part in zip(t.shape, order.shape, strict=True)]
    return np.pad(order, more, constant_values=np.inf)


def _values(series: Series) -> tuple[np.ndarray, np.ndarray]:
    """Times and values, NaN where missing."""
    return np.asarray(series.t, np.float64), np.where(series.mask, np.asarray(series.y, np.float64), np.nan)
