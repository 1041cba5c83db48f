"""The desk: everything that the server knows, and the work it does; used by one thread.

A series lives in two places: in the store, as it was said, and in the stream of its model, as the model sees it. The
stream comes first, because it knows what can be added; the store last, because what is there counts.
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

from .disk_space import UNREADABLE
from .errors import Refused, conflict, unknown
from .limits import Limits
from .schemas import NewObservations, NewSeries, Prediction, Question, SeriesCard, SeriesList, SeriesWhole, Suggested, Wish
from .served_model import ServedModel
from .sqlite_store import Entry, Retry, Store

PADDED = (16, 64, 256, 1024)  # times in a question: few numbers, so that few compilations serve all


class Service:
    """Models, their streams, and the store.

    Attributes:
        models: by name; the first is the one that is meant where none is named.
        entries: the open series, by id.
        streams: by the name of the model.
    """

    def __init__(self, models: dict[str, ServedModel], store: Store, limits: Limits, seed: int = 0):
        self.models, self.store, self.limits = models, store, limits
        self._key = jr.key(seed)
        self.entries: dict[str, Entry] = {}
        self._used: dict[str, float] = {}
        self._changed: set[str] = set()  # series, since the transaction began
        self._lost: set[str] = set()  # series that the store could not give back
        self.streams = {name: Stream(each.model, key=self._key, draws=Limits.DRAWS) for name, each in self.models.items()}
        for name in self.models:  # series of models that are not served stay in the store, unseen
            self._restore([entry for entry in self.store.entries() if entry.model == name])

    @contextlib.contextmanager
    def transaction(self, frees: bool = False) -> Iterator[None]:
        """Whatever changes inside is on the disk at the end, or is undone here and there."""
        self._changed.clear()
        try:
            with self.store.transaction(frees):
                yield
        except BaseException:
            for name in self._changed:
                self._reread(name)
            raise

    def _reread(self, name: str) -> None:
        """Makes one series anew from the store."""
        if name in self.entries:
            self._drop(name)
        try:
            self._restore([entry for entry in self.store.entries(name) if entry.model in self.models])
        except Exception as error:
            self._lost.add(name)
            logging.getLogger("odeprocess.serving.http").error("Series %s could not be read again: %s", name, error)

    def _restore(self, entries: list[Entry]) -> None:
        """Opens series of one model that are in the store, all at once, or without those that do not fit the model any more."""
        rows = []
        try:
            for entry in entries:
                self._begin(entry)
                t, y = self.store.observations(entry.id)
                values = self.models[entry.model].read_values(y)
                rows += [(entry.id, time, value) for time, value in zip(t, values, strict=True)]
            if rows:
                names, t, y = zip(*rows, strict=True)
                self._ask(lambda: self.streams[entries[0].model].observe(names, np.array(t), np.stack(y)))
        except Refused as refused:
            for entry in [entry for entry in entries if entry.id in self.entries]:
                self._drop(entry.id)
            if len(entries) > 1:
                for entry in entries:
                    self._restore([entry])
            else:
                logging.getLogger(__name__).warning("Series %s is left out: %s", entries[0].id, refused)

    def warm_up(self, advance: Callable[[str], None] = lambda note: None) -> None:
        """Compiles what every client will ask for, with series that nobody sees."""
        for name, served_model in self.models.items():
            start, end = served_model.span
            stream = Stream(served_model.model, key=self._key, draws=Limits.DRAWS)
            static = np.zeros(served_model.model.spec.static_dim or 0)
            stream.open("x", static=static if len(static) else None)
            for count in (1, 2, 4, 8, 16):
                stream.observe("x", np.linspace(start, end, count), np.ones((count, len(served_model.channels))))
            for count in PADDED:
                advance(f"{name}: compiling for {count} times")
                served_model.predict(stream.posterior(["x"]), np.linspace(start, end, count), 0.9, "observations")

    def open(self, request: NewSeries) -> SeriesCard:
        """Opens a series."""
        if len(self.entries) >= self.limits.series:
            raise conflict("too_many_series", f"{self.limits.series} series are open, which is the limit; delete some.")
        model = next(iter(self.models)) if request.model is None else request.model
        if model not in self.models:
            raise conflict("model", f"There is no such model; this server has {', '.join(self.models)}.", "body.model")
        name = secrets.token_hex(8) if request.id is None else request.id
        if name in self.entries or name in self.store:
            raise conflict("id", f"Series {name!r} is there already.", "body.id")
        t, y = _columns(request)
        self._changed.add(name)
        entry = Entry(name, model, request.static, request.origin)
        self._begin(entry)
        try:
            self._observe(name, t, y)
        except Refused:
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

    def once(self, request: NewSeries | NewObservations, key: str | None, name: str | None = None) -> tuple[SeriesCard, bool]:
        """Opens a series, or adds to the one that is named, and gives whether that had been done already.

        A request whose key is known is answered as it was the first time, and stores nothing.
        """
        digest = hashlib.sha256(request.model_dump_json(exclude_unset=True).encode()).digest()
        if key is not None:
            at = self.store.opened(key) if name is None else name
            known = None if at is None else self.store.retry(at, key)
            if at is not None and known is not None:
                if known.digest != digest:
                    message = "This key came with another body before; a request that is not the same needs a key of its own."
                    raise conflict("key", message, "header.idempotency-key")
                return SeriesCard(id=at, model=self._entry(at).model, count=known.count), True
        card = self.open(request) if isinstance(request, NewSeries) else self.add(name or "", request)
        if key is not None:
            self.store.remember(card.id, Retry(key, digest, card.count), opening=name is None)
        return card, False

    def card(self, name: str) -> SeriesCard:
        """A series in short."""
        entry = self._entry(name)
        return SeriesCard(id=name, model=entry.model, count=self.streams[entry.model].count(name))

    def whole(self, name: str) -> SeriesWhole:
        """A series with its observations, as they came."""
        entry, card = self._entry(name), self.card(name)
        t, y = self.store.observations(name)
        rows = [{"t": time, "y": values} for time, values in zip(t, y, strict=True)]
        return SeriesWhole(**card.model_dump(), static=entry.static, origin=entry.origin, observations=rows)  # type: ignore

    def listed(self, after: str, count: int) -> SeriesList:
        """Series in the order of their ids."""
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

    def expire(self) -> list[str]:
        """Deletes the series that nobody has asked about for long."""
        late = time.monotonic() - self.limits.idle
        gone = [name for name, used in self._used.items() if used < late]
        for name in gone:
            self.delete(name)
        return gone

    def predict(self, name: str, question: Question) -> Prediction:
        """What is believed of a series now."""
        entry, times = self._entry(name), np.array(question.times)
        self._check_reach(entry, times, "body.times")
        padded = np.pad(times, (0, _padded(len(times)) - len(times)), mode="edge")
        posterior, served_model = self._posterior(entry), self.models[entry.model]
        found = self._ask(lambda: served_model.predict(posterior, padded, question.level, question.of))
        if not all(np.isfinite(x).all() for x in found.values()):
            raise conflict("unreachable", "The model's numbers overflow at some of these times.", "body.times")
        draws = found.pop("draws")[: question.draws, : len(times)].tolist()
        rows = {what: values[: len(times)].tolist() for what, values in found.items()}
        notes = served_model.notes(posterior, times)
        return Prediction(count=self.card(name).count, times=question.times, draws=draws, notes=notes, **rows)

    def suggest(self, name: str, wish: Wish) -> Suggested:
        """Where to measure next."""
        entry, times = self._entry(name), np.array(wish.candidates)
        self._check_reach(entry, np.array([*wish.candidates, *(wish.about or [])]), "body.candidates")
        if wish.costs is not None and len(wish.costs) != len(times):
            raise conflict("costs", f"There are {len(wish.costs)} costs for {len(times)} candidates.", "body.costs")
        spare = (0, _padded(len(times)) - len(times))
        candidates = np.pad(times, spare, constant_values=np.nan)[None]
        costs = None if wish.costs is None else np.pad(wish.costs, spare, constant_values=1.0)
        options = {"by": wish.by, "count": wish.count, "about": wish.about, "forbidden": wish.forbidden}
        found = self._ask(lambda: suggest(self._posterior(entry), candidates, costs=costs, **options))
        return Suggested(times=found.times[0].tolist(), scores=found.scores[0].tolist())

    def counts(self) -> tuple[int, int]:
        """How many series and observations there are."""
        return len(self.entries), sum(self.streams[entry.model].count(name) for name, entry in self.entries.items())

    def _entry(self, name: str) -> Entry:
        if name in self._lost:
            raise Refused(503, "damaged", UNREADABLE)
        if name not in self.entries:
            raise unknown("series", name)
        self._used[name] = time.monotonic()
        return self.entries[name]

    def _posterior(self, entry: Entry):
        return self.streams[entry.model].posterior([entry.id])

    def _begin(self, entry: Entry) -> None:
        static = self.models[entry.model].read_static(entry.static)
        self._ask(lambda: self.streams[entry.model].open(entry.id, static=static, origin=entry.origin))
        self.entries[entry.id], self._used[entry.id] = entry, time.monotonic()

    def _observe(self, name: str, t: list[float], y: list[list[float | None]]) -> None:
        entry = self.entries[name]
        stream, served_model = self.streams[entry.model], self.models[entry.model]
        if stream.count(name) + len(t) > self.limits.points:
            raise conflict("too_many_points", f"A series may have {self.limits.points} observations.", "body.observations")
        if t:
            values = served_model.read_values(y)
            empty = np.flatnonzero(np.isnan(values).all(-1))
            if len(empty):
                raise conflict("empty", "An observation has no value at all; leave it out.", f"body.observations.{empty[0]}.y")
            self._ask(lambda: stream.observe(name, np.array(t), values))

    def _drop(self, name: str) -> None:
        self.streams[self.entries.pop(name).model].forget(name)
        del self._used[name]

    def _check_reach(self, entry: Entry, times: np.ndarray, where: str) -> None:
        start, end = self.models[entry.model].span
        reach = Limits.SPANS * (end - start)
        times = times - (
            self._posterior(entry).record.origins[0] if self.models[entry.model].model.scaling.origin == "first" else 0
        )
        if (times < start - reach).any() or (times > end + reach).any():
            message = (
                f"A time lies too far from the training times, {start:g} to {end:g}: at most {reach:g} before or after them."
            )
            raise conflict("too_far", message, where)

    @staticmethod
    def _ask(act):
        """What the library refuses is the client's to mend."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SolverWarning)
                warnings.simplefilter("ignore", ExtrapolationWarning)  # what is predicted says so itself
                return act()
        except ValueError as error:
            raise conflict("refused", str(error)) from None


def _columns(request: NewSeries | NewObservations) -> tuple[list[float], list[list[float | None]]]:
    return [each.t for each in request.observations], [each.y for each in request.observations]


def _padded(count: int) -> int:
    return next(size for size in PADDED if size >= count)
