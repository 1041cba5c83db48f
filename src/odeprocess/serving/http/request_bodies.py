"""Reads request bodies, with limits on the size and time of each and on the size of all together.

A client that sends its body slowly holds memory. Where all bodies together become too large, the one that has been arriving
longest is refused.
"""

import asyncio
import dataclasses
from typing import Any

from .errors import ApiError

BYTES_PER_SECOND = 64 << 10  # a body gets one more second for as many bytes; chosen by hand
# A body that is too large is read up to so many times the limit before it is refused, since many clients read the response only
# after they have sent everything; chosen by hand.
READ_FACTOR = 4


@dataclasses.dataclass(eq=False)
class PartialBody:
    """The part of a body that has been read; `deadline` is set while it arrives."""

    start: float
    size: int = 0
    deadline: asyncio.Timeout | None = None
    evicted: bool = False  # refused because all bodies together are too large


class RequestBodies:
    """Reads the bodies of all requests.

    Arguments:
        max_bytes: of one body.
        max_total_bytes: of all bodies together.
        timeout: seconds in which a body must arrive; a large one gets more.
    """

    def __init__(self, max_bytes: int, max_total_bytes: int, timeout: float):
        self._max_bytes, self._max_total_bytes, self._timeout, self._total = max_bytes, max_total_bytes, timeout, 0
        self._arriving: dict[PartialBody, None] = {}  # the oldest first

    async def read(self, receive: Any, partial: PartialBody) -> bytes | None:
        """Returns a body, or `None` if the client has closed the connection. It counts until `release` is called.

        Raises:
            ApiError: if the body is too large or too late, or had to be refused for others.
        """
        self._arriving[partial] = None
        try:
            async with asyncio.timeout_at(partial.start + self._timeout) as partial.deadline:
                return await self._read_parts(receive, partial)
        except TimeoutError:
            if partial.evicted:
                message = "Too many bodies are arriving at once, and this one has been arriving longest."
                raise ApiError(503, "bodies", message) from None
            raise ApiError(408, "late", "The body did not arrive in time; send it faster, or in parts.", "body") from None
        finally:
            partial.deadline = None
            del self._arriving[partial]

    def release(self, partial: PartialBody) -> None:
        """Stops counting a body."""
        self._total -= partial.size
        partial.size = 0

    async def _read_parts(self, receive: Any, partial: PartialBody) -> bytes | None:
        parts, num_read, more = [], 0, True
        while more and num_read <= READ_FACTOR * self._max_bytes:
            message = await receive()
            if message["type"] != "http.request":
                return None  # the connection was closed; a part of a body must not pass for all of it
            part, more = message.get("body", b""), message.get("more_body", False)
            num_read += len(part)
            if num_read <= self._max_bytes:
                parts.append(part)
                self._count(partial, len(part))
                if more and partial.deadline is not None and not partial.evicted:
                    partial.deadline.reschedule(partial.start + self._timeout + partial.size / BYTES_PER_SECOND)
            else:
                parts.clear()
                self.release(partial)
        if num_read > self._max_bytes:
            raise ApiError(413, "too_large", f"The body is larger than {self._max_bytes} bytes.", "body")
        return b"".join(parts)

    def _count(self, partial: PartialBody, size: int) -> None:
        """Adds to the size of a body, and refuses the oldest ones where all together are too large."""
        if partial.evicted:
            return
        partial.size += size
        self._total += size
        for each in list(self._arriving) if self._total > self._max_total_bytes else ():
            if each.deadline is not None and each.size:
                each.evicted = True
                each.deadline.reschedule(asyncio.get_running_loop().time())
                self.release(each)
                if self._total <= self._max_total_bytes:
                    return
