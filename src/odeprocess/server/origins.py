"""Whose page asks: the names that a server answers to, and what browsers tell of where a request comes from.

A page of any site can make a browser send requests to a loopback address. The browser adds where the page is from (`Origin`,
`Sec-Fetch-Site`), so such requests are known. A page whose name was made to point here (DNS rebinding) has the same origin as
what it asks; it is known by the name that it calls this host by.

Starlette's `TrustedHostMiddleware` takes a list of names: it knows no loopback addresses but those listed, cuts IPv6 addresses at
their first colon, and answers in a shape of its own. So names are checked here, with the origins.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from .errors import Refused

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/\\@?#\s]+)(?::([0-9]{1,5}))?")
PORTS = {"http": "80", "https": "443"}
SECURE = {"http": "http", "ws": "http", "https": "https", "wss": "https"}


class Origins:
    """Names and origins that are this server's own.

    Arguments:
        hosts: names of this server beside loopback addresses; `None` for any name, where a secret is asked for as well.
        public: the address that a proxy with TLS serves this under, such as https://models.example.org.
    """

    def __init__(self, hosts: Iterable[str] | None = (), public: str | None = None):
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._public = None if public is None else _public(public)

    @property
    def secure(self) -> bool:
        """Whether browsers come by TLS."""
        return self._public is not None and self._public.startswith("https:")

    def check(self, scope: Any) -> None:
        """Raises `Refused` if a request calls this server by another's name, or comes from another site's page."""
        headers = [(name, value.decode("latin-1").strip().lower()) for name, value in scope["headers"]]
        host = ",".join(value for name, value in headers if name == b"host")
        if not self._own_name(host):
            message = "This server does not answer to that name; it answers to localhost, and to names that it was started with."
            raise Refused(400, "host", message, "host")
        own = {_normal(f"{SECURE.get(scope['scheme'], 'http')}://{host}"), self._public}
        foreign = any(_normal(value) not in own for name, value in headers if name == b"origin")
        if foreign or self._from_elsewhere(scope, dict(headers)):
            message = "A page of another site asks for this; only this server's own pages may, and programs that are no browsers."
            raise Refused(403, "origin", message, "origin")

    def _own_name(self, host: str) -> bool:
        found = HOST.fullmatch(host)
        name = found[1] if found else ""
        return self._hosts is None or loopback(name.strip("[]")) or name in self._hosts

    def _from_elsewhere(self, scope: Any, headers: dict[bytes, str]) -> bool:
        """Whether a browser says so of a request without an origin, such as an image or a frame; a link to here is none."""
        linked = headers.get(b"sec-fetch-mode") == "navigate" and headers.get(b"sec-fetch-dest") == "document"
        linked = linked and scope.get("method") in ("GET", "HEAD")
        return headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin") and not linked


def loopback(name: str) -> bool:
    """Whether a name is this machine's, for itself alone; nobody can make an address mean another machine."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """The name in an address."""
    return urlsplit(url).hostname or ""


def _public(url: str) -> str:
    found = urlsplit(url)
    if found.scheme not in PORTS or not HOST.fullmatch(found.netloc) or found.path.strip("/") or found.query or found.fragment:
        raise ValueError(f"The public address is {url!r}; expected one such as https://models.example.org, without a path.")
    return _normal(f"{found.scheme}://{found.netloc}".lower())


def _normal(origin: str) -> str:
    """Without the port that its scheme has anyway."""
    scheme, _, _ = origin.partition("://")
    return origin.removesuffix(f":{PORTS.get(scheme, '')}") if scheme in PORTS else origin
