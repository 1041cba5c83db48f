"""The secret that a server asks for: in a header of programs; of browsers in a link, once, and in a cookie from then on.

The cookie is no copy of the secret: it is signed with a key that is made at each start, and expires. It opens the playground's
page and what belongs to it, nothing else, so no page can make a browser use the rest of the server.
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

OPEN = "/health"  # may be asked by everyone
LIFETIME = 12 * 3600  # seconds that a cookie is good for
PARAMETER = "token"


@dataclasses.dataclass(frozen=True)
class Pages:
    """Where the playground's page lives, and the files that it loads.

    Attributes:
        home: the page itself.
        files: what the paths of its files begin with.
    """

    home: str
    files: tuple[str, ...] = ("/static/",)

    @property
    def socket(self) -> str:
        """The page's WebSocket."""
        return f"{self.home.rstrip('/')}/ws"

    def cover(self, path: str) -> bool:
        """Whether a path is a part of the playground."""
        return path in (self.home, self.socket) or path.startswith(self.files)


class Token:
    """Lets in who bears the secret."""

    def __init__(self, secret: str, *, secure: bool = False):
        self._digest, self._secure = _digest(secret.encode()), secure
        self._signer = TimestampSigner(secrets.token_bytes(32), salt="odeprocess playground", digest_method=hashlib.sha256)

    def admit(self, scope: Any, pages: Pages | None) -> Response | None:
        """What is answered instead of what was asked for, or `None` for who may come in."""
        connection = HTTPConnection(scope)
        if scope["path"] == OPEN or self._borne(connection):
            return None
        if pages is None or not pages.cover(scope["path"]):
            message = "A token is needed: send the header `Authorization: Bearer …`."
            return errors.answer(401, "unauthorised", message, "authorization", {"WWW-Authenticate": "Bearer"})
        if scope.get("method") == "GET" and scope["path"] == pages.home:
            given = connection.query_params.get(PARAMETER)
            if given is not None:
                return self._exchanged(connection, given, pages)
        if self._signed(connection):
            return None
        return _closed(scope)

    def _borne(self, connection: HTTPConnection) -> bool:
        kind, _, secret = connection.headers.get("authorization", "").encode("latin-1").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(_digest(secret.strip()), self._digest)

    def _signed(self, connection: HTTPConnection) -> bool:
        try:
            self._signer.unsign(connection.cookies.get(_name(connection), ""), max_age=LIFETIME)
        except BadData:
            return False
        return True

    def _exchanged(self, connection: HTTPConnection, secret: str, pages: Pages) -> Response:
        """The cookie for the secret; the address that is shown and kept by the browser has none."""
        if not hmac.compare_digest(_digest(secret.encode()), self._digest):
            return _closed(connection.scope)
        answer = RedirectResponse(pages.home, 303, {"Cache-Control": "no-store"})
        value = self._signer.sign(secrets.token_urlsafe(16)).decode()
        answer.set_cookie(
            _name(connection), value, max_age=LIFETIME, path="/", secure=self._secure, httponly=True, samesite="strict"
        )
        return answer


def link(url: str, home: str, secret: str | None) -> str:
    """The address of the page; if there is a secret, one that lets a browser in."""
    return f"{url.rstrip('/')}{home}" + ("" if secret is None else f"?{PARAMETER}={quote(secret, safe='')}")


def _name(connection: HTTPConnection) -> str:
    """Cookies know no ports, so that of each server has its port in its name."""
    port = connection.headers.get("host", "").rpartition(":")[2]
    return f"odeprocess-{port if port.isascii() and port.isdigit() else 'pass'}"


def _closed(scope: Any) -> Response:
    """What who has no cookie is told."""
    message = "This page asks for a token: open the link that the server printed when it started, or add ?token=… to the address."
    headers = {"Cache-Control": "no-store", "WWW-Authenticate": "Bearer"}
    # A browser keeps a strict cookie back when a link of another site leads here; asked by this page itself, it sends it.
    linked = dict(scope["headers"]).get(b"sec-fetch-site", b"") in (b"cross-site", b"same-site")
    return errors.told(scope, 401, "unauthorised", message, "authorization", headers, again=linked)


def _digest(secret: bytes) -> bytes:
    """Of one length whatever the secret's is, so that comparing takes one time."""
    return hashlib.sha256(secret).digest()
