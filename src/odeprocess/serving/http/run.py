"""Running the server: where it listens, and how it stops."""

import gc
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from .accept_connections import Acceptor, room_for_connections
from .connection_limits import HEAD_SIZE, Connection, Connections
from .limits import Limits
from .log_filter import quieten
from .allowed_origins import loopback

BACKLOG = 2048
MESSAGE = 4 << 20  # bytes of a WebSocket's message
GRACE = 5  # seconds for requests that are being answered when the server stops


def check_host(host: str, token: str | None) -> None:
    """Raises if the server would listen to other machines without asking for a token."""
    if not loopback(host) and token is None:
        raise ValueError(
            f"Host {host} can be reached from other machines, so a token is needed: --token SECRET, or the environment variable "
            "ODEPROCESS_TOKEN. Without one, use --host 127.0.0.1."
        )


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 means any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves answers to wait for ACKs
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(f"Cannot listen at {host}, port {port}: {error.strerror}. Choose another with --port.") from None
    return listening


def run(
    app: Any, listening: socket.socket, ready: Callable[[str], None], *, limits: Limits = Limits(), grace: int = GRACE
) -> None:
    """Serves until SIGTERM or SIGINT, then answers what has been asked and ends; `ready` is told the address."""

    def begun(url: str) -> None:
        gc.collect()
        gc.freeze()  # what is there now stays, so collections need not look at it again and again
        ready(url)

    server = Server(app, listening, begun, limits=limits, grace=grace)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises them again once all is done, and that is no failure
    server.run([listening])
    if not server.started:
        raise ValueError("The server could not start.")


class Server(uvicorn.Server):
    """uvicorn's, which takes connections by our own hand: as many as there is room for."""

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        ready: Callable[[str], None] = lambda url: None,
        *,
        limits: Limits = Limits(),
        grace: int = GRACE,
    ):
        config = uvicorn.Config(
            app,
            http=Connection,  # type: ignore[arg-type]
            ws=_sockets(),
            loop="asyncio",
            log_level="error",  # what clients do wrong is no news, and would fill disks
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anyone can write them
            h11_max_incomplete_event_size=HEAD_SIZE,
            timeout_graceful_shutdown=grace,
            ws_max_size=MESSAGE,
            ws_per_message_deflate=False,
        )
        super().__init__(config)
        self._listening, self._limits, self._ready = listening, limits, ready
        self._acceptor: Acceptor | None = None
        app.state.stopping = lambda: self.should_exit
        quieten()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the application, then lets clients in."""
        await super().startup(sockets=[])
        limits = self._limits
        most = room_for_connections(limits.connections)
        connections = Connections(most, min(most, limits.connections_by_client), limits.body, limits.patience)

        def make() -> Connection:
            return Connection(self.config, self.server_state, self.lifespan.state, within=connections)

        self._listening.listen(BACKLOG)
        self._acceptor = Acceptor(self._listening, connections, make)
        host, port = self._listening.getsockname()[:2]
        self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets nobody in any more, and ends."""
        if self._acceptor is not None:
            self._acceptor.stop()
        await super().shutdown(sockets)


def _sockets() -> Any:
    """What speaks WebSockets, where the package for them is installed; without it there is no playground."""
    try:
        from .websocket_protocol import Socket
    except ImportError:
        return "none"
    return Socket
