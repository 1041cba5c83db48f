"""The record: what has been observed of one series or of a batch, on the host and in the user's units."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from . import checks
from .scaling import Scaling, series_origins
from .series import Series, bucket, pack, read_arrays


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """Observations so far, and how queries and results are shaped for them.

    Attributes:
        scaling: between the user's units and the model's.
        single: one series, whose results have no series axis.
        origins: the time from which each series counts, `[series]`.
        static: covariates, `[series, k]`.
        channels: channels of the model.
        missing: whether the model takes points that lack a channel.
        chunks: a linked list of observations, latest first, so that adding to it costs O(1).
        size: how many points were observed in all.
    """

    scaling: Scaling
    single: bool
    origins: np.ndarray
    static: np.ndarray
    channels: int
    missing: bool
    chunks: Any = None
    size: int = 0

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
        if not (self.missing or checks.is_traced(y)):
            gone = np.isnan(y)
            partial = np.argwhere(gone.any(-1) & ~gone.all(-1))
            if len(partial):
                raise ValueError(
                    f"`y` lacks a channel at index {tuple(map(int, partial[0]))}, and this model was trained on points that "
                    "had them all. Leave those points out, or train with variant(…, missing=True)."
                )
        return t, y, lengths

    def scaled(self, t: Any, y: Any, least: int) -> Series:
        """Checked observations as the model sees them, padded to a bucket of at least `least` points."""
        return self.scaling.apply(pack(t, y, self.static, bucket(t.shape[1], least)), self.origins)

    def add(self, t: Any, y: Any, lengths: np.ndarray) -> "Record":
        """The record with more observations."""
        return dataclasses.replace(self, chunks=(self.chunks, (t, y, lengths)), size=self.size + int(lengths.sum()))

    def __getitem__(self, i: int) -> "Record":
        chunks = None
        for t, y, lengths in self._in_order():
            chunks = (chunks, (t[i : i + 1], y[i : i + 1], lengths[i : i + 1]))
        size = sum(int(lengths[i]) for _, _, lengths in self._in_order())
        part = slice(i, i + 1)
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

    def query(self, times: Any) -> Any:
        """Query times as `[series, m]`, in the user's units."""
        t = checks.as_array("times", times)
        t = t[None] if t.ndim == 0 else t
        checks.finite_times("times", t)
        if t.ndim == 1:
            return (jnp if checks.is_traced(t) else np).broadcast_to(t[None], (len(self), t.shape[0]))
        own = "" if self.single else f", or [{len(self)}, m] to ask each series its own"
        checks.require(
            t.ndim == 2 and t.shape[0] == len(self) and not self.single, f"`times` has shape {t.shape}; expected [m]{own}."
        )
        return t

    def scaled_query(self, t: Any) -> Any:
        """Query times as the model sees them."""
        return self.scaling.times(t, self.origins[:, None])

    def squeeze(self, x: Any) -> Any:
        """A result without its series axis, where there is one series."""
        return x[0] if self.single else x

    def _in_order(self):
        chunks, found = self.chunks, []
        while chunks is not None:
            chunks, chunk = chunks
            found.append(chunk)
        return found[::-1]


def new_record(
    t: Any, y: Any, *, scaling: Scaling, static: np.ndarray, single: bool, channels: int, missing: bool, origin: Any
) -> Record:
    """An empty record for checked first observations, which decide where each series' time begins."""
    count = t.shape[0]
    if origin is not None:
        origins = np.broadcast_to(checks.as_array("origin", origin), (count,))
        checks.finite_times("origin", origins)
    elif scaling.origin == "first":
        checks.require(
            not checks.is_traced(t, y), "Times that count from the first observation cannot be traced; pass `origin=` yourself."
        )
        origins = series_origins(t, ~np.isnan(y).all(-1), scaling.origin)
    else:
        origins = np.zeros(count)
    return Record(scaling, single, origins, static, channels, missing)
