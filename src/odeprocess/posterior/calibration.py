"""Calibration: how much wider or narrower predictions have to be to hold what they promise.

A model is asked about series it has not seen, given more and more of them. Where its 90 % intervals hold too little or
too much, the spread around the mean is multiplied by the factor that puts it right, which depends on the number of
observations, on how far the asked time lies from the nearest of them, and on whether it lies between them, beyond them, or
beyond a few that are close together, as at the beginning of a record.
The factor is a quantile of past misses, set a little higher where series are few; where there are hardly any, it leans
on its neighbours.
"""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_array, read_fields
from odeprocess.common.distributions import AbstractDistribution
from odeprocess.inference.noise_scale import NoiseScale

from .observations import Record

LEVEL = 0.9
COUNTS = np.array([0, 1, 2, 3, 5, 10, 20, 50, 90])  # numbers of observations that are tried
GAPS = np.array([0.01, 0.04, 0.15, 0.5])  # middles of bins of distance, as parts of the training horizon
FREEDOM = np.geomspace(2.0, 256.0, 15)  # that are tried for the noise of single series
SHRINKAGE_PSEUDO_COUNT = (
    8.0  # series: a bin with as many counts as much as its neighbours, and all together as much as no correction
)
ALLOWANCE = 6  # series: with as many, half as many values are left outside; none for a belief that is what series showed
CLOSE = 0.15  # observations are close together if they span less than this part of what as many random ones would
SIDES = 3  # between observations, beyond them, beyond such that are close together
TYPICAL = 0.8  # quantile by which misses on several series are compared
LEAST, MOST = 0.05, 10.0


class PredictionPlaces(NamedTuple):
    """Where times lie among observations.

    Attributes:
        gaps: how far off. Between observations, the distance g to the nearest (infinite without any); beyond them
            g²/(g + span), since the same step ahead is less of a risk after a long record than after a short one.
        beyond: whether all observations are on one side.
        spans: from the first observation to the last.
    """

    gaps: np.ndarray
    beyond: np.ndarray
    spans: np.ndarray

    @classmethod
    def of(cls, t: np.ndarray, seen: np.ndarray, observed: np.ndarray) -> "PredictionPlaces":
        """Of times `t [series, m]` among those of `seen [series, n]` that are `observed`."""
        apart = t[:, :, None] - seen[:, None, :]
        observed = np.broadcast_to(observed[:, None, :], apart.shape)
        gaps = np.where(observed, np.abs(apart), np.inf).min(-1, initial=np.inf)
        between = (observed & (apart >= 0)).any(-1) & (observed & (apart <= 0)).any(-1)
        known = np.isfinite(gaps)
        most = np.where(observed, apart, -np.inf).max(-1, initial=-np.inf)
        least = np.where(observed, apart, np.inf).min(-1, initial=np.inf)
        span = np.where(known, most, 0.0) - np.where(known, least, 0.0)
        near = np.where(known, gaps, 1.0)
        ahead = np.where(known, near**2 / np.maximum(near + span, np.finfo(float).tiny), np.inf)
        return cls(np.where(between, gaps, ahead), np.logical_not(between), span)

    def sides(self, counts: np.ndarray, horizon: float) -> np.ndarray:
        """Which of `SIDES` each is, given so many observations of series with a span of `horizon`."""
        close = self.spans < CLOSE * horizon * (counts - 1) / (counts + 1)
        return np.where(self.beyond, np.where(close, 2, 1), 0)


class HeldOutErrors(NamedTuple):
    """How far off predictions on unseen series were: flat arrays over predictions.

    Attributes:
        counts: observations that were given.
        places: where the asked times lie.
        sizes: how far off the mean, as a multiple of the distance to that end of the 90 % interval.
        series: which series each is about: values of one series are no independent evidence.
        horizon: the span of the series' times.
        noise_scale: what whole series told of their noise, with which all this was found out.
    """

    counts: np.ndarray
    places: PredictionPlaces
    sizes: np.ndarray
    series: np.ndarray
    horizon: float
    noise_scale: NoiseScale | None = None

    def match_scale(self, held_out: int) -> "HeldOutErrors":
        """The same, those on series from number `held_out` on enlarged, should they be smaller than those before.

        A model may know by heart the series that it was trained on. What these tell, and few others could, is where it is more
        and where less sure than it should be; how sure in all, only series that it has not seen can tell. Before any observation
        there is nothing to recognise a series by.
        """
        before, ratios = self.series < held_out, []
        for count in np.unique(self.counts[self.counts > 0]):
            old, new = (self.sizes[(self.counts == count) & part] for part in (before, ~before))
            if len(old) and len(new):
                ratios.append(np.log(max(np.quantile(old, TYPICAL), 1e-6) / max(np.quantile(new, TYPICAL), 1e-6)))
        level = np.exp(max(0.0, np.mean(ratios))) if ratios else 1.0
        return self._replace(sizes=np.where(before | (self.counts == 0), self.sizes, level * self.sizes))

    def anywhere(self) -> "HeldOutErrors":
        """The same without the distances: where series are few, factors by distance would follow chance."""
        return self._replace(places=self.places._replace(gaps=np.full_like(self.places.gaps, np.inf)))

    @classmethod
    def joined(cls, parts: Sequence["HeldOutErrors"]) -> "HeldOutErrors":
        """The misses on several sets of series together."""
        before = np.cumsum([0] + [1 + part.series.max(initial=0) for part in parts[:-1]])
        series = np.concatenate([part.series + start for part, start in zip(parts, before, strict=True)])
        counts, sizes = (np.concatenate(x) for x in zip(*((part.counts, part.sizes) for part in parts), strict=True))
        places = PredictionPlaces(*(np.concatenate(x) for x in zip(*(part.places for part in parts), strict=True)))
        known = [part.noise_scale for part in parts if part.noise_scale is not None]
        noise_scale = NoiseScale(*(float(np.exp(np.mean(np.log(x)))) for x in zip(*known, strict=True))) if known else None
        return cls(counts, places, sizes, series, max(part.horizon for part in parts), noise_scale)


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """Factors of spread by number of observations and by where a time lies.

    Attributes:
        factors: `[counts, sides, gaps]`.
        horizon: the span of the training times, in the user's units.
        noise_scale: how the noise of single series varies, where that is known: for exact inference.
    """

    factors: np.ndarray
    horizon: float
    noise_scale: NoiseScale | None = None

    @classmethod
    def none(cls, horizon: float, noise_scale: NoiseScale | None) -> "Calibration":
        """Factors of one."""
        return cls(np.ones((len(COUNTS), SIDES, len(GAPS))), horizon, noise_scale)

    @classmethod
    def fit(cls, found: HeldOutErrors) -> "Calibration":
        """From misses on unseen series."""
        counts, places, misses, series, horizon, noise_scale = found
        rows, columns, sides = nearest_count(counts), _column(places.gaps / horizon), places.sides(counts, horizon)
        factors = np.empty((len(COUNTS), SIDES, len(GAPS)))
        for side in range(SIDES):
            last = _shrink(misses, series, 1.0)
            for i in range(len(COUNTS)):
                here = (rows == i) & (sides == side)
                if i == 0:  # nothing to be far from, and no neighbours; not tried: a belief that needs no correction
                    factors[i, side] = _shrink(misses[rows == 0], series[rows == 0], 1.0, allowance=0)
                    continue
                last = _shrink(misses[here], series[here], last)
                for j in range(len(GAPS)):
                    bin_ = here & (columns == j)
                    factors[i, side, j] = _shrink(misses[bin_], series[bin_], last)
        return cls(np.clip(factors, LEAST, MOST), float(horizon), noise_scale)

    def at(self, counts: np.ndarray, places: "PredictionPlaces") -> np.ndarray:
        """Factors for series with `counts [series]` observations, at places `[series, m]`."""
        place = np.log(np.clip(places.gaps / self.horizon, GAPS[0], GAPS[-1]))
        rows = self.factors[nearest_count(counts)]
        each = np.array([[np.interp(x, np.log(GAPS), side) for side in row] for x, row in zip(place, rows, strict=True)])
        sides = places.sides(np.asarray(counts)[:, None], self.horizon)
        return np.take_along_axis(each, sides[:, None], 1)[:, 0]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        noise_scale = None if self.noise_scale is None else [float(x) for x in self.noise_scale]
        return {"factors": self.factors.tolist(), "horizon": self.horizon, "noise_scale": noise_scale}

    @classmethod
    def from_json(cls, fields: dict[str, Any], name: str) -> "Calibration":
        """The inverse of `to_json`; a `ValueError` names the field that is wrong, beginning with `name`."""
        hints = {"factors": Any, "horizon": float, "noise_scale": tuple[float, float] | None}
        found = read_fields(hints, fields, name, needed=("factors", "horizon"))
        rows = found["factors"]
        two_sides = isinstance(rows, list) and all(isinstance(row, list) and len(row) == 2 for row in rows)  # of an older model
        factors = read_array(rows, (len(COUNTS), 2 if two_sides else SIDES, len(GAPS)), f"{name}.factors")
        factors = factors[:, [0, 1, 1]] if two_sides else factors
        noise_scale = None if found.get("noise_scale") is None else NoiseScale(*map(float, found["noise_scale"]))
        positive = [
            ("factors", factors),
            ("horizon", found["horizon"]),
            ("noise_scale", 1.0 if noise_scale is None else np.array(noise_scale)),
        ]
        for field, value in positive:
            checks.require(bool(np.all(np.asarray(value) > 0)), f"`{name}.{field}` is {value}; expected numbers above 0.")
        return cls(factors, float(found["horizon"]), noise_scale)


def calibrate(predicted: AbstractDistribution, record: Record, t: Any, by: Calibration | None) -> AbstractDistribution:
    """The predictions with their spread around the mean multiplied by the factors of `by`; times are the user's."""
    if by is None or t.shape[1] == 0:
        return predicted
    if checks.is_traced(predicted.mean, t):
        warnings.warn(
            "Inside jax.jit and jax.grad predictions are not calibrated: intervals and densities are the model's own. "
            "Take `dataclasses.replace(model, calibrations={})` to say that this is meant.",
            stacklevel=checks.depth_of_user(),
        )
        return predicted
    seen, observed = record.times()
    factor = by.at(observed.sum(-1), PredictionPlaces.of(t, seen, observed))
    missing = predicted.mean.shape[2] - factor.shape[1]  # times are padded to a bucket
    factor = jnp.asarray(np.pad(factor, ((0, 0), (0, missing)), mode="edge"), predicted.mean.dtype)[:, None, :, None]
    found = predicted.rescale(predicted.mean.mean(1, keepdims=True), factor)
    assert found is not None  # `Model.calibrated` refuses what cannot be rescaled
    return found


def fit_noise_scale(costs: np.ndarray, counts: np.ndarray) -> NoiseScale:
    """The most likely `NoiseScale`, from each series' sum of squares and number of values.

    Noise of variance s²·ν/χ²(ν) makes their ratio F-distributed, with (number of values, ν) degrees of freedom.
    """
    from scipy.stats import f  # takes longer to import than all of JAX, and few processes calibrate

    ratios = np.maximum(costs / counts, 1e-6)
    scales = np.quantile(ratios, 0.5) * np.geomspace(0.1, 10.0, 41)
    each = f.logpdf(ratios[:, None, None] / scales[:, None], counts[:, None, None], FREEDOM) - np.log(scales)[:, None]
    i, j = np.unravel_index(np.argmax(each.sum(0)), (len(scales), len(FREEDOM)))
    return NoiseScale(float(FREEDOM[j]), float(scales[i]))


def nearest_count(counts: Any) -> np.ndarray:
    """The row for a number of observations: the largest tried one that is not above it."""
    return np.searchsorted(COUNTS, np.asarray(counts), side="right") - 1


def _column(parts: np.ndarray) -> np.ndarray:
    return np.abs(np.log(np.clip(parts, GAPS[0], GAPS[-1]))[:, None] - np.log(GAPS)[None]).argmin(-1)


def _conformal(misses: np.ndarray, series: np.ndarray, allowance: int) -> float:
    """The quantile that a new value stays under with probability `LEVEL`, and a little more where series are few.

    The level for n independent values would be LEVEL·(1 + 1/n), the largest of them for n < 10. A series has many
    values, which are worth more than one and less than as many as they are: the share left outside is cut by a/(n + a).
    """
    count = len(np.unique(series))
    return float(np.quantile(misses, 1.0 - (1.0 - LEVEL) * count / (count + allowance))) if count else 1.0


def _shrink(misses: np.ndarray, series: np.ndarray, towards: float, allowance: int = ALLOWANCE) -> float:
    count = len(np.unique(series))
    if not count:
        return towards
    own = np.log(max(_conformal(misses, series, allowance), 1e-6))
    return float(np.exp((count * own + SHRINKAGE_PSEUDO_COUNT * np.log(max(towards, 1e-6))) / (count + SHRINKAGE_PSEUDO_COUNT)))
