"""The guard: what is refused before anyone looks at it, and what is counted after; for HTTP and WebSockets alike."""

import asyncio
import time
from collections.abc import Collection
from typing import Any

from . import errors
from .metrics import Metrics
from .allowed_origins import Origins
from .request_bodies import Bodies, Held
from .authentication import Token

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# No page of another site may show what is here in a frame, hold on to its window, or learn its address; and a page of ours
# loads what it needs, and speaks, to this server alone.
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'none'; form-action 'none'; "
HEADERS = [
    (b"content-security-policy", f"{POLICY}frame-ancestors 'none'".encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """An ASGI app around another.

    Arguments:
        app: the other one.
        origins: whose requests are answered.
        token: that must be borne, if any.
        bodies: how large they may be; without it they are not looked at.
        metrics: where requests are counted, if anywhere.
        only: the paths that are guarded; all, if left out.
    """

    def __init__(
        self,
        app: Any,
        *,
        origins: Origins,
        token: Token | None = None,
        bodies: Bodies | None = None,
        metrics: Metrics | None = None,
        only: Collection[str] | None = None,
    ):
        self._app, self._origins, self._token, self._bodies = app, origins, token, bodies
        self._metrics, self._only = metrics, only

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or one WebSocket."""
        if scope["type"] not in ("http", "websocket") or (self._only is not None and scope["path"] not in self._only):
            return await self._app(scope, receive, send)
        began, status, held = time.perf_counter(), 500, Held(asyncio.get_running_loop().time())

        async def counted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            refusal = self._refusal(scope)
            if scope["type"] == "websocket":
                return await self._websocket(scope, receive, send, refusal)
            if refusal is None and self._bodies is not None:
                body = await self._bodies.whole(receive, held)
                if body is None:  # the client has gone
                    status = 499
                    return None
                receive = _replayed(body, receive)
            await (refusal or self._app)(scope, receive, counted)
        except errors.Refused as refused:
            headers = {"Connection": "close"}  # more of the body may come
            await errors.answer(refused.status, refused.code, refused.message, refused.where, headers)(scope, receive, counted)
        finally:
            if self._bodies is not None:
                self._bodies.forget(held)
            if self._metrics is not None and scope["type"] == "http":
                method = scope["method"] if scope["method"] in METHODS else "OTHER"
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.count(method, route, status, time.perf_counter() - began)

    def _refusal(self, scope: Any) -> Any:
        try:
            self._origins.check(scope)
        except errors.Refused as refused:
            return errors.answer(refused.status, refused.code, refused.message, refused.where)
        pages = getattr(scope["app"].state, "pages", None) if "app" in scope else None
        return None if self._token is None else self._token.admit(scope, pages)

    async def _websocket(self, scope: Any, receive: Any, send: Any, refusal: Any) -> None:
        """A WebSocket; one that is refused before it begins gets an answer in the one shape."""
        begun = False

        async def told(message: Any) -> None:
            nonlocal begun
            if message["type"] != "websocket.close" or begun:
                begun = True
                return await send(message)
            begun = True
            found = refusal or errors.answer(404, "not_found", "There is no WebSocket here, or none of that kind.", "path")
            if "websocket.http.response" in scope.get("extensions", {}):
                return await found(scope, receive, send)
            await send({"type": "websocket.close", "code": 1008})

        await (self._app(scope, receive, told) if refusal is None else told({"type": "websocket.close"}))


def _replayed(body: bytes, receive: Any) -> Any:
    """A `receive` that gives the whole body first."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return waiting.pop() if waiting else await receive()

    return replay
