"""Bodies as they arrive: each has a size and a time to arrive in, and all together have a size.

A client that holds its body back keeps what it has sent in memory. When there is no room for more, the body that has been on its
way for longest is given up.
"""

import asyncio
import dataclasses
from typing import Any

from .errors import Refused

RATE = 64 << 10  # bytes that give it a second more
DRAINED = 4  # times the largest body is read before the connection is closed: many clients listen only after they have spoken


@dataclasses.dataclass(eq=False)
class Held:
    """What is held of one body; `deadline` is there while it is on its way."""

    began: float
    size: int = 0
    deadline: asyncio.Timeout | None = None
    crowded: bool = False


class Bodies:
    """All bodies that are held.

    Arguments:
        most: bytes of one.
        together: bytes of all.
        patience: seconds in which one must arrive; a large one gets some more.
    """

    def __init__(self, most: int, together: int, patience: float):
        self._most, self._together, self._patience, self._size = most, together, patience, 0
        self._coming: dict[Held, None] = {}  # in the order of their beginnings

    async def whole(self, receive: Any, held: Held) -> bytes | None:
        """A body, or `None` if the client has gone. It counts until it is given to `forget`.

        Raises:
            Refused: if it is too large, or too late, or gave way to others.
        """
        self._coming[held] = None
        try:
            async with asyncio.timeout_at(held.began + self._patience) as held.deadline:
                return await self._read(receive, held)
        except TimeoutError:
            if held.crowded:
                raise Refused(503, "bodies", "Too many bodies are on their way, and this one has been for longest.") from None
            raise Refused(408, "late", "The body did not arrive in time; send it faster, or in parts.", "body") from None
        finally:
            held.deadline = None
            del self._coming[held]

    def forget(self, held: Held) -> None:
        """A body is needed no more."""
        self._size -= held.size
        held.size = 0

    async def _read(self, receive: Any, held: Held) -> bytes | None:
        parts, read, more = [], 0, True
        while more and read <= DRAINED * self._most:
            message = await receive()
            if message["type"] != "http.request":
                return None  # a body that ends early must not be taken for a whole one
            part, more = message.get("body", b""), message.get("more_body", False)
            read += len(part)
            if read <= self._most:
                parts.append(part)
                self._grow(held, len(part))
                if more and held.deadline is not None and not held.crowded:
                    held.deadline.reschedule(held.began + self._patience + held.size / RATE)
            else:
                parts.clear()
                self.forget(held)
        if read > self._most:
            raise Refused(413, "too_large", f"The body is larger than {self._most} bytes.", "body")
        return b"".join(parts)

    def _grow(self, held: Held, size: int) -> None:
        if held.crowded:
            return
        held.size += size
        self._size += size
        for each in list(self._coming) if self._size > self._together else ():
            if each.deadline is not None and each.size:
                each.crowded = True
                each.deadline.reschedule(asyncio.get_running_loop().time())
                self.forget(each)
                if self._size <= self._together:
                    return
