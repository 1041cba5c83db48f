"""The bell: tells those who follow a series that it has changed."""

import asyncio


class Bell:
    """Events of listeners by series; used in the server's own thread."""

    def __init__(self, most: int):
        self._most = most
        self._heard: dict[str, set[asyncio.Event]] = {}

    @property
    def listeners(self) -> int:
        """How many listen."""
        return sum(map(len, self._heard.values()))

    def listen(self, name: str) -> asyncio.Event | None:
        """An event that is set when the series changes, or `None` if too many listen."""
        if self.listeners >= self._most:
            return None
        event = asyncio.Event()
        self._heard.setdefault(name, set()).add(event)
        return event

    def ring(self, name: str) -> None:
        """Tells those who follow the series."""
        for event in self._heard.get(name, ()):
            event.set()

    def leave(self, name: str, event: asyncio.Event) -> None:
        """Stops listening."""
        self._heard[name].discard(event)
        if not self._heard[name]:
            del self._heard[name]
