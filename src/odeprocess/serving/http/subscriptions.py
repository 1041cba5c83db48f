"""Subscriptions to changes of series: each open event stream waits for changes of one series."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Subscriptions:
    """The events that subscribers wait for, by series; used in the event loop's thread only."""

    def __init__(self, max_subscribers: int):
        self._max_subscribers = max_subscribers
        self._events: dict[str, set[asyncio.Event]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._events.values()))

    @property
    def full(self) -> bool:
        """Whether there are as many subscribers as may be."""
        return len(self) >= self._max_subscribers

    @contextmanager
    def subscribe(self, name: str) -> Iterator[asyncio.Event]:
        """Yields an event that is set now, and again whenever the series changes."""
        event = asyncio.Event()
        event.set()
        self._events.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            self._events[name].discard(event)
            if not self._events[name]:
                del self._events[name]

    def notify(self, name: str) -> None:
        """Sets the events of a series' subscribers, because it has changed."""
        for event in self._events.get(name, ()):
            event.set()
