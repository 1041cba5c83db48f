"""The record: what has been observed of one series or of a batch, on the host and in the user's units."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.data import training_range
from odeprocess.data.scaling import Scaling, series_origins
from odeprocess.data.series import Series, bucket, pack, read_arrays


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """Observations so far, and how queries and results are shaped for them.

    Attributes:
        scaling: between the user's units and the model's.
        single: one series, whose results have no series axis.
        origins: the time from which each series counts, `[series]`; NaN while that is open.
        explicit: whether the user said where time begins.
        static: covariates, `[series, k]`.
        channels: channels of the model.
        missing: whether the model takes points that lack a channel.
        chunks: a linked list of observations, latest first, so that adding to it costs O(1).
        size: how many points were observed in all.
        kept: whether the observations themselves are here, and not only what the encoder made of them.
    """

    scaling: Scaling
    single: bool
    origins: np.ndarray
    explicit: bool
    static: np.ndarray
    channels: int
    missing: bool
    chunks: Any = None
    size: int = 0
    kept: bool = True

    def __len__(self) -> int:
        return len(self.origins)

    def read(self, t: Any, y: Any) -> tuple[Any, Any, np.ndarray]:
        """Checks new observations against the model: `t [series, n]`, `y [series, n, channels]`, and lengths."""
        t, y, lengths, single = read_arrays(t, y, self.channels)
        came = "one series" if single else f"{t.shape[0]} series"
        own = (
            "one series, so pass t [n]" if self.single else f"{len(self)} series, so pass t [{len(self)}, n] or a list of arrays"
        )
        checks.require(
            single == self.single and t.shape[0] == len(self), f"Got observations of {came}; this posterior is of {own}."
        )
        return t, y, lengths

    def check_complete(self, y: Any) -> None:
        """Raises if a point lacks a channel and the model's encoder cannot be told so."""
        if self.missing or checks.is_traced(y):
            return
        gone = np.isnan(y)
        partial = np.argwhere(gone.any(-1) & ~gone.all(-1))
        if len(partial):
            place = tuple(map(int, partial[0]))
            raise ValueError(
                f"`y` lacks a channel at index {place[1] if self.single else place}, and this model was trained on points that "
                "had them all. Leave those points out, or train with variant(…, missing=True)."
            )

    def scaled(self, t: Any, y: Any, least: int) -> Series:
        """Checked observations as the model sees them, padded to a bucket of at least `least` points."""
        return self.scaling.apply_to_new(pack(t, y, self.static, bucket(t.shape[1], least)), np.nan_to_num(self.origins))

    def add(self, t: Any, y: Any, lengths: np.ndarray) -> "Record":
        """The record with more observations; the first ones decide where time begins, if that is open."""
        origins = self.origins
        if self.scaling.origin == "first":
            checks.require(
                self.explicit or not checks.is_traced(t),
                "Traced times have no first one to count from; pass `origin=` to `condition`.",
            )
            seen = np.ones(t.shape, bool) if checks.is_traced(y) else ~np.isnan(y).all(-1)
            firsts = origins if checks.is_traced(t) else series_origins(t, seen, "first")
            early = np.flatnonzero(firsts < origins) if not self.explicit else []
            checks.require(
                len(early) == 0,
                f"An observation at {firsts[early].min(initial=np.inf)} comes before the first one so far, from which this model "
                "counts time. Condition on all observations anew, or pass `origin=` to `condition`.",
            )
            origins = np.where(np.isnan(origins), firsts, origins)
        return dataclasses.replace(
            self, origins=origins, chunks=(self.chunks, (t, y, lengths)), size=self.size + int(lengths.sum())
        )

    def notes(self, t: Any, y: Any, *, values: bool = True) -> list[str]:
        """What is to be said of observations that lie outside what the model was trained on, their `values` too or not."""
        known = self.scaling.training_range
        if known is None or checks.is_traced(t, y):
            return []
        at = np.where(np.isnan(y).all(-1), np.nan, t - np.nan_to_num(self.origins)[:, None])
        found = (known.times_note(at), known.values_note(y) if values else None)
        return [note for note in found if note is not None]

    def warn_of_times(self, t: Any) -> None:
        """Warns of query times that lie outside those of training."""
        if self.scaling.training_range is not None and not checks.is_traced(t):
            training_range.warn(self.scaling.training_range.times_note(t - self.origins[:, None]))

    def holding(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> "Record":
        """The record with `(t, y)` of each series, which have been checked."""
        lengths = np.array([len(t) for t, _ in pairs], np.int64)
        t = np.zeros((len(pairs), lengths.max(initial=0)))
        y = np.full((*t.shape, self.channels), np.nan)
        for i, (times, values) in enumerate(pairs):
            t[i, : len(times)], y[i, : len(times)] = times, values
        return dataclasses.replace(self, chunks=(None, (t, y, lengths)), size=int(lengths.sum()))

    def __getitem__(self, i: int) -> "Record":
        part, chunks, size = slice(i, i + 1), None, 0
        for t, y, lengths in self._in_order() if self.kept else ():
            chunks, size = (chunks, (t[part], y[part], lengths[part])), size + int(lengths[i])
        return dataclasses.replace(
            self, single=True, origins=self.origins[part], static=self.static[part], chunks=chunks, size=size
        )

    def observations(self) -> Any:
        """`(t, y)` for one series, a list of such pairs for a batch; in the order in which they came."""
        pairs = []
        for i in range(len(self)):
            parts = [(t[i, : n[i]], y[i, : n[i]]) for t, y, n in self._in_order()]
            empty = (np.zeros(0), np.zeros((0, self.channels)))
            pairs.append(tuple(np.concatenate(x) for x in zip(*(parts or [empty]), strict=True)))
        return pairs[0] if self.single else pairs

    def everything(self, least: int = 16) -> Series:
        """All observations as the model sees them, padded to a bucket of at least `least` points."""
        t, y = (np.concatenate(parts, 1) for parts in zip(*((t, y) for t, y, _ in self._in_order()), strict=True))
        return self.scaled(t, y, least=least)

    def times(self) -> tuple[np.ndarray, np.ndarray]:
        """All times, `[series, n]`, and at which of them something was observed."""
        chunks = [(t, ~np.isnan(y).all(-1)) for t, y, _ in self._in_order()]
        seen, observed = (np.concatenate(parts, 1) for parts in zip(*chunks, strict=True))
        return seen, observed

    def query(self, times: Any) -> Any:
        """Query times as `[series, m]`, in the user's units."""
        checks.require(
            not (isinstance(times, (list, tuple)) and len({np.shape(x) for x in times}) > 1),
            f"`times` has rows of different lengths; expected [m]{'' if self.single else f', or [{len(self)}, m]'}.",
        )
        t = checks.as_times("times", times)
        t = t[None] if t.ndim == 0 else t
        checks.finite_times("times", t)
        if t.ndim == 1:
            return (jnp if checks.is_traced(t) else np).broadcast_to(t[None], (len(self), t.shape[0]))
        own = "" if self.single else f", or [{len(self)}, m] to ask each series its own"
        checks.require(
            t.ndim == 2 and t.shape[0] == len(self) and not self.single, f"`times` has shape {t.shape}; expected [m]{own}."
        )
        return t

    def check_begun(self) -> None:
        """Raises if a series has no time to count from yet."""
        unknown = np.flatnonzero(np.isnan(self.origins))
        checks.require(
            len(unknown) == 0,
            f"{'This series' if self.single else f'Series {min(unknown, default=0)}'} has no observation yet, and this model "
            "counts time from the first one: pass `origin=` to `condition` to say where its time begins.",
        )

    def scaled_query(self, t: Any) -> Any:
        """Query times as the model sees them."""
        self.check_begun()
        scaled = self.scaling.times(t, self.origins[:, None])
        self.scaling.refuse_far("t", t, scaled, "times")
        return scaled

    def squeeze(self, x: Any) -> Any:
        """A result without its series axis, where there is one series."""
        return x[0] if self.single else x

    def _in_order(self):
        checks.require(
            self.kept,
            "This needs the observations themselves, which were not kept. Make the stream with keep=True, or condition on them.",
        )
        chunks, found = self.chunks, []
        while chunks is not None:
            chunks, chunk = chunks
            found.append(chunk)
        return found[::-1]


def new_record(count: int, *, origin: Any, scaling: Scaling, **fields: Any) -> Record:
    """A record without observations."""
    checks.require(
        origin is None or scaling.origin == "first",
        "`origin` was given, but this model's times are absolute. It is for models fitted with origin='first'.",
    )
    origins = np.full(count, 0.0 if scaling.origin == "absolute" else np.nan)
    if origin is not None:
        given = np.asarray(checks.as_times("origin", origin))
        checks.require(
            given.shape in ((), (count,)), f"`origin` has shape {given.shape}; expected a number, or one for each series."
        )
        checks.finite_times("origin", np.atleast_1d(given))
        origins = np.broadcast_to(given, (count,))
    static = np.asarray(fields["static"], np.float64)
    scaling.refuse_far("static", static, scaling.covariates(static))
    if scaling.training_range is not None:
        training_range.warn(scaling.training_range.static_note(static))
    return Record(scaling, origins=origins, explicit=origin is not None, **fields)
