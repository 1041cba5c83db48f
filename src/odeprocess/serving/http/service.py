"""What the server does with series: open, add, predict, suggest, delete. One thread uses it, see `worker`.

Each series is in two places: in the store, as the client sent it, and in the `Stream` of its model. A change is made in the
stream first, which checks it, and in the store last, which is what counts after a failure.
"""

import contextlib
import hashlib
import logging
import secrets
import time
import warnings
from collections.abc import Callable, Iterator

import jax.random as jr
import numpy as np

from odeprocess.data.training_range import ExtrapolationWarning
from odeprocess.posterior.functions import SolverWarning
from odeprocess.posterior.next_measurement import suggest
from odeprocess.streaming.stream import Stream

from .disk_space import DAMAGED_MESSAGE
from .errors import ApiError, conflict, not_found
from .limits import Limits
from .schemas import (
    NewObservations,
    NewSeries,
    Prediction,
    PredictionRequest,
    SeriesCard,
    SeriesList,
    SeriesWithObservations,
    Suggestion,
    SuggestionRequest,
)
from .served_model import ServedModel
from .sqlite_store import Retry, SeriesEntry, SeriesStore

TIME_BUCKETS = (16, 64, 256, 1024)  # times are padded to one of these numbers, so that four compilations serve all requests
WARM_UP_COUNTS = (1, 2, 4, 8, 16)  # observations added at once before the first request, which compiles the common sizes
LOG = logging.getLogger("odeprocess.serving.http")


class Service:
    """The models, their streams, and the store.

    Attributes:
        models: by name; the first is used where a request names none.
        entries: the open series, by id.
        streams: by the name of the model.
    """

    def __init__(self, models: dict[str, ServedModel], store: SeriesStore, limits: Limits, seed: int = 0):
        self.models, self.store, self.limits = models, store, limits
        self._key = jr.key(seed)
        self.entries: dict[str, SeriesEntry] = {}
        self._last_used: dict[str, float] = {}
        self._changed: set[str] = set()  # series changed in this transaction
        self._unreadable: set[str] = set()  # series whose stored data could not be read
        self.streams = {name: Stream(each.model, key=self._key, draws=Limits.MAX_DRAWS) for name, each in self.models.items()}
        for name in self.models:  # series of other models stay in the store and are not shown
            self._restore([entry for entry in self.store.entries() if entry.model == name])

    @contextlib.contextmanager
    def transaction(self, frees_space: bool = False) -> Iterator[None]:
        """Stores all changes inside on the disk at the end, or undoes them in the store and in the streams."""
        self._changed.clear()
        try:
            with self.store.transaction(frees_space):
                yield
        except BaseException:
            for name in self._changed:
                self._read_again(name)
            raise

    def warm_up(self, report: Callable[[str], None] = lambda note: None) -> None:
        """Compiles what most requests need, with a series that is not shown; calls `report` with its progress."""
        for name, served_model in self.models.items():
            start, end = served_model.span
            stream = Stream(served_model.model, key=self._key, draws=Limits.MAX_DRAWS)
            static = np.zeros(served_model.model.spec.static_dim or 0)
            stream.open("x", static=static if len(static) else None)
            for count in WARM_UP_COUNTS:
                stream.observe("x", np.linspace(start, end, count), np.ones((count, len(served_model.units.channels))))
            for count in TIME_BUCKETS:
                report(f"{name}: compiling for {count} times")
                served_model.predict(stream.posterior(["x"]), np.linspace(start, end, count), 0.9, "observations")

    def open(self, request: NewSeries) -> SeriesCard:
        """Opens a series, with its observations if there are some."""
        if len(self.entries) >= self.limits.max_series:
            raise conflict("too_many_series", f"{self.limits.max_series} series are open, which is the limit; delete some.")
        model = next(iter(self.models)) if request.model is None else request.model
        if model not in self.models:
            raise conflict("model", f"There is no such model; this server has {', '.join(self.models)}.", "body.model")
        name = secrets.token_hex(8) if request.id is None else request.id
        if name in self.entries or name in self.store:
            raise conflict("id", f"Series {name!r} exists already.", "body.id")
        t, y = _columns(request)
        self._changed.add(name)
        entry = SeriesEntry(name, model, request.static, request.origin)
        self._open_in_stream(entry)
        try:
            self._observe(name, t, y)
        except ApiError:
            self._drop(name)
            raise
        self.store.open(entry)
        self.store.add(name, 0, t, y)
        return self.card(name)

    def add(self, name: str, request: NewObservations) -> SeriesCard:
        """Adds observations to a series."""
        before = self.card(name).count
        t, y = _columns(request)
        self._changed.add(name)
        self._observe(name, t, y)
        self.store.add(name, before, t, y)
        return self.card(name)

    def store_once(
        self, request: NewSeries | NewObservations, key: str | None, name: str | None = None
    ) -> tuple[SeriesCard, bool]:
        """Opens a series, or adds to the series `name`; returns its card, and whether an earlier request with this key did that.

        A second request with a key is answered as the first was, and stores nothing.
        """
        digest = hashlib.sha256(request.model_dump_json(exclude_unset=True).encode()).digest()
        if key is not None:
            series = self.store.opened_with(key) if name is None else name
            earlier = None if series is None else self.store.retry(series, key)
            if series is not None and earlier is not None:
                if earlier.digest != digest:
                    message = "This key came with another body before; a different request needs a key of its own."
                    raise conflict("key", message, "header.idempotency-key")
                return SeriesCard(id=series, model=self._entry(series).model, count=earlier.count), True
        card = self.open(request) if isinstance(request, NewSeries) else self.add(name or "", request)
        if key is not None:
            self.store.add_retry(card.id, Retry(key, digest, card.count), opening=name is None)
        return card, False

    def card(self, name: str) -> SeriesCard:
        """The model of a series and its number of observations."""
        entry = self._entry(name)
        return SeriesCard(id=name, model=entry.model, count=self.streams[entry.model].count(name))

    def show(self, name: str) -> SeriesWithObservations:
        """A series with its observations, in the order in which they were added."""
        entry, card = self._entry(name), self.card(name)
        t, y = self.store.observations(name)
        rows = [{"t": time, "y": values} for time, values in zip(t, y, strict=True)]
        fields = {**card.model_dump(), "static": entry.static, "origin": entry.origin, "observations": rows}
        return SeriesWithObservations(**fields)

    def list_series(self, after: str, count: int) -> SeriesList:
        """At most `count` series whose ids come after `after`, in the order of their ids."""
        names = sorted(name for name in self.entries if name > after)
        cards = [
            SeriesCard(id=name, model=model, count=self.streams[model].count(name))
            for name, model in ((name, self.entries[name].model) for name in names[:count])
        ]
        return SeriesList(series=cards, next=names[count - 1] if len(names) > count else None)

    def delete(self, name: str) -> None:
        """Deletes a series."""
        self._entry(name)
        self._changed.add(name)
        self._drop(name)
        self.store.delete(name)

    def delete_idle(self) -> list[str]:
        """Deletes the series that have not been used for long, and returns their ids."""
        oldest = time.monotonic() - self.limits.idle_seconds
        idle = [name for name, used in self._last_used.items() if used < oldest]
        for name in idle:
            self.delete(name)
        return idle

    def predict(self, name: str, request: PredictionRequest) -> Prediction:
        """Predicts a series at some times."""
        entry, times = self._entry(name), np.array(request.times)
        self._check_times(entry, times, "body.times")
        padded = np.pad(times, (0, _bucket(len(times)) - len(times)), mode="edge")
        posterior, served_model = self._posterior(entry), self.models[entry.model]
        found = self._call(lambda: served_model.predict(posterior, padded, request.level, request.of))
        if not all(np.isfinite(x).all() for x in found.values()):
            raise conflict("unreachable", "The model's numbers overflow at some of these times.", "body.times")
        draws = found.pop("draws")[: request.draws, : len(times)].tolist()
        rows = {name: values[: len(times)].tolist() for name, values in found.items()}
        notes = served_model.notes(posterior, times)
        return Prediction(count=self.card(name).count, times=request.times, draws=draws, notes=notes, **rows)

    def suggest(self, name: str, request: SuggestionRequest) -> Suggestion:
        """Suggests which of some times to measure at next."""
        entry, times = self._entry(name), np.array(request.candidates)
        self._check_times(entry, np.array([*request.candidates, *(request.about or [])]), "body.candidates")
        if request.costs is not None and len(request.costs) != len(times):
            raise conflict("costs", f"There are {len(request.costs)} costs for {len(times)} candidates.", "body.costs")
        padding = (0, _bucket(len(times)) - len(times))
        candidates = np.pad(times, padding, constant_values=np.nan)[None]
        costs = None if request.costs is None else np.pad(request.costs, padding, constant_values=1.0)
        options = {"by": request.by, "count": request.count, "about": request.about, "forbidden": request.forbidden}
        found = self._call(lambda: suggest(self._posterior(entry), candidates, costs=costs, **options))
        return Suggestion(times=found.times[0].tolist(), scores=found.scores[0].tolist())

    def counts(self) -> tuple[int, int]:
        """The number of open series, and of all their observations."""
        return len(self.entries), sum(self.streams[entry.model].count(name) for name, entry in self.entries.items())

    def _read_again(self, name: str) -> None:
        """Replaces a series in its stream by what the store holds."""
        if name in self.entries:
            self._drop(name)
        try:
            self._restore([entry for entry in self.store.entries(name) if entry.model in self.models])
        except Exception as error:
            self._unreadable.add(name)
            LOG.error("Series %s could not be read again: %s", name, error)

    def _restore(self, entries: list[SeriesEntry]) -> None:
        """Opens stored series of one model, all at once; if some do not fit the model any more, opens the others one by one."""
        rows = []
        try:
            for entry in entries:
                self._open_in_stream(entry)
                t, y = self.store.observations(entry.id)
                values = self.models[entry.model].read_values(y)
                rows += [(entry.id, time, value) for time, value in zip(t, values, strict=True)]
            if rows:
                names, t, y = zip(*rows, strict=True)
                self._call(lambda: self.streams[entries[0].model].observe(names, np.array(t), np.stack(y)))
        except ApiError as error:
            for entry in [entry for entry in entries if entry.id in self.entries]:
                self._drop(entry.id)
            if len(entries) > 1:
                for entry in entries:
                    self._restore([entry])
            else:
                logging.getLogger(__name__).warning("Series %s is left out: %s", entries[0].id, error)

    def _entry(self, name: str) -> SeriesEntry:
        if name in self._unreadable:
            raise ApiError(503, "damaged", DAMAGED_MESSAGE)
        if name not in self.entries:
            raise not_found("series", name)
        self._last_used[name] = time.monotonic()
        return self.entries[name]

    def _posterior(self, entry: SeriesEntry):
        return self.streams[entry.model].posterior([entry.id])

    def _open_in_stream(self, entry: SeriesEntry) -> None:
        static = self.models[entry.model].read_static(entry.static)
        self._call(lambda: self.streams[entry.model].open(entry.id, static=static, origin=entry.origin))
        self.entries[entry.id], self._last_used[entry.id] = entry, time.monotonic()

    def _observe(self, name: str, t: list[float], y: list[list[float | None]]) -> None:
        entry = self.entries[name]
        stream, served_model = self.streams[entry.model], self.models[entry.model]
        if stream.count(name) + len(t) > self.limits.max_points:
            raise conflict("too_many_points", f"A series may have {self.limits.max_points} observations.", "body.observations")
        if t:
            values = served_model.read_values(y)
            empty = np.flatnonzero(np.isnan(values).all(-1))
            if len(empty):
                raise conflict("empty", "An observation has no value at all; leave it out.", f"body.observations.{empty[0]}.y")
            self._call(lambda: stream.observe(name, np.array(t), values))

    def _drop(self, name: str) -> None:
        self.streams[self.entries.pop(name).model].forget(name)
        del self._last_used[name]

    def _check_times(self, entry: SeriesEntry, times: np.ndarray, where: str) -> None:
        """Raises if a time is too far from the training times."""
        start, end = self.models[entry.model].span
        margin = Limits.MAX_EXTRAPOLATION * (end - start)
        counts_from_first = self.models[entry.model].model.scaling.origin == "first"
        times = times - (self._posterior(entry).record.origins[0] if counts_from_first else 0)
        if (times < start - margin).any() or (times > end + margin).any():
            message = f"A time is too far from the training times, {start:g} to {end:g}: at most {margin:g} before or after them."
            raise conflict("too_far", message, where)

    @staticmethod
    def _call(function):
        """Calls the library; its `ValueError`s become errors of the client, its warnings are among the prediction's notes."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SolverWarning)
                warnings.simplefilter("ignore", ExtrapolationWarning)
                return function()
        except ValueError as error:
            raise conflict("refused", str(error)) from None


def _columns(request: NewSeries | NewObservations) -> tuple[list[float], list[list[float | None]]]:
    return [each.t for each in request.observations], [each.y for each in request.observations]


def _bucket(count: int) -> int:
    return next(size for size in TIME_BUCKETS if size >= count)
