"""The middleware around every request: checks of host, origin and token, the request body, security headers and metrics.

It is the same for HTTP requests and WebSockets. `allowed_origins` and `authentication` have the checks, `request_bodies` has the
limits of bodies.
"""

import asyncio
import time
from collections.abc import Collection
from typing import Any

from . import errors
from .allowed_origins import AllowedOrigins
from .authentication import TokenAuthentication
from .metrics import Metrics
from .request_bodies import PartialBody, RequestBodies
from .security_headers import SECURITY_HEADERS

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}  # counted by name; all others count as OTHER
CLIENT_CLOSED_REQUEST = 499  # the status that metrics show where the client closed the connection first, as nginx names it
POLICY_VIOLATION = 1008  # the close code of a refused WebSocket, RFC 6455


class AccessControl:
    """An ASGI middleware that refuses requests before the application sees them.

    Arguments:
        app: the application.
        origins: the hosts and origins whose requests are accepted.
        authentication: the check of the token; without it, no token is needed.
        bodies: reads request bodies within their limits; without it, the application reads them itself.
        metrics: counts requests, if given.
        only: the paths that are checked; all, if left out.
    """

    def __init__(
        self,
        app: Any,
        *,
        origins: AllowedOrigins,
        authentication: TokenAuthentication | None = None,
        bodies: RequestBodies | None = None,
        metrics: Metrics | None = None,
        only: Collection[str] | None = None,
    ):
        self._app, self._origins, self._authentication, self._bodies = app, origins, authentication, bodies
        self._metrics, self._only = metrics, only

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one HTTP request or one WebSocket."""
        if scope["type"] not in ("http", "websocket") or (self._only is not None and scope["path"] not in self._only):
            return await self._app(scope, receive, send)
        start, status, partial = time.perf_counter(), 500, PartialBody(asyncio.get_running_loop().time())

        async def send_with_headers(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *SECURITY_HEADERS]}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if scope["type"] == "websocket":
                return await self._handle_websocket(scope, receive, send, refusal)
            if refusal is None and self._bodies is not None:
                body = await self._bodies.read(receive, partial)
                if body is None:  # the client closed the connection
                    status = CLIENT_CLOSED_REQUEST
                    return None
                receive = _replay(body, receive)
            await (refusal or self._app)(scope, receive, send_with_headers)
        except errors.ApiError as error:
            # The rest of the body may still arrive, so the connection cannot be used again.
            response = errors.error_response(error.status, error.code, error.message, error.where, {"Connection": "close"})
            await response(scope, receive, send_with_headers)
        finally:
            if self._bodies is not None:
                self._bodies.release(partial)
            if self._metrics is not None and scope["type"] == "http":
                method = scope["method"] if scope["method"] in METHODS else "OTHER"
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.count(method, route, status, time.perf_counter() - start)

    def _refusal(self, scope: Any) -> Any:
        """The response to a request that is refused, or `None` for one that is accepted."""
        try:
            self._origins.check(scope)
        except errors.ApiError as error:
            return errors.error_response(error.status, error.code, error.message, error.where)
        paths = getattr(scope["app"].state, "playground_paths", None) if "app" in scope else None
        return None if self._authentication is None else self._authentication.refusal(scope, paths)

    async def _handle_websocket(self, scope: Any, receive: Any, send: Any, refusal: Any) -> None:
        """Runs a WebSocket; one that is refused before it is accepted gets an HTTP response with the usual error body."""
        started = False

        async def send_or_refuse(message: Any) -> None:
            nonlocal started
            if message["type"] != "websocket.close" or started:
                started = True
                return await send(message)
            started = True
            response = refusal or errors.error_response(404, "not_found", "There is no such WebSocket.", "path")
            if "websocket.http.response" in scope.get("extensions", {}):
                return await response(scope, receive, send)
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})

        if refusal is None:
            await self._app(scope, receive, send_or_refuse)
        else:
            await send_or_refuse({"type": "websocket.close"})


def _replay(body: bytes, receive: Any) -> Any:
    """Returns a `receive` that yields the whole body first, and then what `receive` yields."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Any:
        return waiting.pop() if waiting else await receive()

    return replayed
