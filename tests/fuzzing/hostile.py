"""Hostile requests: to real servers, over real sockets, one of which asks for a token.

An answer is right if it is what was asked for, in finite JSON; or it is a refusal in the server's one shape. What should be
refused and is not is a failure, and so is a traceback in the log or memory that does not come back.
"""

import base64
import http.client
import json
import math
import random
import re
import socket
import urllib.parse
from collections import Counter
from collections.abc import Callable
from typing import Any

from . import outcomes
from .files import place
from .mutations import changed, damaged
from .outcomes import FAILURE, outcome
from .servers import API, Server, started

SECRET = "a secret, of sorts/+"
BEARER = {"Authorization": f"Bearer {SECRET}"}
REFUSALS = {*range(400, 500), 503, 507}
MOST_GROWTH, MOST_LOGGED = 64.0, 50_000  # MiB, and bytes
NAMES = [f"s{i}" for i in range(8)]
FOREIGN = (
    "http://evil.example",
    "null",
    "http://localhost:1",
    "https://localhost",
    "http://localhost.evil.example",
    "file://",
    "x",
)
HOSTS = ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "[::2]", "a b", "@localhost")
HUGE = ("NaN", "Infinity", "-Infinity", "1e308", "1e400", "-0.0", "9" * 5000, "1" + "0" * 400, "5e-324", '"\\ud800"', "[" * 5000)
PIECES = (
    "a",
    "%00",
    "%ff",
    "..",
    "%2e%2e%2f",
    "\\",
    ";",
    "%",
    "%zz",
    "é",
    "//",
    "%c3%28",
    "x" * 300,
    "s0",
    "lines",
    "{id}",
    "~",
    " ",
)


class Refused(Exception):
    """An answer in the one shape that is no success."""


class Client:
    """Asks one server, on a connection that is kept as long as the server keeps it."""

    def __init__(self, server: Server):
        self.server = server
        self._socket: socket.socket | None = None

    def open(self) -> socket.socket:
        """The connection."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.server.port), timeout=2 * outcomes.LIMIT)
        return self._socket

    def close(self) -> None:
        """Ends it."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"", more: Any = None) -> "Answer":
        """What comes of a request that is sound as far as HTTP goes."""
        lines = {"Host": f"localhost:{self.server.port}", **(headers or {})}
        if body:
            lines.setdefault("Content-Type", "application/json")
        if body and "Transfer-Encoding" not in lines:
            lines.setdefault("Content-Length", str(len(body)))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body, method, more)

    def send(self, content: bytes, method: str = "GET", more: Callable[[socket.socket], Any] | None = None) -> "Answer":
        """What comes of these bytes."""
        for last in (False, True):
            fresh, one = self._socket is None, self.open()
            try:
                one.sendall(content)
                if more is not None:
                    more(one)
            except (BrokenPipeError, ConnectionResetError):  # it may have answered before it had heard all
                pass
            answer = http.client.HTTPResponse(one, method=method)
            try:
                answer.begin()
                streams = answer.getheader("content-type", "").startswith("text/event-stream")
                found = Answer(answer.status, answer.getheaders(), b"" if streams else answer.read())
            except (http.client.RemoteDisconnected, ConnectionResetError):
                self.close()
                if last or fresh:  # a connection that had been kept may just have been given up
                    raise
                continue
            except Exception:
                self.close()
                raise
            if streams or answer.will_close or answer.status == 101:
                self.close()
            return found
        raise AssertionError


class Answer:
    """A status, headers, and a body."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes):
        self.status, self.headers, self.body = status, {name.lower(): value for name, value in headers}, body

    def json(self) -> Any:
        """The body, which must hold finite numbers."""

        def odd(text: str) -> Any:
            raise AssertionError(f"{text} in an answer")

        return json.loads(self.body, parse_constant=odd)

    def refused(self) -> None:
        """Raises if it is a refusal in the one shape; another failure if it is one in another."""
        if self.status in REFUSALS:
            if self.headers.get("content-length") == "0" or not self.body:
                raise ValueError("to a HEAD request")
            error = self.json()["error"]
            assert list(error) == ["code", "message", "where"] and error["code"] and error["message"], self.body[:200]
            raise ValueError(error["message"])
        assert self.status < 400, f"{self.status}: {self.body[:200]!r}"


class Attack:
    """All attempts on a pair of servers, of which one asks for a token."""

    def __init__(self, rng: random.Random, open_to_all: Server, guarded: Server):
        self.rng = rng
        self.client, self.guarded = Client(open_to_all), Client(guarded)
        self.counts: dict[str, int] = {}  # of observations, by series
        kinds = {
            self.changed_body: 30,
            self.huge_body: 10,
            self.damaged_body: 10,
            self.odd_path: 12,
            self.odd_headers: 8,
            self.odd_token: 10,
            self.odd_origin: 10,
            self.odd_framing: 6,
            self.handshake: 6,
            self.garbage: 4,
            self.sound: 8,
            self.own_page: 0.2,
        }
        self.kinds, self.weights = list(kinds), list(kinds.values())

    def attempt(self) -> bool:
        """One request of a kind that is drawn."""
        return self.rng.choices(self.kinds, self.weights)[0]()

    def close(self) -> None:
        """Ends the connections."""
        self.client.close()
        self.guarded.close()

    def question(self) -> tuple[str, str, Any]:
        """A sound request."""
        rng, name = self.rng, self.rng.choice(NAMES)
        rows = [{"t": rng.uniform(-1, 1), "y": [rng.gauss(0, 1)]} for _ in range(rng.randint(1, 3))]
        times = [rng.uniform(-1, 1) for _ in range(rng.randint(1, 4))]
        return rng.choice(
            [
                ("open", f"{API}/series", {"id": name, "observations": rows}),
                ("add", f"{API}/series/{name}/observations", {"observations": rows}),
                ("predict", f"{API}/series/{name}/predict", {"times": times, "level": 0.9, "of": "function", "draws": 2}),
                ("suggest", f"{API}/series/{name}/suggest", {"candidates": times, "by": "spread", "count": 1}),
            ]
        )

    def sound(self) -> bool:
        """A sound request, or one that asks what there is; sometimes a series is deleted, so that there are few."""
        rng, client = self.rng, self.client
        if rng.random() < 0.5:
            kind, path, body = self.question()
            return self.judged(kind, path, body, client.ask("POST", path, body=json.dumps(body).encode()))
        name = rng.choice(NAMES)
        if rng.random() < 0.4:
            answer = client.ask("DELETE", f"{API}/series/{name}")
            answer.refused()
            return answer.status == 204 and self.counts.pop(name, None) is not None
        path = rng.choice(
            ["/health", f"{API}/models", f"{API}/models/lines", f"{API}/series", f"{API}/series/{name}", "/metrics"]
        )
        answer = client.ask(rng.choice(["GET", "GET", "HEAD"]), path)
        answer.refused()
        return answer.status == 200 and (path == "/metrics" or not answer.body or answer.json() is not None)

    def judged(self, kind: str, path: str, body: Any, answer: Answer) -> bool:
        """Whether an answer to a body is right."""
        answer.refused()
        found, name = answer.json(), path.split("/")[4] if path.count("/") > 3 else None
        if kind in ("open", "add"):
            if answer.status != 201:
                return False
            added = len(body.get("observations", []))
            before = self.counts.get(found["id"], 0) if kind == "add" else 0
            if found["id"] not in NAMES:
                self.client.ask("DELETE", f"{API}/series/{found['id']}")
            elif "Idempotency-Replayed" not in answer.headers:
                self.counts[found["id"]] = before + added
            return found["count"] == before + added and (name or body.get("id") or found["id"]) == found["id"]
        if kind == "predict":
            shape = (len(body["times"]), 1)
            arrays = [found[part] for part in ("mean", "std", "low", "high")]
            good = all(len(array) == shape[0] and all(len(row) == shape[1] for row in array) for array in arrays)
            ordered = all(low[0] <= high[0] for low, high in zip(found["low"], found["high"], strict=True))
            finite = all(math.isfinite(x) for array in arrays for row in array for x in row)
            return good and ordered and finite and found["times"] == [float(t) for t in body["times"]]
        return set(found["times"]) <= {float(t) for t in body["candidates"]} and len(found["times"]) <= body.get("count", 1)

    def changed_body(self) -> bool:
        """Other fields, types and numbers."""
        kind, path, body = self.question()
        body = changed(self.rng, body)
        try:
            content = json.dumps(body).encode()
        except (ValueError, RecursionError):
            content = b"null"
        return self.judged(kind, path, body, self.client.ask("POST", path, body=content))

    def huge_body(self) -> bool:
        """A number that is none, or too large, or too deep."""
        kind, path, body = self.question()
        content = json.dumps(body)
        numbers = [match for match in re.finditer(r"-?\d+\.\d+(e-?\d+)?", content)]
        if numbers:
            spot, odd = self.rng.choice(numbers), self.rng.choice(HUGE)
            content = content[: spot.start()] + odd + content[spot.end() :]
        answer = self.client.ask("POST", path, body=content.encode())
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        return self.judged(kind, path, body, answer)

    def damaged_body(self) -> bool:
        """Bytes that may be no JSON, or no UTF-8."""
        kind, path, body = self.question()
        content = damaged(self.rng, json.dumps(body).encode())
        if self.rng.random() < 0.1:
            content = self.rng.choice(
                [b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"\x00", b"", b"{" * 9000, b'{"id":1,"id":"s1"}']
            )
        answer = self.client.ask("POST", path, {"Content-Type": "application/json"}, content)
        answer.refused()
        return self.judged(kind, path, json.loads(content), answer)

    def odd_path(self) -> bool:
        """Paths, methods and queries that nobody has."""
        rng = self.rng
        pieces = "/".join(rng.choices(PIECES, k=rng.randint(1, 4))).replace(" ", "%20")
        path = rng.choice(["", API, f"{API}/series", f"{API}/models", f"{API}/series/s0", "/play", "/static", "/components"])
        query = rng.choice(
            ["", "?", "?limit=-1", "?limit=1e3", f"?after={pieces}", "?times=nan&times=1e999", "?level=2", "?a=%ff&&=="]
        )
        events = f"{API}/series/{rng.choice(NAMES)}/events?times={rng.choice(['1', 'x', 'inf', '1e400', '-0', ''])}"
        path = events if rng.random() < 0.1 else f"{path}/{pieces}{query}"
        method = rng.choice(["GET", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "FOO", "get"])
        answer = self.client.ask(method, urllib.parse.quote(path, safe="/%?&=;.~{}\\"), body=rng.choice([b"", b"{}"]))
        answer.refused()
        if method == "DELETE" and answer.status == 204:
            self.counts.pop(path.split("/")[4].split("?")[0], None)
        return answer.status < 300

    def odd_headers(self) -> bool:
        """Headers that are long, many, odd, or twice there."""
        rng, (kind, path, body) = self.rng, self.question()
        name = rng.choice(
            ["Content-Type", "Accept", "Idempotency-Key", "Expect", "Range", "Cookie", "Upgrade", "TE", "Forwarded", "X"]
        )
        value = rng.choice(
            ["", "x" * 20_000, "\x80\xff", "é", "a, b;q=2", "websocket", "100-continue", "bytes=0-", '"', "application/xml"]
        )
        many = {f"X-{i}": "x" for i in range(rng.choice([0, 0, 300]))}
        answer = self.client.ask("POST", path, {name: value, **many}, json.dumps(body).encode())
        if answer.status == 201 and "idempotency-replayed" in answer.headers:
            return True
        return self.judged(kind, path, body, answer)

    def odd_token(self) -> bool:
        """Anything but the secret, where one is asked for; and now and then the secret."""
        rng, (_, path, body) = self.rng, self.question()
        content, health = json.dumps(body).encode(), rng.random() < 0.1
        if rng.random() < 0.1:
            answer = self.guarded.ask("GET", f"{API}/models", BEARER)
            return answer.status == 200 and bool(answer.json())
        wrong = rng.choice(
            ["", SECRET[:-1], SECRET + "x", SECRET.upper(), "\x80", "x" * 9000, "null", base64.b64encode(b"a:b").decode()]
        )
        cookie = f"odeprocess-{self.guarded.server.port}={rng.choice([SECRET, 'a.b.c', wrong[:4000], 'x.' + 'A' * 50])}"
        headers = rng.choice(
            [
                {},
                {"Authorization": wrong},
                {"Authorization": f"Bearer {wrong}"},
                {"Authorization": f"Basic {SECRET}"},
                {"Authorization": SECRET},
                {"Cookie": cookie},
                {"Cookie": "\x00" if rng.random() < 0.1 else cookie, "Authorization": "Bearer"},
            ]
        )
        page = rng.choice(
            ["/play", f"/play?token={urllib.parse.quote(wrong[:2000], safe='')}", "/play/ws", "/static/js/bokeh.min.js"]
        )
        if health:
            return self.guarded.ask("GET", "/health", headers).status in (200, 400)
        answer = (
            self.guarded.ask("GET", page, headers) if rng.random() < 0.4 else self.guarded.ask("POST", path, headers, content)
        )
        assert answer.status in (400, 401, 431), f"{answer.status} without the token"
        answer.refused()
        return False

    def odd_origin(self) -> bool:
        """Pages of other sites, and other names of this host."""
        rng, (_, path, body) = self.rng, self.question()
        client = rng.choice([self.client, self.guarded])
        headers = {"Origin": rng.choice(FOREIGN)} if rng.random() < 0.5 or client is self.guarded else {"Host": rng.choice(HOSTS)}
        if rng.random() < 0.2:
            headers = {"Sec-Fetch-Site": rng.choice(["cross-site", "same-site"]), "Sec-Fetch-Mode": "no-cors"}
        headers = headers | (BEARER if client is self.guarded else {})
        method, path = rng.choice([("POST", path), ("GET", "/play"), ("GET", f"{API}/models"), ("DELETE", f"{API}/series/s0")])
        answer = client.ask(method, path, headers, json.dumps(body).encode() if method == "POST" else b"")
        assert answer.status in (400, 403), f"{answer.status} to {headers}"
        answer.refused()
        return False

    def odd_framing(self) -> bool:
        """Bodies in chunks, too large, shorter or longer than was said."""
        rng, (kind, path, body) = self.rng, self.question()
        content = json.dumps(body).encode()
        way = rng.randrange(6)
        if way == 0:
            parts = b"".join(b"%x\r\n%s\r\n" % (1, content[i : i + 1]) for i in range(len(content))) + b"0\r\n\r\n"
            return self.judged(kind, path, body, self.client.ask("POST", path, {"Transfer-Encoding": "chunked"}, parts))
        if way == 1:
            bad = rng.choice(
                [b"zz\r\n", b"-1\r\n\r\n", b"5\r\nab", b"ffffffffffffffffffff\r\n", b"5;" + b"x" * 90_000, b"1\r\naa\r\n"]
            )
            self.cut_short({"Transfer-Encoding": "chunked"}, path, bad + b"\r\n\r\n" * 3)
        elif way == 2:
            length = rng.choice(["-1", "1e3", "9" * 30, "5, 6", "0x10", "", "5\r\nContent-Length: 6"])
            self.cut_short({"Content-Length": length}, path, content)
        elif way == 3 and rng.random() < 0.1:
            self.client.ask("POST", path, body=b" " * ((4 << 20) + 1) + content).refused()
        elif way == 4:
            self.cut_short({"Content-Length": "3", "Transfer-Encoding": "chunked"}, path, b"0\r\n\r\n")
        else:  # half of it, and then nobody
            self.client.close()
            with socket.create_connection(("127.0.0.1", self.client.server.port)) as one:
                one.sendall(
                    f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content) + 9}\r\n\r\n".encode() + content
                )
            before = self.counts.get("s0")
            whole = self.client.ask("GET", f"{API}/series/s0")
            return whole.status == 404 if before is None else whole.json()["count"] == before
        self.client.close()
        return True

    def cut_short(self, headers: dict[str, str], path: str, body: bytes) -> None:
        """A body that is not framed as it should be, after which nothing comes."""
        self.client.close()
        try:
            answer = self.client.ask("POST", path, headers, body, lambda one: one.shutdown(socket.SHUT_WR))
        except (http.client.RemoteDisconnected, ConnectionResetError):
            raise ValueError("without a word") from None
        answer.refused()
        raise AssertionError(f"{answer.status} to {headers} and {body[:30]!r}")

    def handshake(self) -> bool:
        """WebSockets of nobody's pages."""
        rng = self.rng
        client = rng.choice([self.client, self.guarded])
        key = rng.choice([base64.b64encode(rng.randbytes(16)).decode(), "", "x", "é"])
        forged = (
            base64.urlsafe_b64encode(rng.choice([b'{"session_id": "x", "session_expiry": 9e99}', b"{}", b"\xff"]))
            .decode()
            .rstrip("=")
        )
        headers = {
            "Connection": rng.choice(["Upgrade", "upgrade, x", "keep-alive", "Upgrade,, "]),
            "Upgrade": rng.choice(["websocket", "WebSocket", "h2c"]),
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Version": rng.choice(["13", "13", "8", "x"]),
            "Sec-WebSocket-Protocol": rng.choice(
                ["bokeh", f"bokeh, {forged}", f"bokeh, {forged}.x", "bokeh, \x80", ", ,", "a, b, c"]
            ),
            "Sec-WebSocket-Extensions": rng.choice(["permessage-deflate", "x; y=1; ;", ""]),
            "Origin": rng.choice([*FOREIGN, f"http://localhost:{client.server.port}", f"http://localhost:{client.server.port}"]),
        }
        for name in rng.sample(list(headers), rng.choice([0, 0, 1])):
            del headers[name]
        path = rng.choice(["/play/ws", "/play/ws", "/play", "/ws", f"{API}/series"])
        answer = client.ask(rng.choice(["GET", "GET", "GET", "POST"]), path, headers)
        client.close()
        assert answer.status != 101, f"a WebSocket was opened with {headers}"
        if answer.status == 200:
            return path in ("/play", f"{API}/series") and client is self.client
        answer.refused()
        return False

    def own_page(self) -> bool:
        """A page that was really opened, whose WebSocket says what no page says."""
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        rng, port = self.rng, self.client.server.port
        page = self.client.ask("GET", "/play")
        page.refused()
        token = re.search(rb'"token":"([^"]+)"', page.body)
        assert token, "a page without a token"
        origin: Any = f"http://localhost:{port}"
        event = {
            "kind": rng.choice(["ModelChanged", "MessageSent", "RootAdded", "x"]),
            "model": {"id": "p1"},
            "attr": "data",
            "new": 1,
        }
        header = {"msgid": "1", "msgtype": rng.choice(["PATCH-DOC", "PULL-DOC-REQ", "SERVER-INFO-REQ", "OK", "x"])}
        sound = [json.dumps(part) for part in (header, {}, {"events": [event]})]
        with connect(f"ws://localhost:{port}/play/ws", subprotocols=["bokeh", token[1].decode()], origin=origin) as page:  # type: ignore[list-item]
            try:
                page.recv(outcomes.LIMIT)
                for part in rng.choice(
                    [sound, [damaged(rng, sound[0].encode())], sound[:1] * 3, ["[" * 9000], [b"\x00" * 9], ["NaN"] * 3]
                ):
                    page.send(part)
                page.socket.sendall(
                    rng.choice([b"", b"\x81\x82\x00\x00\x00\x00\xff\xff", b"\xff" * 20, b"\x81\xff" + b"\x7f" * 12])
                )
                page.recv(0.1)
            except (ConnectionClosed, TimeoutError):
                pass
        return True

    def garbage(self) -> bool:
        """Bytes that are no HTTP, on a connection of their own."""
        rng = self.rng
        sound = f"GET /health HTTP/1.1\r\nHost: localhost:{self.client.server.port}\r\n\r\n".encode()
        content = rng.choice(
            [
                rng.randbytes(rng.randint(1, 2000)) + b"\r\n\r\n",
                damaged(rng, sound) + b"\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500) + b"\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /" + b"a" * 100_000,
                sound + rng.randbytes(200) + b"\r\n\r\n",
                b"\r\n" * 200 + sound,
            ]
        )
        self.client.close()
        one = self.client.open()
        answered = b""
        try:
            one.sendall(content)
            one.shutdown(socket.SHUT_WR)
            while part := one.recv(1 << 16):
                answered += part
        except (ConnectionResetError, BrokenPipeError):
            pass
        finally:
            self.client.close()
        statuses = {int(status) for status in re.findall(rb"^HTTP/1\.1 (\d{3}) ", answered, re.M)}
        assert statuses <= {200, *REFUSALS}, answered[:300]
        raise ValueError("as it should be") if statuses - {200} else ValueError("without a word")


def hostile_requests(seed: int, count: int) -> Counter:
    """So many requests that no client of ours would send."""
    rng, found = random.Random(seed), Counter()
    with place() as one, place() as other, started(one) as server, started(other, token=SECRET) as guarded:
        attack, servers = Attack(rng, server, guarded), (server, guarded)
        for name in NAMES[:4]:
            attack.client.ask("POST", f"{API}/series", body=json.dumps({"id": name}).encode())
            attack.counts[name] = 0
        for _ in range(min(count, 200)):  # whatever is compiled or cached on the way
            outcome(attack.attempt)
        outcomes.slowest, began = 0.0, [each.memory() for each in servers]
        found = _counted(attack.attempt, servers, count)
        attack.close()
        grown = max(each.memory() - before for each, before in zip(servers, began, strict=True))
        if grown > MOST_GROWTH:
            found[f"{FAILURE}: a server grew by {grown:.0f} MiB"] += 1
        logged = max(each.log.stat().st_size for each in servers)
        if logged > MOST_LOGGED:
            found[f"{FAILURE}: {logged} bytes were logged"] += 1
        if SECRET in re.sub(r"token=\S+", "", guarded.log.read_text()):
            found[f"{FAILURE}: the log has the secret"] += 1
        outcomes.figures.update({"MiB more, at most": round(grown, 1), "bytes logged, at most": logged})
    return found


def generated_requests(seed: int, count: int) -> Counter:
    """So many requests that schemathesis makes of the server's own document."""
    import hypothesis
    import schemathesis

    found: Counter = Counter()
    with place() as root, started(root, "--no-playground") as server:
        client = Client(server)
        document = client.ask("GET", f"{API}/openapi.json").json()
        operations = [each.ok() for each in schemathesis.openapi.from_dict(document).get_all_operations()]
        operations = [each for each in operations if not each.path.endswith("/events")]
        began, modes = server.memory(), list(schemathesis.GenerationMode)
        for number, operation in enumerate(operations):
            share = count // len(operations) + (number < count % len(operations))
            for i, mode in enumerate(modes):
                some = share // len(modes) + (i < share % len(modes))
                try:
                    strategy = operation.as_strategy(generation_mode=mode)
                    found += _generated(strategy, seed, some, server, client)
                except Exception as error:
                    if type(error).__name__ not in ("SkipTest", "Unsatisfiable"):  # nothing of this can be wrong
                        raise
        client.close()
        grown = server.memory() - began
        if grown > MOST_GROWTH:
            found[f"{FAILURE}: the server grew by {grown:.0f} MiB"] += 1
        outcomes.figures.update({"MiB more, at most": round(grown, 1)})
        assert hypothesis
    return found


def _generated(strategy: Any, seed: int, count: int, server: Server, client: Client) -> Counter:
    import hypothesis

    found: Counter = Counter()
    settings = hypothesis.settings(
        max_examples=max(1, count),
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )

    @hypothesis.seed(seed)
    @settings
    @hypothesis.given(strategy)
    def ask(case: Any) -> None:
        def attempt() -> bool:
            got = case.call(base_url=f"http://127.0.0.1:{server.port}", timeout=2 * outcomes.LIMIT)
            answer = Answer(got.status_code, list(got.headers.items()), got.content)
            answer.refused()
            if "json" in answer.headers.get("content-type", ""):
                answer.json()
            return answer.status < 300

        found.update(_counted(attempt, (server,), 1))

    ask()
    return found


def _counted(attempt: Callable[[], bool], servers: tuple[Server, ...], count: int) -> Counter:
    found: Counter = Counter()
    for _ in range(count):
        came = outcome(attempt, (ValueError,))
        said = "".join(each.said() for each in servers)
        if "Traceback" in said or any(each.process.poll() is not None for each in servers):
            came = f"{FAILURE}: the log has {said[-400:]!r}"
        found[came] += 1
    return found
