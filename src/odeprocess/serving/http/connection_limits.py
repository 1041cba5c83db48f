"""Limits on connections: how many may be open, in all and from one client, and how long requests and responses may take.

A client that sends half a request and waits, or does not read its response, holds a connection and its memory. So requests must
arrive, and responses must be read, in time. Where the limit of open connections is reached, the one that has waited longest for
its client is closed for a new one.
"""

import enum
import json
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .request_bodies import BYTES_PER_SECOND
from .websocket_handshake import handshake_error

# The numbers are chosen by hand.
UNUSED_BODY_TIMEOUT = 2.0  # seconds for the rest of a body whose response has been given
READ_TIMEOUT = 20.0  # seconds in which a client must read some of its response
CHECK_INTERVAL = 0.25  # seconds between checks of deadlines; a connection is not closed for another before it has waited as long
ENDED_AT_ONCE = 64  # late connections closed in one check, so that others do not wait
MAX_UNREAD_BYTES = 32 << 20  # of responses that wait for clients to read them, in all
MAX_HEAD_BYTES = 32 << 10  # of a request's head: the times of a question with 1000 of them fit
Peer = tuple[str, int]
PHRASES = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class Stage(enum.Enum):
    """What a connection waits for."""

    HEAD = "the head of a request"
    BODY = "the body of a request"
    RESPONSE = "the server's response"
    IDLE = "another request, after a response"


class OpenConnections:
    """The connections that are open, with their limits.

    Arguments:
        max_connections: in all.
        max_per_client: from one client.
        max_body_bytes: of a request; larger bodies get no more time.
        timeout: seconds in which the head of a request must arrive, and again its body.
    """

    def __init__(self, max_connections: int, max_per_client: int, max_body_bytes: int, timeout: float):
        self.max_connections, self.max_per_client = max_connections, max_per_client
        self.max_body_bytes, self.timeout = max_body_bytes, timeout
        self._clients: dict[Peer, str] = {}  # of open connections; without those that are being closed
        self._count_by_client: Counter[str] = Counter()
        self._http: dict[TimedConnection, None] = {}  # those that speak HTTP, in the order in which they were opened
        self._unread: dict[TimedConnection, None] = {}  # those with responses to be read

    @property
    def full(self) -> bool:
        """Whether as many connections are open as may be."""
        return len(self._clients) >= self.max_connections

    def full_for(self, client: str) -> bool:
        """Whether as many connections are open from this client as may be."""
        return self._count_by_client[client] >= self.max_per_client

    def open(self, peer: "Peer") -> None:
        """Counts a connection."""
        client = self._clients[peer] = client_of(peer[0])
        self._count_by_client[client] += 1

    def close(self, peer: "Peer") -> None:
        """Stops counting a connection that is closed, or is being closed."""
        client = self._clients.pop(peer, None)
        if client is not None:
            self._count_by_client[client] -= 1
            if not self._count_by_client[client]:
                del self._count_by_client[client]

    def add(self, connection: "TimedConnection") -> None:
        """Begins to check the deadlines of a connection."""
        self._http[connection] = None

    def discard(self, connection: "TimedConnection") -> None:
        """Stops checking a connection that is closed or has become a WebSocket."""
        self._http.pop(connection, None)
        self._unread.pop(connection, None)

    def free_one(self, now: float, client: str | None = None) -> bool:
        """Closes the connection, of all or of one client, that has waited longest; returns whether there is one."""
        waiting = [each for each in self._http if each.waits_for_client(now) and client in (None, each.address)]
        if not waiting:
            return False
        longest = min(waiting, key=lambda each: (each.stage is Stage.IDLE, each.since))
        longest.abort()
        self.close(longest.client or ("", 0))
        return True

    def end_late(self, now: float) -> None:
        """Closes connections that are past their deadlines."""
        late = (each for each in self._http if each.is_late(now))
        for each in [each for each, _ in zip(late, range(ENDED_AT_ONCE), strict=False)]:
            each.end()

    def set_unread(self, connection: "TimedConnection", unread: bool, now: float) -> None:
        """Notes whether a connection has a response to be read; where there are too many bytes, aborts those unread longest."""
        if not unread:
            self._unread.pop(connection, None)
            return
        self._unread[connection] = None
        sizes = {each: each.unread_bytes() for each in self._unread}
        total = sum(sizes.values())
        for each in sorted(sizes, key=lambda one: (one.last_read_time(now), -sizes[one])):
            if total <= MAX_UNREAD_BYTES:
                break
            total -= sizes[each]
            each.abort()


class TimedConnection(H11Protocol):
    """uvicorn's HTTP protocol for one connection, with deadlines for requests and for reading responses."""

    def __init__(self, *arguments: Any, within: OpenConnections, **named: Any):
        super().__init__(*arguments, **named)
        self._connections = within
        self.stage, self.since, self._deadline = Stage.HEAD, 0.0, 0.0
        self._received, self._unread_before, self._read_since, self.address = 0, 0, 0.0, ""
        self._is_websocket = False

    def connection_made(self, transport: Any) -> None:
        """Called when the connection is open."""
        super().connection_made(transport)
        self.address = client_of(self.client[0] if self.client else "")
        self._enter(Stage.HEAD, self._connections.timeout)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection is closed."""
        self._connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Called with the next part of a request."""
        self._received += len(data)
        super().data_received(data)
        if not self._is_websocket and not self.transport.is_closing():
            self._update_stage()

    def on_response_complete(self) -> None:
        """Called when a response has been written."""
        super().on_response_complete()
        self._update_stage()

    def pause_writing(self) -> None:
        """Called when the client reads more slowly than the server writes."""
        super().pause_writing()
        self._unread_before, self._read_since = self.unread_bytes(), self.loop.time()
        self._connections.set_unread(self, True, self._read_since)

    def resume_writing(self) -> None:
        """Called when the client has read."""
        super().resume_writing()
        self._connections.set_unread(self, False, self.loop.time())

    def shutdown(self) -> None:
        """Called when the server stops."""
        if not self.transport.is_closing():
            super().shutdown()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Checks the handshake and hands the connection to the WebSocket protocol."""
        problem = handshake_error(event)
        if problem:
            return self._refuse(400, "handshake", problem)
        self._connections.discard(self)
        self._is_websocket = True
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP, unless a response has begun, and closes the connection."""
        self._refuse(400, "bad_request", "The request is not valid HTTP.")

    def waits_for_client(self, now: float) -> bool:
        """Whether the server has waited for the client for at least one check's interval."""
        return self.stage is not Stage.RESPONSE and now - self.since >= CHECK_INTERVAL and not self.transport.is_closing()

    def unread_bytes(self) -> int:
        """Bytes of responses that the client has not read."""
        return self.transport.get_write_buffer_size()

    def last_read_time(self, now: float) -> float:
        """Returns when the client was last seen to read some of its response, or when the response began to wait for that."""
        unread = self.unread_bytes()
        if unread == 0 or unread < self._unread_before:
            self._read_since = now
        self._unread_before = unread
        return self._read_since

    def is_late(self, now: float) -> bool:
        """Whether a request or the reading of a response is past its deadline."""
        if now - self.last_read_time(now) > READ_TIMEOUT:
            return True
        return self.stage in (Stage.HEAD, Stage.BODY) and now > self._deadline and not self.transport.is_closing()

    def end(self) -> None:
        """Closes the connection because it is late."""
        if self.unread_bytes():
            self.abort()
        elif self.stage is Stage.HEAD and self._received:
            self._refuse(408, "late", "The head of the request did not arrive in time.")
        else:
            self.transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.transport.abort()

    def _enter(self, stage: Stage, seconds: float) -> None:
        self.stage, self.since = stage, self.loop.time()
        self._deadline, self._received = self.since + seconds, 0

    def _update_stage(self) -> None:
        """Sets the stage and its deadline from the state of the HTTP parser."""
        client_state, body_timeout = self.conn.their_state, self._connections.timeout + CHECK_INTERVAL
        if client_state is h11.SEND_BODY:
            if self.stage is not Stage.BODY:
                self._enter(Stage.BODY, body_timeout)
            if self.cycle is None or self.cycle.response_complete:
                self._deadline = min(self._deadline, self.loop.time() + UNUSED_BODY_TIMEOUT)
            else:
                received = min(self._received, self._connections.max_body_bytes)
                self._deadline = self.since + body_timeout + received / BYTES_PER_SECOND
        elif client_state is not h11.IDLE:
            self.stage = Stage.RESPONSE
        elif self.conn.trailing_data[0]:
            if self.stage is not Stage.HEAD:
                self._enter(Stage.HEAD, self._connections.timeout)
        elif self.cycle is not None and self.stage is not Stage.IDLE:
            self._enter(Stage.IDLE, 0.0)

    def _refuse(self, status: int, code: str, message: str) -> None:
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(raw_error_response(status, code, message))
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


def client_of(host: str) -> str:
    """The client that an address is counted for: an IPv6 address counts for its /64 network, since each network has many."""
    return ":".join(host.split(":")[:4]) if host.count(":") > 3 and "." not in host else host


def raw_error_response(status: int, code: str, message: str) -> bytes:
    """The bytes of an error response, for code that has only a socket."""
    body = json.dumps({"error": {"code": code, "message": message, "where": None}}).encode()
    head = f"HTTP/1.1 {status} {PHRASES[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\nconnection: close\r\n\r\n".encode() + body
