"""Connections: how many may be open, in all and from one address, and how long each may take.

A client that sends half a request and waits, or asks and does not read, keeps a connection and its memory. Requests have a time
to arrive in, and answers one to be read in. When as many connections are open as may be, the one that has kept the server
waiting for longest makes room for the next.
"""

import base64
import binascii
import enum
import json
import re
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .bodies import RATE

LINGER = 2.0  # seconds for a body that nobody waits for any more, since the answer has been given
READING = 20.0  # seconds without a byte read of an answer
LOOK = 0.25  # seconds between looks at who is late; nobody makes room for others sooner
ENDED = 64  # at one look, so that others do not wait for it
UNREAD = 32 << 20  # bytes of answers that wait for clients to read them, in all
HEAD_SIZE = 32 << 10  # bytes of a head, in which a question of a thousand times has room
LINE, LINES = 8000, 100  # of a WebSocket's handshake, which has a parser of its own
Peer = tuple[str, int]
NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+(\s*,\s*[!#$%&'*+\-.^_`|~0-9A-Za-z]+)*")
PHRASES = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class Stage(enum.Enum):
    """What a connection waits for."""

    HEAD = "a request"
    BODY = "the body of a request"
    ANSWER = "an answer of ours"
    REST = "another request, after an answer"


class Connections:
    """All that are open.

    Arguments:
        most: in all.
        by_client: from one address.
        body: bytes of a body, for which it gets more time.
        patience: seconds in which the head of a request must arrive, and again its body.
    """

    def __init__(self, most: int, by_client: int, body: int, patience: float):
        self.most, self.by_client, self.body, self.patience = most, by_client, body, patience
        self._open: dict[Peer, str] = {}  # those whose end has been asked for are not among them
        self._by_client: Counter[str] = Counter()
        self._known: dict[Connection, None] = {}  # those with HTTP on them
        self._unread: dict[Connection, None] = {}  # those whose answers wait to be read

    @property
    def full(self) -> bool:
        """Whether there is no room for one more."""
        return len(self._open) >= self.most

    def crowded_by(self, client: str) -> bool:
        """Whether there is no room for one more from this address."""
        return self._by_client[client] >= self.by_client

    def enter(self, peer: "Peer") -> None:
        """One more is open."""
        client = self._open[peer] = client_of(peer[0])
        self._by_client[client] += 1

    def leave(self, peer: "Peer") -> None:
        """One is open no more, or about to end."""
        client = self._open.pop(peer, None)
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]

    def add(self, connection: "Connection") -> None:
        """Begins to look at a connection."""
        self._known[connection] = None

    def discard(self, connection: "Connection") -> None:
        """A connection has ended, or speaks no HTTP any more."""
        self._known.pop(connection, None)
        self._unread.pop(connection, None)

    def make_room(self, now: float, client: str | None = None) -> bool:
        """Ends the connection that keeps the server waiting for longest, if one does; of one address, or of all."""
        found = [each for each in self._known if each.waits(now) and client in (None, each.address)]
        if not found:
            return False
        longest = min(found, key=lambda each: (each.stage is Stage.REST, each.since))
        longest.abort()
        self.leave(longest.client or ("", 0))
        return True

    def look(self, now: float) -> None:
        """Ends those that are late."""
        late = (each for each in self._known if each.late(now))
        for each in [each for each, _ in zip(late, range(ENDED), strict=False)]:
            each.end()

    def unread(self, connection: "Connection", waits: bool, now: float) -> None:
        """An answer waits to be read, or has been read; when too much waits, those unread for longest are given up."""
        if not waits:
            self._unread.pop(connection, None)
            return
        self._unread[connection] = None
        sizes = {each: each.unread() for each in self._unread}
        total = sum(sizes.values())
        for each in sorted(sizes, key=lambda one: (one.read_last(now), -sizes[one])):
            if total <= UNREAD:
                break
            total -= sizes[each]
            each.abort()


class Connection(H11Protocol):
    """HTTP on one connection, with times by which requests must have come and answers be read."""

    def __init__(self, *arguments: Any, within: Connections, **named: Any):
        super().__init__(*arguments, **named)
        self._all = within
        self.stage, self.since, self._deadline = Stage.HEAD, 0.0, 0.0
        self._received, self._left, self._read_since, self.address = 0, 0, 0.0, ""
        self._upgraded = False

    def connection_made(self, transport: Any) -> None:
        """It begins."""
        super().connection_made(transport)
        self.address = client_of(self.client[0] if self.client else "")
        self._begin(Stage.HEAD, self._all.patience)
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._all.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        self._received += len(data)
        super().data_received(data)
        if not self._upgraded and not self.transport.is_closing():
            self._look()

    def on_response_complete(self) -> None:
        """An answer has been given."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered."""
        super().pause_writing()
        self._left, self._read_since = self.unread(), self.loop.time()
        self._all.unread(self, True, self._read_since)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._all.unread(self, False, self.loop.time())

    def shutdown(self) -> None:
        """The server ends."""
        if not self.transport.is_closing():
            super().shutdown()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hands over to WebSockets, if it is a handshake."""
        wrong = _handshake(event)
        if wrong:
            return self._refuse(400, "handshake", wrong)
        self._all.discard(self)
        self._upgraded = True
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP: says so, if no answer has begun, and ends."""
        self._refuse(400, "bad_request", "This is not HTTP as it should be.")

    def waits(self, now: float) -> bool:
        """Whether the server waits for the client, and has for a while."""
        return self.stage is not Stage.ANSWER and now - self.since >= LOOK and not self.transport.is_closing()

    def unread(self) -> int:
        """Bytes that wait to be read."""
        return self.transport.get_write_buffer_size()

    def read_last(self, now: float) -> float:
        """When some of an answer was seen to be read, or it began to wait for that."""
        left = self.unread()
        if left == 0 or left < self._left:
            self._read_since = now
        self._left = left
        return self._read_since

    def late(self, now: float) -> bool:
        """Whether a request is late, or nobody reads the answer."""
        if now - self.read_last(now) > READING:
            return True
        return self.stage in (Stage.HEAD, Stage.BODY) and now > self._deadline and not self.transport.is_closing()

    def end(self) -> None:
        """Ends it because it is late."""
        if self.unread():
            self.abort()
        elif self.stage is Stage.HEAD and self._received:
            self._refuse(408, "late", "The head of the request did not arrive in time.")
        else:
            self.transport.close()

    def abort(self) -> None:
        """Ends it at once."""
        self.transport.abort()

    def _begin(self, stage: Stage, seconds: float) -> None:
        self.stage, self.since = stage, self.loop.time()
        self._deadline, self._received = self.since + seconds, 0

    def _look(self) -> None:
        """What is waited for now."""
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY:
            if self.stage is not Stage.BODY:
                self._begin(Stage.BODY, self._all.patience + LOOK)
            if self.cycle is None or self.cycle.response_complete:
                self._deadline = min(self._deadline, self.loop.time() + LINGER)
            else:
                self._deadline = self.since + self._all.patience + LOOK + min(self._received, self._all.body) / RATE
        elif theirs is not h11.IDLE:
            self.stage = Stage.ANSWER
        elif self.conn.trailing_data[0]:
            if self.stage is not Stage.HEAD:
                self._begin(Stage.HEAD, self._all.patience)
        elif self.cycle is not None and self.stage is not Stage.REST:
            self._begin(Stage.REST, 0.0)

    def _refuse(self, status: int, code: str, message: str) -> None:
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(said(status, code, message))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def client_of(host: str) -> str:
    """Whom an address is counted for: of IPv6, where everyone has many, its network."""
    return ":".join(host.split(":")[:4]) if host.count(":") > 3 and "." not in host else host


def said(status: int, code: str, message: str) -> bytes:
    """A whole answer in the one shape, for where nothing but a socket is at hand."""
    body = json.dumps({"error": {"code": code, "message": message, "where": None}}).encode()
    head = f"HTTP/1.1 {status} {PHRASES[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\nconnection: close\r\n\r\n".encode() + body


def _handshake(event: h11.Request) -> str:
    """What is wrong with a WebSocket's handshake, if something is."""
    headers = [(name.lower(), value) for name, value in event.headers]

    def of(name: bytes) -> list[bytes]:
        return [value for key, value in headers if key == name]

    if event.method != b"GET" or event.http_version != b"1.1":
        return "A WebSocket begins with a GET request of HTTP/1.1."
    if len(headers) > LINES or len(event.target) > LINE or any(len(name) + len(value) > LINE for name, value in headers):
        return "The headers of the WebSocket's handshake are too long."
    if of(b"sec-websocket-version") != [b"13"] or any(of(name) for name in (b"content-length", b"transfer-encoding")):
        return "A WebSocket's handshake has Sec-WebSocket-Version 13, and no body."
    try:
        (key,) = of(b"sec-websocket-key")
        good = len(base64.b64decode(key, validate=True)) == 16
    except (ValueError, binascii.Error):
        good = False
    if not good:
        return "A WebSocket's handshake has one Sec-WebSocket-Key, of 16 bytes in base64."
    lists = [*of(b"connection"), *of(b"upgrade"), *of(b"sec-websocket-protocol")]
    if len(of(b"upgrade")) != 1 or len(of(b"host")) != 1 or not all(NAME.fullmatch(value.strip()) for value in lists):
        return "The headers Connection, Upgrade and Sec-WebSocket-Protocol of the handshake are names with commas between them."
    return ""
