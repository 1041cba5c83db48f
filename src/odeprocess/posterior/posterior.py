"""The posterior: what a model believes about one series, or about a batch of them, after some observations.

Nothing is mutated: `update` returns a new posterior. The random numbers are fixed when the posterior is made, so the
same posterior always gives the same draws, the first ten of a hundred are the ten, and `update` moves each draw
smoothly. Everything is in the user's units. NumPy in, NumPy out; traced arrays (inside `jax.grad` or `jax.jit`) in,
traced arrays out.
"""

import dataclasses
import warnings
from typing import Any, Literal

import jax
import numpy as np

from odeprocess.common import checks, tail_probabilities
from odeprocess.common.distributions import AbstractDistribution, Normal
from odeprocess.data import training_range
from odeprocess.inference import batched
from odeprocess.inference.randomised_map import Ensemble
from odeprocess.process import Process, Summary

from . import latent_posterior
from .calibration import Calibration, calibrate
from .functions import Functions, evaluate, extent_for, picked, reported
from .latent_posterior import Inference
from .observations import Record

Of = Literal["observations", "function"]
DRAWS = 64  # that describe a posterior by default; chosen by hand
EXACT_STEPS = 3  # Levenberg–Marquardt double steps for a draw by default: they solve most draws


@dataclasses.dataclass(frozen=True, eq=False)
class Posterior:
    """A distribution over trajectories, given observations.

    Made by `Model.condition`. Results have shape `[times, channels]` for one series and `[series, times, channels]`
    for a batch. Methods that describe a distribution take `of=`: `"observations"`, what a new measurement would
    show, noise included (the default), or `"function"`, the trajectory beneath.

    Examples:
        >>> import jax, odeprocess as odp
        >>> fitted = odp.fit(odp.data.sines.sample(20, key=jax.random.key(0)), "ndp", options=odp.FitOptions(epochs=1))
        >>> posterior = fitted.model.condition([0.0, 1.0], [0.1, 0.8], key=jax.random.key(1))
        >>> low, high = posterior.interval([0.0, 0.5, 1.0], level=0.9)
        >>> low.shape, bool((low < high).all())
        ((3, 1), True)
    """

    process: Process
    record: Record
    summary: Summary
    belief: Normal | Ensemble
    keys: Any
    draws: int = 64
    steps: int = 0
    calibrations: dict[str, Calibration] = dataclasses.field(default_factory=dict)
    _last: dict = dataclasses.field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        what = "one series" if self.record.single else f"{len(self.record)} series"
        return f"Posterior({what}, {self.record.size} observations, {self.draws} draws, {self.inference} inference)"

    def __len__(self) -> int:
        """How many series this is about."""
        return len(self.record)

    def __getitem__(self, index: int) -> "Posterior":
        """The posterior of one series of a batch, with the same draws."""
        if not isinstance(index, (int, np.integer)):
            raise TypeError(f"A posterior is indexed by the number of a series, not by {checks.shown(index)}.")
        part = picked(int(index), len(self), "series")
        summary, belief = jax.tree.map(lambda x: x[part], (self.summary, self.belief))
        fields = {"record": self.record[part.start], "summary": summary, "belief": belief, "keys": self.keys[part]}
        return dataclasses.replace(self, **fields, _last={})

    @property
    def observations(self) -> list[tuple[np.ndarray, np.ndarray]] | tuple[np.ndarray, np.ndarray]:
        """What has been observed, `(t, y)` for one series and a list of such pairs for a batch, NaN where missing."""
        return self.record.observations()

    def update(self, t: Any, y: Any) -> "Posterior":
        """The posterior with more observations.

        With amortised inference the cost does not depend on how many came before: the encoder keeps a sum and a count. Exact
        inference starts at the draws so far and takes all observations. In a model that counts time from the first
        observation, an earlier one cannot be added.

        Arguments:
            t: one time or several, `[n]`; for a batch `[series, n]`, or a list with an array for each series.
            y: values, shaped like `t`, with a last axis for channels where there are several; NaN where missing.
        """
        t, y, lengths = self.record.read(t, y)
        self.record.check_complete(y)
        record = self.record.add(t, y, lengths)
        summary, belief = batched.observe(self.process, self.summary, record.scaled(t, y, least=1))
        training_range.warn(*record.notes(t, y))
        updated = dataclasses.replace(self, record=record, summary=summary, belief=belief, steps=0, _last={})
        return updated._exact(self.draws, self.steps, belief, self.belief) if self.steps else updated

    @property
    def inference(self) -> Literal["amortised", "exact"]:
        """How the posterior was found: by one pass of the encoder, or by fitting draws to the observations."""
        return "exact" if self.steps else "amortised"

    def with_inference(self, inference: Inference, *, draws: int | None = None, steps: int = EXACT_STEPS) -> "Posterior":
        """The posterior of the same observations by another kind of inference; see `Model.condition`.

        Arguments:
            inference: `"auto"`, `"amortised"` or `"exact"`.
            draws: number of draws, which is the most that can be asked for after exact inference; as many as before by default.
            steps: Levenberg–Marquardt double steps for each draw, on average and at most.
        """
        n = self.draws if draws is None else draws
        checks.whole("draws", n, 1, checks.MOST_DRAWS)
        checks.whole("steps", steps, 1, checks.MOST_STEPS)
        chosen = latent_posterior.choose_inference(self.process, inference)
        belief = latent_posterior.amortised(self.process, self.record, self.summary)
        if chosen == "amortised":
            return dataclasses.replace(self, belief=belief, draws=int(n), steps=0, _last={})._checked()
        return self._exact(int(n), int(steps), belief, belief)._checked()

    def follow(self, inference: Inference, *observed: Any) -> "Posterior":
        """This amortised posterior, or the exact one in its place where `inference` asks for it; `observed` may be traced."""
        exact = latent_posterior.choose_inference(self.process, inference, *observed) == "exact"
        if not exact:
            return self._checked()
        assert isinstance(self.belief, Normal)
        return self._exact(self.draws, EXACT_STEPS, self.belief, self.belief)._checked()

    def _exact(self, n: int, steps: int, belief: Normal, start: Normal | Ensemble) -> "Posterior":
        by = self.calibrations.get("exact")
        found = latent_posterior.exact(self.process, self.record, belief, start, self.keys, n, steps, by)
        return dataclasses.replace(self, belief=found, draws=n, steps=steps, _last={})

    def _checked(self) -> "Posterior":
        """Itself; warns where the model is calibrated for the other kind of inference only."""
        if self.calibrations and self._calibration is None:
            other = next(iter(self.calibrations))
            warnings.warn(
                f"This model is calibrated for {other} inference, not for {self.inference} inference: intervals and densities "
                f"are not calibrated. Use inference={other!r}, or model.calibrated(…, inference={self.inference!r}).",
                stacklevel=checks.depth_of_user(),
            )
        return self

    def sample(self, times: Any, n: int | None = None, *, of: Of = "observations") -> Any:
        """`n` draws at `times`, `[n, times, channels]` (after the series axis, for a batch).

        Measurement noise, unlike the trajectory beneath, is drawn anew at each place of `times`; asked again, the same
        posterior gives the same numbers.
        """
        of_function = self._is_function(of)
        predicted, m = self._predicted(times, n)
        values = predicted.mean if of_function else batched.sample_observations(predicted, self.keys)
        return self._values_out(values, m)

    def mean(self, times: Any, n: int | None = None) -> Any:
        """The mean at `times`, over `n` draws."""
        predicted, m = self._predicted(times, n)
        return self._values_out(batched.moments(predicted)[0], m)

    def std(self, times: Any, n: int | None = None, *, of: Of = "observations") -> Any:
        """The standard deviation at `times`, over `n` draws."""
        of_function = self._is_function(of)
        predicted, m = self._predicted(times, n)
        _, function, observations = batched.moments(predicted)
        std = function if of_function else observations
        return self.record.squeeze(self.record.scaling.spread_to_user(std[:, :m]))

    def quantile(self, times: Any, q: Any, n: int | None = None, *, of: Of = "observations") -> Any:
        """Quantiles at `times`; several `q` add a leading axis, before that of the series.

        Those of observations are exact for the mixture of the draws, however far out (inside `jax.jit` and `jax.grad` as far as
        float32 can tell); those of the function are empirical, so they never leave the range of the draws.
        """
        checks.require(not checks.is_traced(q), "`q` is traced; expected concrete numbers.")
        levels = np.asarray(checks.as_array("q", q), np.float64)
        checks.require(
            levels.ndim <= 1 and levels.size > 0 and bool(((levels > 0) & (levels < 1)).all()),
            f"`q` is {checks.shown(q)}; expected a number, or a list of them, between 0 and 1 (both excluded).",
        )
        values = self._quantiles(times, np.atleast_1d(levels), np.atleast_1d(1.0 - levels), n, self._is_function(of))
        if levels.ndim == 0:
            return values[0]
        return jax.numpy.stack(values) if checks.is_traced(*values) else np.stack(values)

    def _quantiles(self, times: Any, below: np.ndarray, above: np.ndarray, n: int | None, of_function: bool) -> list[Any]:
        """Values with probabilities `below` beneath and `above` over them: both, since one may be lost in rounding from 1."""
        predicted, m = self._predicted(times, n)
        near, tail = tail_probabilities.smallest_tail(predicted.mean.dtype), np.minimum(below, above)
        asked = below if of_function else np.clip(below, near, 1.0 - near)
        found = batched.quantiles(predicted, asked, of_function=of_function)
        far = () if of_function else np.flatnonzero(tail < near)
        checks.require(
            len(far) == 0 or not checks.is_traced(found),
            f"A tail of {tail.min():.3g} is too thin for float32; inside jax.jit or jax.grad expected {near:.2g} or more.",
        )
        farther = {int(i): tail_probabilities.far_quantile(predicted, below[i], above[i]) for i in far}
        return [self._values_out(x if farther.get(i) is None else farther[i], m) for i, x in enumerate(found)]

    def interval(self, times: Any, level: float = 0.9, n: int | None = None, *, of: Of = "observations") -> tuple[Any, Any]:
        """The central interval that holds `level` of the probability: its lower and upper ends at `times`."""
        checks.require(checks.is_number(level) and 0 < level < 1, f"`level` is {checks.shown(level)}; expected 0 < level < 1.")
        ends = np.array([(1.0 - float(level)) / 2, (1.0 + float(level)) / 2])
        low, high = self._quantiles(times, ends, ends[::-1], n, self._is_function(of))
        return low, high

    def log_prob(
        self, t: Any, y: Any, n: int | None = None, *, joint: bool = True, method: Literal["samples", "importance"] = "samples"
    ) -> Any:
        """Log density of new observations, in the user's units.

        Arguments:
            t: times, shaped as in `update`.
            y: values; NaN where missing.
            n: number of draws; more are better, 64 are few for a joint density.
            joint: of all values of a series together (a number a series), or of each value alone (shaped like `y`,
                NaN where `y` is missing).
            method: average over draws of this posterior, or `"importance"`: draw from the posterior that has seen these
                observations too and reweight, which needs far fewer draws when there are many observations.

        Returns:
            A number (or `[n, channels]`); with a leading series axis for a batch. −∞ where the log density is below what float64
            holds, about −1.8e308.
        """
        checks.choice("method", method, ("samples", "importance"))
        checks.require(
            method == "samples" or not self.steps,
            "method='importance' needs amortised inference, but this posterior's is exact. Use method='samples'.",
        )
        checks.require(
            method == "samples" or self._calibration is None,
            "method='importance' gives the density of the model as it was trained, but this one is calibrated. Use "
            "method='samples', or take dataclasses.replace(model, calibrations={}).",
        )
        t, y, lengths = self.record.read(t, y)
        if method == "importance":
            self.record.check_complete(y)  # only there do the new values go through the encoder
        self.record.check_begun()
        far = self.record.scaling.beyond(y) if method == "samples" else np.zeros(1, bool)
        series = self.record.scaled(t, np.where(far, 0.0, y) if far.any() else y, least=8)
        training_range.warn(*self.record.notes(t, y, values=False))
        shift = self.record.scaling.log_density_shift()
        if far.any():
            found = self._log_density(t, y, n, joint=joint)
        elif method == "samples" and self._calibration is not None and not checks.is_traced(t, y):
            predicted = self._predicted(self._asked(t, y), n)[0]
            if joint:
                found = batched.mixture_joint_log_prob(predicted, series.y, series.mask)
            else:
                found = batched.mixture_log_prob(predicted, series.y)
                found = np.where(series.mask, np.asarray(found, np.float64), np.nan)
        else:
            proposal = batched.observe(self.process, self.summary, series)[1] if method == "importance" else self.belief
            extent = extent_for(self.process, series.t, None if checks.is_traced(series.mask) else series.observed)
            arguments = self.belief, proposal, self.keys, series, self._count(n), extent, joint
            found, ok = batched.log_density(self.process, *arguments)
            found = reported(found, ok, "reach every observation")
        if not checks.is_traced(found):
            found = np.asarray(found, np.float64)
            if method == "samples" and np.isinf(found).any():  # it does not fit into float32
                found = self._log_density(t, y, n, joint=joint)
        if joint:
            return self.record.squeeze(found + (series.mask * shift[None, None]).sum((-1, -2)))
        return self.record.squeeze(found[:, : lengths.max(initial=0)] + shift[None, None])

    def _log_density(self, t: np.ndarray, y: np.ndarray, n: int | None, *, joint: bool) -> np.ndarray:
        """What `log_prob` gives by `"samples"`, of scaled values, in float64: for values that float32 cannot square."""
        predicted, _ = self._predicted(self._asked(t, y), n)
        missing = predicted.mean.shape[2] - y.shape[1]
        scaled = np.pad(self.record.scaling.values(y), ((0, 0), (0, missing), (0, 0)), constant_values=np.nan)
        mask = ~np.isnan(scaled)
        each = tail_probabilities.log_densities(predicted, np.where(mask, scaled, 0.0))
        if joint:
            return tail_probabilities.log_mean_density(np.where(mask[:, None], each, 0.0).sum((2, 3)), 1)
        return np.where(mask, tail_probabilities.log_mean_density(each, 1), np.nan)

    def _asked(self, t: Any, y: Any) -> Any:
        """The times of observations; what is not there is asked where something is, so that it costs no horizon."""
        observed = ~np.isnan(y).all(-1)
        asked = np.where(observed, t, np.take_along_axis(t, observed.argmax(-1, keepdims=True), -1)) if t.size else t
        return self.record.squeeze(asked)

    def functions(self, n: int | None = None) -> Functions:
        """`n` trajectories as callables: each gives the same values at the same times, whenever it is asked."""
        z = batched.draw(self.belief, self.keys, self._count(n))
        return Functions(self.process, self.record, z, self._calibration)

    def _predicted(self, times: Any, n: int | None) -> tuple[AbstractDistribution, int]:
        """The decoded draws at `times`; those of the latest query are kept, as mean and interval are asked together."""
        n, t = self._count(n), self.record.query(times)
        tag = None if checks.is_traced(t) else (n, t.shape, t.tobytes())
        if tag is not None and tag in self._last:
            return self._last[tag], t.shape[-1]
        predicted, reached = evaluate(self.process, self.record, batched.draw(self.belief, self.keys, n), t)
        predicted = calibrate(batched.with_noise_factors(self.belief, predicted), self.record, t, self._calibration)
        if tag is not None and reached and not checks.is_traced(predicted.mean):
            self._last.clear()
            self._last[tag] = predicted
        return predicted, t.shape[-1]

    @property
    def _calibration(self) -> Calibration | None:
        return self.calibrations.get(self.inference)

    def _values_out(self, values: Any, m: int) -> Any:
        return self.record.squeeze(self.record.scaling.values_to_user(values[..., :m, :]))

    def _count(self, n: int | None) -> int:
        n = self.draws if n is None else n
        checks.whole("n", n, 1, checks.MOST_DRAWS)
        checks.require(
            not self.steps or n <= self.draws,
            f"`n` is {n}, but exact inference made {self.draws} draws: use with_inference('exact', draws={n}), or "
            f"condition(…, draws={n}).",
        )
        return int(n)

    @staticmethod
    def _is_function(of: str) -> bool:
        checks.choice("of", of, ("observations", "function"))
        return of == "function"
