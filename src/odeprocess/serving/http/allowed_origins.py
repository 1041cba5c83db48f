"""The checks of the `Host` and `Origin` headers: which host names and which web pages may use this server.

A page of any site can make a browser send requests to a loopback address. The browser states where the page is from (`Origin`,
`Sec-Fetch-Site`), so these requests can be refused. With DNS rebinding, another site's name resolves to this machine and its
pages have the same origin as their requests; the `Host` header reveals them.

Starlette's `TrustedHostMiddleware` is not used: it accepts only the loopback addresses that are listed, cuts IPv6 addresses at
their first colon, and answers in plain text.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from .errors import ApiError

HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/\\@?#\s]+)(?::([0-9]{1,5}))?")  # a name, IPv4 or [IPv6] address, and a port
DEFAULT_PORTS = {"http": "80", "https": "443"}
HTTP_SCHEMES = {
    "http": "http",
    "ws": "http",
    "https": "https",
    "wss": "https",
}  # of pages, by that of requests


class AllowedOrigins:
    """The host names and origins whose requests are accepted.

    Arguments:
        hosts: host names of this server beside loopback addresses; `None` accepts any, for servers that ask for a token.
        public_url: the address at which a TLS proxy serves this server, such as https://models.example.org.
    """

    def __init__(self, hosts: Iterable[str] | None = (), public_url: str | None = None):
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self._public_origin = None if public_url is None else _origin_of(public_url)

    @property
    def secure(self) -> bool:
        """Whether browsers use TLS."""
        return self._public_origin is not None and self._public_origin.startswith("https:")

    def check(self, scope: Any) -> None:
        """Raises `ApiError` if a request names another host, or comes from a page of another site."""
        headers = [(name, value.decode("latin-1").strip().lower()) for name, value in scope["headers"]]
        host = ",".join(value for name, value in headers if name == b"host")
        if not self._allows_host(host):
            message = "This server does not answer to that host name. Use localhost, or a name that the server was started with."
            raise ApiError(400, "host", message, "host")
        own = {_without_default_port(f"{HTTP_SCHEMES.get(scope['scheme'], 'http')}://{host}"), self._public_origin}
        foreign = any(_without_default_port(value) not in own for name, value in headers if name == b"origin")
        if foreign or self._is_cross_site(scope, dict(headers)):
            message = (
                "The request comes from a page of another site. Only this server's own pages and non-browser clients may use it."
            )
            raise ApiError(403, "origin", message, "origin")

    def _allows_host(self, host: str) -> bool:
        match = HOST.fullmatch(host)
        name = match[1] if match else ""
        return self._hosts is None or is_loopback(name.strip("[]")) or name in self._hosts

    def _is_cross_site(self, scope: Any, headers: dict[bytes, str]) -> bool:
        """Whether the browser marks a request without an origin, such as for an image or a frame, as one of another site.

        Following a link to this server is allowed.
        """
        is_link = headers.get(b"sec-fetch-mode") == "navigate" and headers.get(b"sec-fetch-dest") == "document"
        is_link = is_link and scope.get("method") in ("GET", "HEAD")
        return headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin") and not is_link


def is_loopback(name: str) -> bool:
    """Whether a name is localhost or a loopback address. No other machine can be reached by these."""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    good = parts.scheme in DEFAULT_PORTS and HOST.fullmatch(parts.netloc)
    if not good or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"The public address is {url!r}; expected one such as https://models.example.org, without a path.")
    return _without_default_port(f"{parts.scheme}://{parts.netloc}".lower())


def _without_default_port(origin: str) -> str:
    """The origin without the port that its scheme implies."""
    scheme, _, _ = origin.partition("://")
    return origin.removesuffix(f":{DEFAULT_PORTS.get(scheme, '')}") if scheme in DEFAULT_PORTS else origin
