"""Accepting connections: as many as there is room for, and never so many that file descriptors run out."""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .connection_limits import LOOK, Connections, client_of, said

TOGETHER = 8  # connections that are accepted before others get their turn
RESERVE = 24  # file descriptors for all else that a server opens: its store, the files of a page
FEWEST = 4  # connections that are worth a start
PAUSE = 0.05  # seconds before the next look, where there is no room
FULL = 1.0  # seconds without room, after which who comes is told so
SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
LOG = logging.getLogger("odeprocess.serving.http")
BUSY = said(503, "connections", "Too many connections are open; close some, or try again in a moment.")


def room_for_connections(wanted: int) -> int:
    """How many connections may be open, at most `wanted`: raises the limit of file descriptors where that is allowed.

    Raises:
        ValueError: if there are so few that the server could not work.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = _open_files()
    needed = wanted + taken + RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - taken - RESERVE)
    if found < FEWEST:
        raise ValueError(
            f"This process may open {soft} files, of which {taken} are open; expected {taken + RESERVE + FEWEST} or more. "
            "Raise the limit: ulimit -n 1024."
        )
    return found


class Acceptor:
    """Takes connections from a listening socket."""

    def __init__(self, listening: socket.socket, connections: Connections, make: Callable[[], Any]):
        self._listening, self._connections, self._make = listening, connections, make
        self._loop = asyncio.get_running_loop()
        self._full_since: float | None = None
        self._again: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task] = set()
        self._short = False
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)
        self._look()

    def stop(self) -> None:
        """Takes no more."""
        self._loop.remove_reader(self._listening)
        for timer in (self._again, self._looks):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        self._looks = self._loop.call_later(LOOK, self._look)
        self._connections.look(self._loop.time())

    def _accept(self) -> None:
        for _ in range(TOGETHER):
            now = self._loop.time()
            if not self._connections.full or self._connections.make_room(now):
                self._full_since = None
            elif self._full_since is None:
                self._full_since = now
            refused = self._full_since is not None
            if refused and now - (self._full_since or now) < FULL:
                return self._rest(PAUSE)
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return None
            except OSError as error:
                if error.errno not in SHORT:
                    raise
                if not self._short:
                    LOG.error("Connections cannot be accepted: %s.", error.strerror)
                self._short = True
                return self._rest(FULL)
            peer = (str(address[0]), int(address[1]))
            client = client_of(peer[0])
            crowded = self._connections.crowded_by(client) and not self._connections.make_room(now, client)
            if refused or crowded:
                _refuse(accepted)
                continue
            self._connections.enter(peer)
            counted = Counted(accepted, lambda peer=peer: self._connections.leave(peer))
            task = self._loop.create_task(self._begin(counted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _rest(self, seconds: float) -> None:
        """Leaves those who come in the system's queue for a while."""
        self._loop.remove_reader(self._listening)
        self._again = self._loop.call_later(seconds, self._loop.add_reader, self._listening, self._accept)

    async def _begin(self, counted: "Counted") -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, counted)
        except OSError:  # it has gone already
            counted.close()


class Counted(socket.socket):
    """A socket that tells when it is closed, whichever protocol is spoken on it by then."""

    def __init__(self, accepted: socket.socket, closed: Callable[[], None]):
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self.setblocking(False)
        self._told: Callable[[], None] | None = closed

    def close(self) -> None:
        """Closes it, and tells once."""
        super().close()
        told, self._told = self._told, None
        if told is not None:
            told()


def _refuse(accepted: socket.socket) -> None:
    with contextlib.suppress(OSError), accepted:
        accepted.setblocking(False)
        accepted.send(BUSY)
        accepted.shutdown(socket.SHUT_WR)
        accepted.recv(1 << 16)  # what was sent and not read would take the answer away with it


def _open_files() -> int:
    """How many files this process has open, or what it mostly has where that cannot be known."""
    for folder in (Path("/proc/self/fd"), Path("/dev/fd")):
        with contextlib.suppress(OSError):
            return len(list(folder.iterdir()))
    return 32
