"""Streams: the posteriors of many series while their observations arrive.

Each observation is encoded once, in one compiled batch with all others of the same call, and added to the running summary of its
series. The cost does not depend on how many observations came before.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import bucket, read_arrays, read_static
from odeprocess.data.training_range import warn
from odeprocess.inference import batched
from odeprocess.posterior import latent_posterior
from odeprocess.posterior.latent_posterior import Inference, choose_inference
from odeprocess.posterior.model import Model, check_key
from odeprocess.posterior.observations import Record, new_record
from odeprocess.posterior.posterior import DRAWS, Posterior
from odeprocess.posterior.series_keys import series_key, series_keys
from odeprocess.process import Summary

from . import stream_file
from .observation_log import ObservationLog
from .series_ids import Id, SeriesIds, read_ids
from .summaries import RunningSummaries, as_arrays

MOST_ENCODED_AT_ONCE = 16_384  # observations in one compiled batch, so that memory stays bounded; chosen by hand


class Stream:
    """The posteriors of many series under one model, while observations arrive in any order.

    The id of a series is a string or a whole number. Its posterior is that of `model.condition(t, y, key=stream.key(id))` on
    all its observations, whatever their order and grouping. Adding an observation costs the same however many came before, for
    every variant of the table: their encoders sum up codes of single observations. In a model fitted with `origin="first"`,
    an observation before all others of its series moves the series' origin, and the series is encoded anew;
    `open(…, origin=)` fixes the origin instead.

    Arguments:
        model: a trained model.
        key: of the draws; `jax.random.key(0)` by default.
        draws: how many draws describe each posterior.
        inference: as in `Model.condition`. Exact inference starts anew from all observations of a series for each posterior;
            amortised inference takes the same time however many there are.
        keep: whether observations are kept beside their summaries. Exact inference, calibrated intervals and origins that move
            need them; without them a series takes the same memory however long it gets, and inference is amortised.

    Examples:
        >>> import jax, odeprocess as odp
        >>> model = odp.fit(odp.data.sines.sample(20, key=jax.random.key(0)), "ndp", options=odp.FitOptions(epochs=1)).model
        >>> stream = odp.Stream(model, key=jax.random.key(1))
        >>> stream.observe(["a", "b", "a"], t=[0.0, 0.3, 1.0], y=[0.1, 0.7, 0.8])
        >>> stream.posterior("a").mean([0.5]).shape, stream.posterior(["a", "b"]).mean([0.5]).shape
        ((1, 1), (2, 1, 1))
    """

    def __init__(self, model: Model, *, key: Any = None, draws: int = DRAWS, inference: Inference = "auto", keep: bool = True):
        checks.instance("model", model, Model, "a trained model: fit(…).model, or load(folder)")
        checks.whole("draws", draws, 1, checks.MOST_DRAWS)
        key = jr.key(0) if key is None else key
        check_key(key)
        checks.require(
            keep or "amortised" not in model.calibrations,
            "This model's intervals are calibrated by the distance to the nearest observation, so observations must be kept: "
            "leave `keep` at True.",
        )
        choose_inference(model.process, inference)
        checks.require(
            keep or inference != "exact",
            "Exact inference fits draws to the observations, so these must be kept: leave `keep` at True, or pass "
            "inference='amortised'.",
        )
        channels, static_dim = model.spec.channels, model.spec.static_dim
        assert channels is not None and static_dim is not None
        self.model, self.draws = model, int(draws)
        self.inference: Inference = inference if keep else "amortised"
        self._key, self._channels = key, channels
        self._ids = SeriesIds(static_dim)
        self._summaries = RunningSummaries(model.spec.sums, channels)
        self._log = ObservationLog(channels) if keep else None

    def __repr__(self) -> str:
        return f"Stream({len(self)} series, {self.model!r})"

    def __len__(self) -> int:
        """The number of series."""
        return len(self._ids.rows)

    def __contains__(self, name: Any) -> bool:
        return name in self._ids.rows

    @property
    def ids(self) -> list[Id]:
        """The ids of all series, in the order in which they were opened."""
        return list(self._ids.rows)

    def count(self, name: Id) -> int:
        """The number of observations of a series."""
        return int(self._summaries.state.count[self._ids.find([name])[0]])

    def origin(self, name: Id) -> float:
        """Where the time of a series begins; NaN while that is unknown."""
        return float(self._ids.origins[self._ids.find([name])[0]])

    def key(self, name: Id) -> Any:
        """The key with which `model.condition` gives the draws of this series."""
        return series_key(name, self._key)

    def open(self, ids: Id | Sequence[Id], *, static: Any = None, origin: Any = None) -> None:
        """Adds series without observations: for models with covariates, or to fix where the time of a series begins.

        Arguments:
            ids: one id, or several.
            static: covariates, `[k]` for one series, `[series, k]` for several.
            origin: as in `Model.condition`.
        """
        names, single = read_ids(ids)
        there = [name for name in names if name in self]
        checks.require(not there, f"Series {checks.shown(there[:3])} are open already; `forget` them first to begin anew.")
        checks.require(len(set(names)) == len(names), "`ids` names a series twice; expected each once.")
        statics = read_static(static, len(names), self.model.spec.static_dim, single=single)
        known = {"single": single, "static": statics, "channels": self._channels, "missing": bool(self.model.spec.missing)}
        record = new_record(len(names), origin=origin, scaling=self.model.scaling, **known)
        rows = self._ids.open(names, statics, record.origins, record.explicit)
        self._summaries.reserve(int(rows.max(initial=-1)) + 1)

    def observe(self, ids: Id | Sequence[Id], t: Any, y: Any) -> None:
        """Adds observations, in any order, of one series or of many. After an error the stream is as it was before.

        Arguments:
            ids: the series of each observation, `[n]`, or one id for all; new series are opened.
            t: times, `[n]`, or one number.
            y: values, `[n]`, or `[n, channels]`; NaN where missing.
        """
        t, y, _, single = read_arrays(t, y, self._channels)
        checks.require(single, f"`t` has the shape {t.shape}; expected [n], with an id in `ids` for each observation.")
        t, y = np.asarray(t[0], np.float64), np.asarray(y[0], np.float64)
        names, one = read_ids(ids)
        names = names * len(t) if one else names
        checks.require(len(names) == len(t), f"`ids` holds {len(names)} id(s) but `t` {len(t)} time(s); expected as many.")
        self._record(np.zeros(1, np.int64), self._ids.origins, single=True).check_complete(y[None])
        new = list(dict.fromkeys(name for name in names if name not in self))
        if new:
            checks.require(
                not self.model.spec.static_dim,
                f"Series {checks.shown(new[:3])} are not open, and this model needs covariates: open(ids, static=…) first.",
            )
            self.open(new)
        try:
            self._add(self._ids.find(names), t, y)
        except BaseException:
            self.forget(new)
            raise

    def _add(self, rows: np.ndarray, t: np.ndarray, y: np.ndarray) -> None:
        seen = ~np.isnan(y).all(-1)
        rows, t, y = rows[seen], t[seen], y[seen]
        if not len(rows):
            return
        origins, early = self._ids.origins, np.zeros(0, np.int64)  # early: series whose origin moves
        if self.model.scaling.origin == "first":
            origins, early = self._ids.update_origins(rows, t)
        checks.require(
            self._log is not None or not len(early),
            "An observation comes before the first one of its series, from which this model counts time. Fix where time begins "
            "with open(ids, origin=…), or make the stream with keep=True.",
        )
        kept = self._log.read(early.tolist()) if self._log is not None else []
        lengths = [len(old) for old, _ in kept]
        again_t, again_y = (np.concatenate(x) for x in zip(*kept, (t, y), strict=True))
        encoded = np.concatenate([np.repeat(early, lengths), rows])
        each = self._encode(encoded, again_t, again_y, origins)
        warn(*self._record(rows, origins).notes(t[:, None], y[:, None]))
        self._ids.origins = origins
        self._summaries.clear(early)
        self._summaries.add(encoded, each)
        if self._log is not None:
            self._log.add(rows, t, y)

    def _encode(self, rows: np.ndarray, t: np.ndarray, y: np.ndarray, origins: np.ndarray) -> Summary:
        """The summary of each single observation, in a few compiled batches."""
        found = []
        for start in range(0, len(rows), MOST_ENCODED_AT_ONCE):
            n = min(MOST_ENCODED_AT_ONCE, len(rows) - start)
            part = np.minimum(np.arange(start, start + bucket(n)), start + n - 1)  # padded with the last observation,
            values = np.where((np.arange(len(part)) < n)[:, None, None], y[part, None], np.nan)  # masked
            series = self._record(rows[part], origins).scaled(t[part, None], values, least=1)
            each = batched.summarise(self.model.process, series)
            found.append([np.asarray(x)[:n] for x in as_arrays(each)])
        each = Summary(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
        checks.require(
            bool(np.isfinite(each.total).all()), "`t` or `y` holds numbers that are too large for the model, even after scaling."
        )
        return each

    def posterior(self, ids: Id | Sequence[Id], *, inference: Inference | None = None) -> Posterior:
        """The posterior of one series or of a batch given all observations so far; each size of batch compiles once.

        Arguments:
            ids: one id, or several.
            inference: that of the stream by default.
        """
        inference = self.inference if inference is None else inference
        checks.require(
            self._log is not None or choose_inference(self.model.process, inference) == "amortised",
            "Exact inference takes the observations themselves, and this stream was made with keep=False.",
        )
        names, single = read_ids(ids)
        checks.require(len(names) > 0, "`ids` names no series; expected one at least.")
        rows = self._ids.find(names)
        summary = self._summaries.read(rows, jnp.result_type(float))
        record = self._record(rows, self._ids.origins, single=single, size=int(summary.count.sum()))
        if self._log is not None:
            record = record.holding(self._log.read(rows.tolist()))
        belief = latent_posterior.amortised(self.model.process, record, summary)
        keys, calibrations = series_keys(names, self._key), self.model.calibrations
        found = Posterior(self.model.process, record, summary, belief, keys, self.draws, calibrations=calibrations)
        return found.follow(inference)

    def forget(self, ids: Id | Sequence[Id]) -> None:
        """Removes series with their observations."""
        names = list(dict.fromkeys(read_ids(ids)[0]))
        rows = self._ids.find(names)
        self._summaries.clear(rows)
        if self._log is not None:
            self._log.remove(rows.tolist())
        self._ids.forget(names)

    def save(self, path: str | Path) -> None:
        """Writes the stream to one file, in one step; the model is not in it."""
        rows = self._ids.find(self.ids)
        known = {"static": self._ids.static, "origins": self._ids.origins, "explicit": self._ids.explicit}
        arrays = {name: array[rows] for name, array in known.items()}
        arrays |= {f"summary.{i}": array[rows] for i, array in enumerate(as_arrays(self._summaries.state))}
        arrays["key"] = np.asarray(jr.key_data(self._key))
        if self._log is not None:
            of, arrays["t"], arrays["y"] = self._log.read_all()
            order = np.argsort(rows)
            arrays["series"] = order[np.searchsorted(rows, of, sorter=order)]
        card = {"ids": self.ids, "draws": self.draws, "keep": self._log is not None, "key": str(jr.key_impl(self._key))}
        card["inference"] = self.inference
        stream_file.write(path, self.model, card, arrays)

    @classmethod
    def load(cls, path: str | Path, model: Model) -> "Stream":
        """Reads a stream that `save` wrote; its posteriors are the same bit by bit.

        Raises:
            FileNotFoundError: where there is no file.
            ValueError: where the file is damaged, or belongs to another model.
        """
        card, arrays = stream_file.read(path, model)
        key = jr.wrap_key_data(jnp.asarray(arrays["key"]), impl=card["key"])
        stream = cls(model, key=key, draws=card["draws"], keep=card["keep"], inference=card["inference"])
        rows = stream._ids.open(card["ids"], arrays["static"], arrays["origins"], arrays["explicit"])
        stream._summaries.reserve(len(rows))
        for i, array in enumerate(as_arrays(stream._summaries.state)):
            array[rows] = arrays[f"summary.{i}"]
        if stream._log is not None:
            stream._log.add(rows[arrays["series"]], arrays["t"], arrays["y"])
        return stream

    def _record(self, rows: np.ndarray, origins: np.ndarray, *, single: bool = False, size: int = 0) -> Record:
        known = {"channels": self._channels, "missing": bool(self.model.spec.missing), "kept": self._log is not None}
        explicit = bool(self._ids.explicit[rows].all())
        return Record(self.model.scaling, single, origins[rows], explicit, self._ids.static[rows], size=size, **known)
