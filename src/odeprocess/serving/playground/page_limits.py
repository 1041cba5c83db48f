"""Limits on open pages: how many there may be, and when a page is closed.

bokeh-fastapi keeps a page's document until its WebSocket is closed and some time after; but it does not notice that one is
closed, so no document would ever be freed. It also accepts a WebSocket with any token.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable
from typing import Any

from bokeh.util.token import check_token_signature, get_session_id, get_token_payload

from odeprocess.common.compilation import return_memory
from odeprocess.serving.http.errors import error_page

SHORT_LIFETIME = 5000  # milliseconds for which disconnected pages are kept where there are as many pages as may be; by hand
CLEANING_DELAY = 1.0  # seconds from the end of a page to the cleaning, so that pages which end together share one; by hand
CONNECTION_KEY = "odeprocess.connection"  # in the ASGI scope of a page's WebSocket
CLOSE_CODES = {10000: 1011, 10001: 1002}  # Bokeh's codes that WebSockets do not have, and those that are sent instead
POLICY_VIOLATION, GOING_AWAY = 1008, 1001  # close codes of RFC 6455


class MemoryCleaner:
    """Frees the memory of closed pages: their objects refer to each other, so only the garbage collector frees them."""

    def __init__(self):
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self) -> None:
        """Runs the garbage collector in a moment, once for all pages that are closed until then."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CLEANING_DELAY, self._collect)

    def _collect(self) -> None:
        self._timer = None
        gc.collect()
        return_memory()  # else glibc keeps the freed memory between newer pages


class PageLimits:
    """An ASGI middleware around the page's application.

    Arguments:
        app: the application.
        server: the page's `BokehFastAPI`.
        home: the path of the page.
        max_pages: how many pages may be open at once.
        idle_seconds: after which an unused page is closed.
    """

    def __init__(self, app: Any, *, server: Any, home: str, max_pages: int, idle_seconds: float):
        self._app, self._server, self._home = app, server, home
        self._max_pages, self._idle_seconds = max_pages, idle_seconds
        self._context = server._applications[home]
        self._num_opening = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handles one HTTP request or one WebSocket."""
        if scope["type"] == "http" and scope["path"] == self._home and scope["method"] == "GET":
            await self._open_page(scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"] == f"{self._home.rstrip('/')}/ws":
            await self._open_websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _open_page(self, scope: Any, receive: Any, send: Any) -> None:
        if self._full:
            await self._context._cleanup_sessions(SHORT_LIFETIME)
        if self._full:
            message = f"{self._max_pages} pages are open, which is the limit. Close one, or come back later."
            refusal = error_page(scope, 503, "visitors", message, headers={"Cache-Control": "no-store", "Retry-After": "60"})
            return await refusal(scope, receive, send)

        async def send_uncached(message: Any) -> None:
            if message["type"] == "http.response.start":  # the page holds the token of its WebSocket
                message = {**message, "headers": [*message.get("headers", ()), (b"cache-control", b"no-store")]}
            await send(message)

        self._num_opening += 1
        try:  # without the query, in which a client could choose the id of its session
            await self._app({**scope, "query_string": b""}, receive, send_uncached)
        finally:
            self._num_opening -= 1

    @property
    def _full(self) -> bool:
        return len(list(self._context.sessions)) + self._num_opening >= self._max_pages

    async def _open_websocket(self, scope: Any, receive: Any, send: Any) -> None:
        if not self._belongs_to_page(scope["subprotocols"]):
            return await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        key = object()
        try:
            await self._app({**scope, CONNECTION_KEY: key}, self._close_when_idle(receive, send), _with_valid_codes(send))
        finally:
            for connection in list(self._server._clients):
                if connection._socket._socket.scope.get(CONNECTION_KEY) is key:
                    self._server.client_lost(connection)

    def _belongs_to_page(self, subprotocols: list[str]) -> bool:
        """Whether a WebSocket has the token of an open page."""
        if len(subprotocols) != 2 or subprotocols[0] != "bokeh":
            return False
        try:
            token = subprotocols[1]
            if not check_token_signature(token, secret_key=self._server.secret_key, signed=True):
                return False
            is_current = get_token_payload(token)["session_expiry"] > time.time()
            return is_current and get_session_id(token) in {session.id for session in self._context.sessions}
        except Exception:  # a malformed token can raise anything
            return False

    def _close_when_idle(self, receive: Any, send: Any) -> Callable[[], Any]:
        async def receive_in_time() -> Any:
            try:
                async with asyncio.timeout(self._idle_seconds):
                    return await receive()
            except TimeoutError:
                with contextlib.suppress(Exception):
                    reason = "the page has not been used for long"
                    await send({"type": "websocket.close", "code": GOING_AWAY, "reason": reason})
                return {"type": "websocket.disconnect", "code": GOING_AWAY}

        return receive_in_time


def _with_valid_codes(send: Any) -> Callable[[Any], Any]:
    """Returns a `send` that replaces Bokeh's own close codes."""

    async def send_valid(message: Any) -> None:
        if message["type"] == "websocket.close":
            code = message.get("code", 1000)
            message = {**message, "code": CLOSE_CODES.get(code, code)}
        await send(message)

    return send_valid
