"""Accepts connections from a listening socket, and refuses those above the limits or above the number of open files."""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .connection_limits import CHECK_INTERVAL, OpenConnections, client_of, raw_error_response

ACCEPTED_AT_ONCE = 8  # connections accepted before the event loop serves others; chosen by hand
RESERVED_FILES = 24  # file descriptors for everything but connections: the store, log, files of the page; chosen by hand
MIN_CONNECTIONS = 4  # with fewer the server does not start; chosen by hand
RETRY_INTERVAL = 0.05  # seconds until the next attempt, where no connection is free
FULL_AFTER = 1.0  # seconds without a free connection, after which new ones are refused instead of kept waiting
ASSUMED_OPEN_FILES = 32  # where the system does not tell how many files are open
REQUEST_SIZE = 1 << 16  # bytes of the request that are read before a refused connection is closed
OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
LOG = logging.getLogger("odeprocess.serving.http")
BUSY_RESPONSE = raw_error_response(503, "connections", "Too many connections are open. Close some, or try again in a moment.")


def max_connections(wanted: int) -> int:
    """Returns how many connections may be open, at most `wanted`; raises the limit on open files where the system allows it.

    Raises:
        ValueError: if there are too few for the server to work.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    num_open = _count_open_files()
    needed = wanted + num_open + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    possible = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - num_open - RESERVED_FILES)
    if possible < MIN_CONNECTIONS:
        raise ValueError(
            f"This process may open {soft} files, of which {num_open} are open; expected "
            f"{num_open + RESERVED_FILES + MIN_CONNECTIONS} or more. Raise the limit: ulimit -n 1024."
        )
    return possible


class Acceptor:
    """Accepts connections from a listening socket while the event loop runs.

    Arguments:
        listening: the socket.
        connections: the open connections and their limits.
        make_protocol: makes the protocol of a new connection.
    """

    def __init__(self, listening: socket.socket, connections: OpenConnections, make_protocol: Callable[[], Any]):
        self._listening, self._connections, self._make_protocol = listening, connections, make_protocol
        self._loop = asyncio.get_running_loop()
        self._full_since: float | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task] = set()
        self._has_logged_error = False
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)
        self._check_deadlines()

    def stop(self) -> None:
        """Stops accepting connections."""
        self._loop.remove_reader(self._listening)
        for timer in (self._retry, self._deadline_timer):
            if timer is not None:
                timer.cancel()

    def _check_deadlines(self) -> None:
        self._deadline_timer = self._loop.call_later(CHECK_INTERVAL, self._check_deadlines)
        self._connections.end_late(self._loop.time())

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            now = self._loop.time()
            if not self._connections.full or self._connections.free_one(now):
                self._full_since = None
            elif self._full_since is None:
                self._full_since = now
            is_full = self._full_since is not None
            if is_full and now - (self._full_since or now) < FULL_AFTER:
                return self._pause(RETRY_INTERVAL)
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return None
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                if not self._has_logged_error:
                    LOG.error("Connections cannot be accepted: %s.", error.strerror)
                self._has_logged_error = True
                return self._pause(FULL_AFTER)
            peer = (str(address[0]), int(address[1]))
            client = client_of(peer[0])
            client_is_full = self._connections.full_for(client) and not self._connections.free_one(now, client)
            if is_full or client_is_full:
                _refuse(accepted)
                continue
            self._connections.open(peer)
            counted = CountedSocket(accepted, lambda peer=peer: self._connections.close(peer))
            task = self._loop.create_task(self._start(counted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _pause(self, seconds: float) -> None:
        """Leaves new connections in the system's queue for a while."""
        self._loop.remove_reader(self._listening)
        self._retry = self._loop.call_later(seconds, self._loop.add_reader, self._listening, self._accept)

    async def _start(self, counted: "CountedSocket") -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, counted)
        except OSError:  # the client has closed it already
            counted.close()


class CountedSocket(socket.socket):
    """A socket that calls `on_close` once when it is closed, also after a WebSocket's protocol has taken it over."""

    def __init__(self, accepted: socket.socket, on_close: Callable[[], None]):
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self.setblocking(False)
        self._on_close: Callable[[], None] | None = on_close

    def close(self) -> None:
        """Closes the socket."""
        super().close()
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()


def _refuse(accepted: socket.socket) -> None:
    with contextlib.suppress(OSError), accepted:
        accepted.setblocking(False)
        accepted.send(BUSY_RESPONSE)
        accepted.shutdown(socket.SHUT_WR)
        accepted.recv(REQUEST_SIZE)  # closing a socket with unread data resets it, and the client would lose the response


def _count_open_files() -> int:
    """How many files this process has open, or an assumption where the system does not tell."""
    for folder in (Path("/proc/self/fd"), Path("/dev/fd")):
        with contextlib.suppress(OSError):
            return len(list(folder.iterdir()))
    return ASSUMED_OPEN_FILES
