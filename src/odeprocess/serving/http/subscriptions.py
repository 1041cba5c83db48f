"""The bell: tells those who follow a series that it has changed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Subscriptions:
    """Events of listeners by series; used in the server's own thread."""

    def __init__(self, most: int):
        self._most = most
        self._heard: dict[str, set[asyncio.Event]] = {}

    @property
    def listeners(self) -> int:
        """How many listen."""
        return sum(map(len, self._heard.values()))

    @property
    def full(self) -> bool:
        """Whether as many listen as may."""
        return self.listeners >= self._most

    @contextmanager
    def listening(self, name: str) -> Iterator[asyncio.Event]:
        """An event that is set now, and whenever the series changes."""
        event = asyncio.Event()
        event.set()
        self._heard.setdefault(name, set()).add(event)
        try:
            yield event
        finally:
            self._heard[name].discard(event)
            if not self._heard[name]:
                del self._heard[name]

    def ring(self, name: str) -> None:
        """Tells those who follow the series."""
        for event in self._heard.get(name, ()):
            event.set()
