"""Questions to a model about many series: chunk by chunk, so that memory stays bounded."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.data import training_range
from odeprocess.data.series import bucket
from odeprocess.posterior.latent_posterior import Inference
from odeprocess.posterior.model import Model
from odeprocess.posterior.posterior import Posterior
from odeprocess.posterior.series_keys import series_keys

from .clock import UNITS
from .exact_times import ExactTimes
from .message_text import quote
from .parse_dates import TICKS_PER_SECOND, YEARS, to_exact_times
from .read_table import read
from .rows import TableRows
from .table_layout import Layout

SERIES_AT_ONCE = 256
NUMBERS_AT_ONCE = 20_000_000  # decoded at once: series × draws × times × channels


@dataclasses.dataclass(frozen=True)
class Predictor:
    """Who asks, and how.

    Attributes:
        model: who is asked.
        draws: that describe each posterior.
        inference: as in `Model.condition`.
        seed: of the draws; those of a series depend on it and on the series' name, never on who else is in the table.
    """

    model: Model
    draws: int
    inference: Inference
    seed: int

    def posterior(self, long: TableRows, index: np.ndarray, picked: list[np.ndarray]) -> Posterior:
        """The posterior of some series, given the rows `picked` of each."""
        t, y = long.gather(picked)
        keys = series_keys([long.name(i) for i in index], self.seed)
        return self.model.condition(t, y, key=keys, static=long.static[index], draws=self.draws, inference=self.inference)

    def chunks(
        self, long: TableRows, index: np.ndarray, given: list[np.ndarray], times: list[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, Posterior, np.ndarray]]:
        """Parts of the series, with their posteriors and padded times.

        Arguments:
            long: the table.
            index: series to ask about.
            given: the rows of each of them that are given.
            times: the times that are asked about, for each of them.

        Yields:
            Places in `index`, the posterior of those series, and their times `[series, m]`. The posterior may have more
            series than were asked about: their number is padded, so that a few compilations serve all tables.
        """
        training_range.warn(*self._notes(long, index, given, times))  # once, and by name: not for each part
        quiet = dataclasses.replace(self, model=dataclasses.replace(self.model, scaling=self.model.scaling.anywhere()))
        sizes = np.array([[bucket(len(rows), 16), bucket(len(t), 8)] for rows, t in zip(given, times, strict=True)])
        for same in _alike(sizes):
            m = max(1, int(max(len(times[i]) for i in same)))
            channels = self.model.spec.channels or 1
            at_once = int(np.clip(NUMBERS_AT_ONCE // (self.draws * m * channels), 1, SERIES_AT_ONCE))
            for part in np.array_split(same, -(-len(same) // at_once)):
                padded = np.resize(part, min(bucket(len(part)), at_once)) if len(part) > 1 else part
                posterior = quiet.posterior(long, index[padded], [given[i] for i in padded])
                asked = np.stack(
                    [np.pad(times[i], (0, m - len(times[i])), mode="edge" if len(times[i]) else "constant") for i in padded]
                )
                yield part, posterior, asked

    def _notes(self, long: TableRows, index: np.ndarray, given: list[np.ndarray], times: list[np.ndarray]) -> list[str]:
        """What is to be said of series that lie outside what the model was trained on."""
        known, notes = self.model.scaling.training_range, []
        if known is None:
            return notes
        late = [known.beyond_times(np.concatenate([t, long.t[rows]])).any() for t, rows in zip(times, given, strict=True)]
        odd = [known.beyond_values(long.y[rows]).any() for rows in given]
        if any(late):
            notes.append(
                f"{_listed(long, index[late])} asked about, or observed, at times outside those of the training table, "
                f"{known.t[0]:.10g} to {known.t[1]:.10g} from where a series begins. What is "
                "predicted there is extrapolated: the further away, the less its intervals can be relied on. Train on series "
                "that go as far."
            )
        if any(odd):
            notes.append(
                f"{_listed(long, index[odd])} observed with values far outside those of the training table. The model has not "
                "learned what such series do. Check their units, or train on series like them."
            )
        return notes


def _listed(long: TableRows, index: np.ndarray) -> str:
    names = ", ".join(quote(long.name(i)) for i in index[:3]) + (", …" if len(index) > 3 else "")
    return f"{len(index)} series ({names}) {'is' if len(index) == 1 else 'are'}"


@dataclasses.dataclass(frozen=True, eq=False)
class AskedTimes:
    """Times that are asked about.

    Attributes:
        t: of each series, from its origin, in the model's unit.
        when: the same as a table has them, one series after the other.
    """

    t: list[np.ndarray]
    when: ExactTimes


def asked_times(times: Any, long: TableRows, layout: Layout, separator: str = ",") -> AskedTimes:
    """The times that a user asks about.

    Arguments:
        times: numbers from each series' origin; dates, or spans of time; or a table with columns of series and time.
        long: the series.
        layout: how tables are read.
        separator: of a CSV file.
    """
    if isinstance(times, str) or hasattr(times, "__fspath__") or hasattr(times, "columns"):
        return AskedTimes(*layout.read_times(read(times, separator=separator), long))
    clock, array = layout.clock, np.atleast_1d(_as_array(times))
    checks.require(array.ndim == 1, f"`times` has shape {array.shape}; expected a list of numbers, or a table.")
    each = np.repeat(np.arange(len(long)), len(array))
    if array.dtype.kind == "M":
        found = _dates(array, clock.kind, clock.zone)
        when = found[np.tile(np.arange(len(array)), len(long))]
        relative = clock.relative(when, long.origins[each])
        return AskedTimes(np.split(relative, len(long)), when)
    if array.dtype.kind == "m":
        checks.require(
            clock.kind == "date", f"`times` holds spans of time, but {layout.columns.time!r} holds numbers: ask with numbers."
        )
        array = np.where(np.isnat(array), np.nan, array / np.timedelta64(1, "us")) / UNITS[clock.unit or "seconds"]
    array = np.asarray(checks.as_times("times", array))
    checks.finite_times("times", array)
    when = clock.after(long.origins[each], np.tile(array, len(long)))
    good = when.is_whole or bool(np.isfinite(when.counts).all())
    checks.require(good, "`times` are so large that they cannot be added to where series begin.")
    return AskedTimes([array] * len(long), when)


def _as_array(times: Any) -> Any:
    """A list of dates or spans as an array of such; anything else as NumPy sees it."""
    array = times if checks.is_traced(times) else np.asarray(times)
    if array.dtype.kind == "O" and array.ndim == 1 and len(array):
        for kind in ("datetime64", "timedelta64"):
            names = {"datetime64": ("date", "datetime", "Timestamp"), "timedelta64": ("timedelta", "Timedelta")}[kind]
            if all(type(x).__name__ in names and getattr(x, "tzinfo", None) is None for x in array):
                return array.astype(f"{kind}[us]")
    return array


def _dates(array: np.ndarray, kind: str, zone: str | None) -> ExactTimes:
    import pyarrow as pa

    checks.require(kind == "date", "`times` holds dates, but the time column holds numbers.")
    checks.require(zone is None, "`times` holds dates without a time zone, but the table has one: pass a table of times.")
    checks.require(not np.isnat(array).any(), "`times` holds a date that is missing (NaT); leave it out.")
    try:
        unit = np.datetime_data(array.dtype)[0]
        given = pa.array(array if unit in TICKS_PER_SECOND else array.astype("datetime64[s]"))
        found, sound = to_exact_times(given)
    except (pa.ArrowException, OverflowError, ValueError):
        found, sound = ExactTimes(np.zeros(0)), np.zeros(1, bool)
    checks.require(bool(sound.all()), f"`times` holds dates beyond those that can be read; {YEARS}")
    return found


def _alike(sizes: np.ndarray) -> list[np.ndarray]:
    """Groups of series whose padded sizes are the same, so that one long series does not pad them all."""
    _, group = np.unique(sizes, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
