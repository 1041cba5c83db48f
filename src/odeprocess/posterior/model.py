"""The model that users hold: a trained process with its scaling."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.common.compilation import compiled
from odeprocess.data import training_range
from odeprocess.data.scaling import Scaling
from odeprocess.data.series import Series, read_arrays, read_static
from odeprocess.inference import batched
from odeprocess.process import AbstractSolver, OdeFlow, Process, Spec, Summary
from odeprocess.process.parts import Part

from . import model_folder
from .calibration import Calibration, HeldOutErrors
from .held_out import held_out_errors
from .latent_posterior import Inference, choose_inference
from .observations import new_record
from .posterior import DRAWS, Posterior


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A trained process that speaks the user's units.

    Attributes:
        process: the networks.
        spec: how they were built.
        scaling: how the data are scaled for them.
        info: notes about the training, plain data.
        calibrations: factors of spread, learned on held-out series by `calibrated`, for `"exact"` and `"amortised"` inference.
    """

    process: Process
    spec: Spec
    scaling: Scaling
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    calibrations: dict[str, Calibration] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Model({self.spec.variant}, {self.spec.channels} channel(s), {self.num_parameters} parameters)"

    @property
    def num_parameters(self) -> int:
        """How many numbers were learned."""
        return sum(x.size for x in jax.tree.leaves(self.process))

    @property
    def can_be_calibrated(self) -> bool:
        """Whether the spread of predictions can be changed: for a normal likelihood, not for a Bernoulli one."""
        likelihood = self.process.likelihood
        raw = jnp.zeros((1, likelihood.num_raw(self.spec.channels or 1)))
        return jax.eval_shape(lambda: likelihood(raw).rescale(0.0, 1.0)) is not None

    def condition(
        self,
        t: Any = (),
        y: Any = (),
        *,
        key: Any,
        static: Any = None,
        origin: Any = None,
        draws: int = DRAWS,
        inference: Inference = "auto",
    ) -> Posterior:
        """The posterior after some observations.

        Arguments:
            t: times in the user's units, in any order, ties allowed: `[n]` for one series, `[series, n]` or a list of
                arrays for a batch. None at all is fine: the posterior is then the prior.
            y: values, shaped like `t`, with a last axis for channels where there are several; NaN where missing.
            key: of the draws. The same key gives the same draws. `series_key(name)` gives those that tables, streams and
                servers give to a series of that name; `series_keys(names)` those of a batch.
            static: covariates, `[k]`, or `[series, k]` for a batch.
            origin: where each series' time begins, one number or one for each, for models fitted with origin="first"; by
                default the earliest observation of the series given here.
            draws: how many draws describe the posterior, unless a method is given another number.
            inference: `"amortised"`, one pass of the encoder, a millisecond a series; `"exact"`, every draw fitted to the
                observations by a few Levenberg–Marquardt steps, milliseconds to tens of them a series (docs/inference.md);
                or `"auto"`, exact where the model has a learned prior and a normal likelihood, amortised elsewhere. Streams,
                tables, servers and the playground follow the same rule.

        Times before the start of the training data are integrated backwards.

        Example: see `Posterior`.
        """
        return self._amortised(t, y, key=key, static=static, origin=origin, draws=draws).follow(inference, t, y)

    def _amortised(self, t: Any, y: Any, *, key: Any, static: Any, origin: Any, draws: int) -> Posterior:
        channels, missing = self.spec.channels, self.spec.missing
        assert channels is not None and missing is not None
        t, y, lengths, single = read_arrays(t, y, channels)
        statics = read_static(static, t.shape[0], self.spec.static_dim, single=single)
        checks.whole("draws", draws, 1, checks.MOST_DRAWS)
        keys = _keys_of(key, t.shape[0])
        record = new_record(
            t.shape[0], origin=origin, scaling=self.scaling, single=single, static=statics, channels=channels, missing=missing
        )
        record.check_complete(y)
        record = record.add(t, y, lengths)
        empty = Summary.empty(len(record), self.spec.sums, channels, jnp.result_type(float))
        summary, belief = batched.observe(self.process, empty, record.scaled(t, y, least=16))
        training_range.warn(*record.notes(t, y))
        return Posterior(self.process, record, summary, belief, keys, int(draws), calibrations=self.calibrations)

    def in_chunks(
        self,
        t: Any,
        y: Any,
        *,
        key: Any,
        static: Any = None,
        origin: Any = None,
        draws: int = DRAWS,
        inference: Inference = "auto",
        size: int = 1024,
    ) -> Iterator[Posterior]:
        """The posteriors of many series, `size` of them at a time, so that memory stays bounded however many there are.

        Arguments are as in `condition`, for a batch; arrays may be memory maps. A series has the draws that it would have in
        one large batch.

        Examples:
            >>> import jax, numpy as np, odeprocess as odp
            >>> series = odp.data.sines.sample(20, key=jax.random.key(0))
            >>> model = odp.fit(series, "np", options=odp.FitOptions(epochs=1)).model
            >>> chunks = model.in_chunks(series.t, series.y, key=jax.random.key(1), size=8)
            >>> np.concatenate([posterior.mean([0.0, 0.5]) for posterior in chunks]).shape
            (20, 2, 1)
        """
        checks.positive("size", size, integer=True)
        check_key(key)
        checks.require(
            np.ndim(t[0]) == 1 if len(t) else True,
            "`t` is one series; in_chunks takes a batch of them, [series, n] or a list of arrays. For one use `condition`.",
        )
        checks.require(len(t) == len(y), f"`t` has {len(t)} series and `y` has {len(y)}; expected as many.")
        for start in range(0, len(t), size):
            part = slice(start, min(start + size, len(t)))
            statics = None if static is None else static[part]
            origins = origin if origin is None or np.ndim(origin) == 0 else origin[part]
            posterior = self._amortised(t[part], y[part], key=key, static=statics, origin=origins, draws=draws)
            keys = _folded(key, jnp.arange(part.start, part.stop))
            yield dataclasses.replace(posterior, keys=keys).follow(inference)

    def calibrated(
        self, series: Series, *, seen: Series | None = None, inference: Inference = "auto", key: Any = None, draws: int = DRAWS
    ) -> "Model":
        """The model with the spread of its predictions calibrated on series it has not been trained on.

        Every question follows: intervals, samples, densities of single values and joint ones, functions, suggestions.

        Arguments:
            series: held-out series; a dozen help, five are better than none.
            seen: series that the model was trained on. Fewer than a hundred held-out ones leave much to chance; some of these
                then help to tell where predictions are too wide and where too narrow, though not how wide they are in all.
            inference: which kind of inference to calibrate; each has factors of its own.
            key: of the draws and of which points are given.
            draws: draws for each prediction: best as many as will be asked for, since more of them reach farther into the tails.
        """
        errors = self.held_out_errors(series, seen=seen, inference=inference, key=key, draws=draws)
        return self.with_calibration(errors, inference=inference)

    def with_calibration(self, errors: HeldOutErrors, *, inference: Inference = "auto") -> "Model":
        """The model calibrated by known errors: its own, or those of models like it."""
        name = choose_inference(self.process, inference)
        return dataclasses.replace(self, calibrations={**self.calibrations, name: Calibration.fit(errors)})

    def held_out_errors(
        self, series: Series, *, seen: Series | None = None, inference: Inference = "auto", key: Any = None, draws: int = DRAWS
    ) -> HeldOutErrors:
        """The errors on series that the model was not trained on, given more and more of them; see `calibrated`."""
        for name, each in (("series", series), ("seen", series if seen is None else seen)):
            checks.instance(name, each, Series, "a batch of series: make one with make_series(t, y)")
            came, own = (each.channels, each.static.shape[-1]), (self.spec.channels, self.spec.static_dim)
            checks.require(
                came == own,
                f"`{name}` has {came[0]} channel(s) and {came[1]} static covariate(s); this model has {own[0]} and {own[1]}.",
            )
        checks.require(
            self.can_be_calibrated,
            f"The likelihood {type(self.process.likelihood).__name__} has no spread that could be calibrated.",
        )
        by = choose_inference(self.process, inference)
        return held_out_errors(self, series, seen, inference=by, key=jr.key(0) if key is None else key, draws=draws)

    def with_solver(self, solver: AbstractSolver) -> "Model":
        """The same model, integrated another way: `model.with_solver(Grid(steps=40))`, or `Adaptive(rtol=1e-6)`."""
        checks.instance("solver", solver, AbstractSolver, "Grid(…) or Adaptive(…), made with its options")
        flow = self.process.flow
        if not isinstance(flow, OdeFlow):
            raise ValueError(f"Variant {self.spec.variant!r} has no dynamics, so there is nothing to solve.")
        process = eqx.tree_at(lambda p: p.flow, self.process, dataclasses.replace(flow, solver=solver))
        return dataclasses.replace(self, process=process, spec=self.spec.replace(solver=solver))

    def save(self, folder: str | Path) -> None:
        """Writes the model to a folder: after a kill at any moment the old model or the new one is there, whole.

        Parts of one's own are kept by their names and weights; `load` takes the parts.

        Raises:
            ValueError: where the process is not what its spec builds (a part put in by hand), since loading builds anew.
        """
        model_folder.write(folder, self.process, self.spec, self.scaling, self.info, self.calibrations)

    @classmethod
    def load(cls, folder: str | Path, parts: Iterable[Part] = ()) -> "Model":
        """Reads a model that `save` wrote; in the same float type its predictions are the same bit by bit.

        Arguments:
            folder: that `save` wrote to.
            parts: the classes of parts of one's own that the model was trained with, in any order. They are found by name.

        Raises:
            FileNotFoundError: where there is no model.
            ValueError: where the folder is damaged, of another program, or of a newer version; where a part is missing or is
                not the one that the model was trained with.
        """
        return cls(*model_folder.read(folder, parts))


@compiled
def _folded(key: Any, indices: Any) -> Any:
    return jax.vmap(lambda i: jr.fold_in(key, i))(indices)


def _keys_of(key: Any, count: int) -> Any:
    """A key for each series; those of `series_keys` as they are."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == (count,):
        return key
    check_key(key)
    return _folded(key, jnp.arange(count))


def check_key(key: Any) -> None:
    """Raises unless `key` is one random key."""
    checks.require(
        isinstance(key, jax.Array) and key.ndim == (0 if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else 1),
        f"`key` is {type(key).__name__}; expected one random key, such as jax.random.key(0).",
    )


def load(folder: str | Path, parts: Iterable[Part] = ()) -> Model:
    """Reads a model from a folder: `Model.load`.

    Arguments:
        folder: that `save` wrote to.
        parts: the classes of parts of one's own that the model was trained with: `odp.load("model", parts=[Pendulum])`.
    """
    return Model.load(folder, parts)
