"""The guard: what is refused before anyone looks at it, and what is counted after."""

import hmac
import time
from typing import Any

from . import errors
from .metrics import Metrics

HOSTS = {"localhost", "127.0.0.1", "[::1]"}
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
OPEN = "/health"  # may be asked without a token
DRAINED = 4  # times the largest body is read before the connection is closed


class Guard:
    """An ASGI app around another: it bounds bodies, asks for the token, and knows its own name.

    A page elsewhere can make a browser send requests to a loopback address under a name of its own; without a token,
    only requests that call this host by its own name are answered.
    """

    def __init__(self, app: Any, *, body: int, token: str | None, metrics: Metrics):
        self._app, self._body, self._metrics = app, body, metrics
        self._token = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One connection."""
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        refusal = self._refusal(scope)
        if scope["type"] == "websocket":
            return await (self._app(scope, receive, send) if refusal is None else send({"type": "websocket.close", "code": 1008}))
        began, status = time.perf_counter(), 500

        async def counted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        body = None
        if refusal is None:
            body = await self._whole(receive)
            if body is None:
                refusal = errors.answer(
                    413, "too_large", f"The body is larger than {self._body} bytes.", "body", {"Connection": "close"}
                )
        try:
            await (self._app if refusal is None else refusal)(scope, _replayed(body, receive), counted)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "OTHER"
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.count(method, route, status, time.perf_counter() - began)

    def _refusal(self, scope: Any) -> Any:
        headers = dict(scope["headers"])
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1").rsplit(":", 1)
            name = host[0] if len(host) > 1 and host[1].isdigit() else ":".join(host)
            if name.lower() not in HOSTS:
                return errors.answer(
                    400, "host", "This server answers to localhost only; it needs a token for other names.", "host"
                )
        elif scope["path"] != OPEN and not hmac.compare_digest(headers.get(b"authorization", b""), self._token):
            message = "A token is needed: send the header `Authorization: Bearer …`."
            return errors.answer(401, "unauthorised", message, "authorization", {"WWW-Authenticate": "Bearer"})
        return None

    async def _whole(self, receive: Any) -> bytes | None:
        """The body, or `None` if it is too large; some more is read then, as many clients listen only after they have spoken."""
        parts, size, more = [], 0, True
        while more and size <= DRAINED * self._body:
            message = await receive()
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
            parts = [*parts, message.get("body", b"")] if size <= self._body else []
        return b"".join(parts) if size <= self._body else None


def _replayed(body: bytes | None, receive: Any) -> Any:
    """A `receive` that gives the whole body first."""
    waiting = [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def replay() -> Any:
        return waiting.pop() if waiting else await receive()

    return replay
