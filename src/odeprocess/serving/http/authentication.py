"""The access token: programs send it in a header; browsers send it once, in a link, and a cookie from then on.

The cookie does not hold the token: it is signed with a key that is made at each start, and it expires. It gives access to the
playground's page and files only, so no page can make a browser use the rest of the server.
"""

import dataclasses
import hashlib
import hmac
import secrets
from typing import Any
from urllib.parse import quote

from fastapi.responses import RedirectResponse, Response
from itsdangerous import BadData, TimestampSigner
from starlette.requests import HTTPConnection

from . import errors

OPEN_PATH = "/health"  # needs no token, so that monitoring works without one
COOKIE_LIFETIME = 12 * 3600  # seconds: a working day, chosen by hand
QUERY_PARAMETER = "token"


@dataclasses.dataclass(frozen=True)
class PlaygroundPaths:
    """The paths of the playground, which browsers open with a cookie.

    Attributes:
        home: the path of the page.
        files: what the paths of its files begin with.
    """

    home: str
    files: tuple[str, ...] = ("/static/",)

    @property
    def websocket(self) -> str:
        """The path of the page's WebSocket."""
        return f"{self.home.rstrip('/')}/ws"

    def __contains__(self, path: str) -> bool:
        return path in (self.home, self.websocket) or path.startswith(self.files)


class TokenAuthentication:
    """Checks the token of requests.

    Arguments:
        token: the token that requests must have.
        secure: whether the cookie is sent over TLS only.
    """

    def __init__(self, token: str, *, secure: bool = False):
        self._digest, self._secure = _digest(token.encode()), secure
        self._signer = TimestampSigner(secrets.token_bytes(32), salt="odeprocess playground", digest_method=hashlib.sha256)

    def refusal(self, scope: Any, paths: PlaygroundPaths | None) -> Response | None:
        """Returns the response to a request without valid credentials, or `None` if the request is accepted.

        A page request with the token in its address is answered by a redirect that sets the cookie.
        """
        connection = HTTPConnection(scope)
        if scope["path"] == OPEN_PATH or self._has_token(connection):
            return None
        if paths is None or scope["path"] not in paths:
            message = "A token is needed: send the header `Authorization: Bearer …`."
            return errors.error_response(401, "unauthorised", message, "authorization", {"WWW-Authenticate": "Bearer"})
        if scope.get("method") == "GET" and scope["path"] == paths.home:
            given = connection.query_params.get(QUERY_PARAMETER)
            if given is not None:
                return self._exchange_token(connection, given, paths)
        if self._has_cookie(connection):
            return None
        return _ask_for_token(scope)

    def _has_token(self, connection: HTTPConnection) -> bool:
        kind, _, token = connection.headers.get("authorization", "").encode("latin-1").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(_digest(token.strip()), self._digest)

    def _has_cookie(self, connection: HTTPConnection) -> bool:
        try:
            self._signer.unsign(connection.cookies.get(_cookie_name(connection), ""), max_age=COOKIE_LIFETIME)
        except BadData:
            return False
        return True

    def _exchange_token(self, connection: HTTPConnection, token: str, paths: PlaygroundPaths) -> Response:
        """Sets the cookie and redirects to the page's address without the token, which the browser then shows and keeps."""
        if not hmac.compare_digest(_digest(token.encode()), self._digest):
            return _ask_for_token(connection.scope)
        response = RedirectResponse(paths.home, 303, {"Cache-Control": "no-store"})
        value = self._signer.sign(secrets.token_urlsafe(16)).decode()
        response.set_cookie(
            _cookie_name(connection),
            value,
            max_age=COOKIE_LIFETIME,
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="strict",
        )
        return response


def page_link(url: str, home: str, token: str | None) -> str:
    """The address of the page, with the token if there is one."""
    return f"{url.rstrip('/')}{home}" + ("" if token is None else f"?{QUERY_PARAMETER}={quote(token, safe='')}")


def _cookie_name(connection: HTTPConnection) -> str:
    """The cookie's name, with the port in it: browsers share cookies between the ports of a host."""
    port = connection.headers.get("host", "").rpartition(":")[2]
    return f"odeprocess-{port if port.isascii() and port.isdigit() else 'pass'}"


def _ask_for_token(scope: Any) -> Response:
    """The response to a browser without a valid cookie."""
    message = "This page needs a token: open the link that the server printed at its start, or add ?token=… to the address."
    headers = {"Cache-Control": "no-store", "WWW-Authenticate": "Bearer"}
    # A browser does not send a strict cookie when a link on another site leads here. It does when this page reloads itself.
    from_link = dict(scope["headers"]).get(b"sec-fetch-site", b"") in (b"cross-site", b"same-site")
    return errors.error_page(scope, 401, "unauthorised", message, "authorization", headers, reload=from_link)


def _digest(token: bytes) -> bytes:
    """The SHA-256 digest. Digests have one length, so comparing them takes the same time for every token."""
    return hashlib.sha256(token).digest()
