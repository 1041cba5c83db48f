"""Visits: who may open a page, how many at once, and when a visit ends.

bokeh-fastapi keeps a visit's document until its WebSocket is closed and a while after; but it never learns that one is closed, so
nothing would ever end. It also believes whatever token a WebSocket brings.
"""

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable
from typing import Any

from bokeh.util.token import check_token_signature, get_session_id, get_token_payload

from ..compilation import return_memory
from ..server import errors

HURRIED = 5000  # milliseconds after which a page that nobody looks at gives way, where there is no room
SETTLED = 1.0  # seconds after the end of a page, in which others may end
VISIT = "odeprocess.visit"
CLOSED = {10000: 1011, 10001: 1002}  # codes of Bokeh's that WebSockets do not have


class Leavings:
    """What is left of pages that have ended: they refer to themselves, so nothing but a collection makes room of them."""

    def __init__(self):
        self._due: asyncio.TimerHandle | None = None

    def clear_soon(self) -> None:
        """Collects in a moment, once for all pages that end until then."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(SETTLED, self._clear)

    def _clear(self) -> None:
        self._due = None
        gc.collect()
        return_memory()  # glibc would keep what lies between newer pages


class Visits:
    """An ASGI app around that of the page.

    Arguments:
        app: the other one.
        server: the page's `BokehFastAPI`.
        home: where the page lives.
        most: pages that may be open at once.
        idle: seconds after which a page ends on which nothing has been done.
    """

    def __init__(self, app: Any, *, server: Any, home: str, most: int, idle: float):
        self._app, self._server, self._home, self._most, self._idle = app, server, home, most, idle
        self._context = server._applications[home]
        self._coming = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or one WebSocket."""
        if scope["type"] == "http" and scope["path"] == self._home and scope["method"] == "GET":
            await self._page(scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"] == f"{self._home.rstrip('/')}/ws":
            await self._socket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _page(self, scope: Any, receive: Any, send: Any) -> None:
        if self._full:
            await self._context._cleanup_sessions(HURRIED)
        if self._full:
            message = f"{self._most} visitors are here, which is as many as there is room for. Close a page, or come back later."
            refusal = errors.told(scope, 503, "visitors", message, headers={"Cache-Control": "no-store", "Retry-After": "60"})
            return await refusal(scope, receive, send)

        async def unkept(message: Any) -> None:
            if message["type"] == "http.response.start":  # the page holds what opens its WebSocket
                message = {**message, "headers": [*message.get("headers", ()), (b"cache-control", b"no-store")]}
            await send(message)

        self._coming += 1
        try:  # what stands after the path would name a session of the client's choice
            await self._app({**scope, "query_string": b""}, receive, unkept)
        finally:
            self._coming -= 1

    @property
    def _full(self) -> bool:
        return len(list(self._context.sessions)) + self._coming >= self._most

    async def _socket(self, scope: Any, receive: Any, send: Any) -> None:
        if not self._known(scope["subprotocols"]):
            return await send({"type": "websocket.close", "code": 1008})
        visit = object()
        try:
            await self._app({**scope, VISIT: visit}, self._until_idle(receive, send), _with_codes(send))
        finally:
            for connection in list(self._server._clients):
                if connection._socket._socket.scope.get(VISIT) is visit:
                    self._server.client_lost(connection)

    def _known(self, subprotocols: list[str]) -> bool:
        """Whether a WebSocket is that of a page that is open."""
        if len(subprotocols) != 2 or subprotocols[0] != "bokeh":
            return False
        try:
            token = subprotocols[1]
            if not check_token_signature(token, secret_key=self._server.secret_key, signed=True):
                return False
            lasts = get_token_payload(token)["session_expiry"] > time.time()
            return lasts and get_session_id(token) in {session.id for session in self._context.sessions}
        except Exception:  # whatever is wrong with it
            return False

    def _until_idle(self, receive: Any, send: Any) -> Callable[[], Any]:
        async def received() -> Any:
            try:
                async with asyncio.timeout(self._idle):
                    return await receive()
            except TimeoutError:
                with contextlib.suppress(Exception):
                    await send({"type": "websocket.close", "code": 1001, "reason": "nothing has been done for long"})
                return {"type": "websocket.disconnect", "code": 1001}

        return received


def _with_codes(send: Any) -> Callable[[Any], Any]:
    async def sent(message: Any) -> None:
        if message["type"] == "websocket.close":
            message = {**message, "code": CLOSED.get(message.get("code", 1000), message.get("code", 1000))}
        await send(message)

    return sent
