"""Running the server: where it listens, and how it stops."""

import ipaddress
import signal
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

BACKLOG = 2048
GRACE = 5  # seconds for requests that are being answered when the server stops


def check_host(host: str, token: str | None) -> None:
    """Raises if the server would listen to other machines without asking for a token."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and token is None:
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


def run(app: FastAPI, listening: socket.socket, ready: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT, then answers what has been asked and ends."""
    host, port = listening.getsockname()[:2]
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE, server_header=False, access_log=False)
    )
    app.state.stopping = lambda: server.should_exit

    def announce() -> None:
        listening.listen(BACKLOG)  # what connects from now on is answered as soon as the server is up
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    app.state.ready = announce
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn raises them again once all is done, and that is no failure
    server.run([listening])
    if not server.started:
        raise ValueError("The server could not start.")
