"""Runs the server: binds its socket, starts uvicorn with our own limits on connections, and stops it."""

import gc
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from .accept_connections import Acceptor, max_connections
from .allowed_origins import is_loopback
from .connection_limits import MAX_HEAD_BYTES, OpenConnections, TimedConnection
from .limits import Limits
from .log_filter import shorten_log

BACKLOG = 2048  # connections that the system keeps until they are accepted; uvicorn's default
MAX_WEBSOCKET_MESSAGE = 4 << 20  # bytes; an uploaded CSV file of 1 MB fits several times
STOP_TIMEOUT = 5  # seconds for requests that are being answered when the server stops; chosen by hand


def check_host(host: str, token: str | None) -> None:
    """Raises if the server would listen to other machines without a token."""
    if not is_loopback(host) and token is None:
        raise ValueError(
            f"Host {host} can be reached from other machines, so a token is needed: --token SECRET, or the environment variable "
            "ODEPROCESS_TOKEN. Without one, use --host 127.0.0.1."
        )


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to a host and port; port 0 means any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named: asyncio turns Nagle's algorithm off for TCP sockets only.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(f"Cannot listen at {host}, port {port}: {error.strerror}. Choose another with --port.") from None
    return listening


def run(
    app: Any,
    listening: socket.socket,
    on_ready: Callable[[str], None],
    *,
    limits: Limits = Limits(),
    stop_timeout: int = STOP_TIMEOUT,
) -> None:
    """Serves until SIGTERM or SIGINT, then answers the open requests and returns; calls `on_ready` with the address."""

    def start(url: str) -> None:
        gc.collect()
        gc.freeze()  # models and modules stay, so later collections need not visit them
        on_ready(url)

    server = Server(app, listening, start, limits=limits, stop_timeout=stop_timeout)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises the signal again after it has stopped, which is no failure
    server.run([listening])
    if not server.started:
        raise ValueError("The server could not start.")


class Server(uvicorn.Server):
    """A uvicorn server that accepts connections within the limits.

    Arguments:
        app: the ASGI application.
        listening: a bound socket.
        on_ready: called with the address when the server accepts connections.
        limits: on connections.
        stop_timeout: seconds for requests that are being answered when the server stops.
    """

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        on_ready: Callable[[str], None] = lambda url: None,
        *,
        limits: Limits = Limits(),
        stop_timeout: int = STOP_TIMEOUT,
    ):
        config = uvicorn.Config(
            app,
            http=TimedConnection,  # type: ignore[arg-type]
            ws=_websocket_protocol(),
            loop="asyncio",
            log_level="error",  # clients' errors would fill the disk
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client can send them
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            timeout_graceful_shutdown=stop_timeout,
            ws_max_size=MAX_WEBSOCKET_MESSAGE,
            ws_per_message_deflate=False,
        )
        super().__init__(config)
        self._listening, self._limits, self._on_ready = listening, limits, on_ready
        self._acceptor: Acceptor | None = None
        app.state.stopping = lambda: self.should_exit
        shorten_log()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the application, then accepts connections."""
        await super().startup(sockets=[])
        limits = self._limits
        most = max_connections(limits.max_connections)
        per_client = min(most, limits.max_connections_per_client)
        connections = OpenConnections(most, per_client, limits.max_body_bytes, limits.request_timeout)

        def make_protocol() -> TimedConnection:
            return TimedConnection(self.config, self.server_state, self.lifespan.state, within=connections)

        self._listening.listen(BACKLOG)
        self._acceptor = Acceptor(self._listening, connections, make_protocol)
        host, port = self._listening.getsockname()[:2]
        self._on_ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops accepting connections, and stops the application."""
        if self._acceptor is not None:
            self._acceptor.stop()
        await super().shutdown(sockets)


def _websocket_protocol() -> Any:
    """The WebSocket protocol, if the package `websockets` is installed; only the playground needs it."""
    try:
        from .websocket_protocol import WebSocketProtocol
    except ImportError:
        return "none"
    return WebSocketProtocol
