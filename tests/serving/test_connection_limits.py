"""Limits on connections: half-sent requests, slow bodies, responses that nobody reads, few file descriptors."""

import contextlib
import json
import select
import socket
import threading
import time

import httpx
import jax.random as jr
import pytest
from fastapi import FastAPI, Response

import odeprocess as odp
from cases import untrained
from fuzzing.servers import started
from odeprocess.serving.http import Limits, ServedModel, create_app
from odeprocess.serving.http.connection_limits import CHECK_INTERVAL
from odeprocess.serving.http.run import Server, bind
from server_cases import API, observations

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
LONGEST = 60.0  # seconds that one step may take, on a busy machine


@pytest.fixture(scope="module")
def lines() -> ServedModel:
    series = odp.data.lines.sample(4, key=jr.key(0))
    return ServedModel.of("lines", untrained(odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4), series))


@contextlib.contextmanager
def serving(app, limits: Limits):
    """Runs an application in the command's own server; yields its port."""
    ready, listening = threading.Event(), bind("127.0.0.1", 0)
    server = Server(app, listening, lambda url: ready.set(), limits=limits, stop_timeout=1)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        assert ready.wait(LONGEST)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@contextlib.contextmanager
def connected(port: int, count: int, content: bytes, source: str = "127.0.0.1"):
    """Opens connections that have sent something, and wait."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", port), timeout=LONGEST, source_address=(source, 0))
            found.append(stack.enter_context(one))
            one.sendall(content)
        yield found


def error_from(one: socket.socket) -> tuple[int, str]:
    """The status and code of a response, once its connection is closed; zero if there was none."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := one.recv(1 << 16):
            said += part
    if not said:
        return 0, ""
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def posted(size: int, path: str = f"{API}/series") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()


def test_slow_clients_are_closed_and_others_are_served(lines):
    limits = Limits(request_timeout=1.0)
    with (
        serving(create_app([lines], limits=limits, warm=False), limits) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST) as normal,
        connected(port, 20, HEAD) as heads,
        connected(port, 20, posted(4000) + b'{"id": "') as bodies,
        connected(port, 5, b"") as silent,
    ):
        assert normal.post(f"{API}/series", json={"id": "one"}).status_code == 201
        for i in range(10):
            assert normal.post(f"{API}/series/one/observations", json=observations((i / 10, 0.1))).json()["count"] == i + 1
        for one in bodies:
            one.sendall(b"x")  # a byte now and then is not enough
        assert {error_from(one) for one in heads + bodies} == {(408, "late")}
        assert {error_from(one) for one in silent} == {(0, "")}
        assert normal.get("/health").json()["series"] == 1


def test_bodies_have_a_limit_together(lines):
    limits = Limits(max_total_body_bytes=1 << 20)
    with (
        serving(create_app([lines], limits=limits, warm=False), limits) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST) as normal,
        connected(port, 40, posted(200_001) + b" " * 200_000) as held,
    ):
        answered: list[socket.socket] = []
        while len(answered) < 35:  # there is room for five
            answered, _, _ = select.select(held, [], [], LONGEST)
        assert {error_from(one) for one in answered} == {(503, "bodies")}
        assert normal.post(f"{API}/series", json={"id": "one"}).status_code == 201
        rest = [one for one in held if one not in answered]
        assert len(rest) == 5
        for one in rest:
            one.sendall(b"0")
            assert one.recv(1 << 16).startswith(b"HTTP/1.1 422 ")
        content = " " * 1_000_000 + '{"id": "two"}'  # the room is free again
        assert normal.post(f"{API}/series", content=content, headers={"Content-Type": "application/json"}).status_code == 201


def test_a_part_of_a_body_is_not_taken_for_all_of_it(lines):
    with (
        serving(create_app([lines], warm=False), Limits()) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST) as normal,
    ):
        with connected(port, 1, posted(100) + b'{"id": "half"}'):
            pass
        for _ in range(10):
            assert normal.get(f"{API}/series").json()["series"] == []
            time.sleep(0.02)


def test_the_longest_waiting_connection_is_closed_for_a_new_one(lines):
    limits = Limits(max_connections=12, max_connections_per_client=8)
    with serving(create_app([lines], limits=limits, warm=False), limits) as port, connected(port, 30, HEAD) as slow:
        time.sleep(2 * CHECK_INTERVAL)  # a connection is not closed for another before it has waited a moment
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST) as normal:
            assert normal.get("/health").status_code == 200
            assert normal.get("/health").status_code == 200
        closed = []
        for one in slow:
            one.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                closed.append(error_from(one))
        assert len(closed) >= 22, "eight of one address are there at most"
        with connected(port, 1, HEAD, source="127.0.0.2") as other:  # another address has connections of its own
            other[0].settimeout(0.5)
            with pytest.raises(TimeoutError):
                other[0].recv(1)


def test_new_connections_are_refused_where_all_are_in_use(lines):
    limits = Limits(max_connections=4)
    with serving(create_app([lines], limits=limits, warm=False), limits) as port:
        url = f"http://127.0.0.1:{port}"
        httpx.post(f"{url}{API}/series", json={"id": "live"}, timeout=LONGEST)
        events = f"GET {API}/series/live/events?times=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        with connected(port, 4, events) as streams:
            for one in streams:
                assert one.recv(100).startswith(b"HTTP/1.1 200")
            refused = httpx.get(f"{url}/health", timeout=LONGEST)
            assert refused.status_code == 503 and refused.json()["error"]["code"] == "connections"
        for _ in range(100):
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/health", timeout=LONGEST).status_code == 200:
                    break
            time.sleep(0.05)
        else:
            pytest.fail("connections that have ended still count")


LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def large_app() -> FastAPI:
    """An application with a response of 16 MiB."""
    app = FastAPI()

    @app.get("/large")
    def large() -> Response:
        return Response(bytes(16 << 20))

    return app


def wait_for_response(one: socket.socket) -> None:
    """Waits until a response begins, or the connection is closed."""
    with contextlib.suppress(ConnectionResetError):
        one.recv(1, socket.MSG_PEEK)


def read_some(one: socket.socket) -> int:
    part = one.recv(1 << 20)
    assert part, "the connection was closed"
    return len(part)


def test_a_client_that_reads_is_not_dropped_for_later_ones(large_app):
    with serving(large_app, Limits()) as port, connected(port, 1, LARGE) as (reader,):
        size = read_some(reader)
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                for one in stack.enter_context(connected(port, 1, LARGE)):
                    wait_for_response(one)
                until = size + (2 << 20)
                while size < until:
                    size += read_some(reader)
                time.sleep(2 * CHECK_INTERVAL)
            while size < 16 << 20:
                size += read_some(reader)


def test_responses_that_nobody_reads_are_dropped(large_app):
    with serving(large_app, Limits()) as port, connected(port, 8, LARGE) as lazy:
        for one in lazy:
            wait_for_response(one)
        assert len(httpx.get(f"http://127.0.0.1:{port}/large", timeout=LONGEST).content) == 16 << 20
        whole = 0
        for one in lazy:
            size = 0
            with contextlib.suppress(ConnectionResetError, TimeoutError):
                one.settimeout(2.0)
                while part := one.recv(1 << 20):
                    size += len(part)
            whole += size > 16 << 20
        assert whole <= 4, "of eight answers there is room for two or three, and the system holds a part of each"


def test_with_few_file_descriptors_health_is_answered_and_little_is_logged(tmp_path):
    with (
        started(tmp_path, "--no-playground", "--no-warm", files=64) as server,
        connected(server.port, 200, HEAD),
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=LONGEST) as normal,
    ):
        for _ in range(5):
            assert normal.get("/health").status_code == 200
        assert normal.post(f"{API}/series", json={"id": "one", **observations((0.0, 0.1))}).status_code == 201
        assert server.files() < 64 and server.said() == ""


def test_too_few_file_descriptors_are_an_error(tmp_path):
    with pytest.raises(AssertionError, match=r"Error: This process may open 30 files.*ulimit -n 1024"):
        with started(tmp_path, "--no-playground", "--no-warm", files=30):
            pass


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"a" * 40_000, 400),
        (posted(5) + b"[", None),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET /play/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 400),
    ],
)
def test_invalid_http_is_an_error_of_the_one_shape(lines, wrong, status, caplog):
    limits = Limits(request_timeout=0.5)
    with serving(create_app([lines], limits=limits, warm=False), limits) as port, connected(port, 1, wrong) as (one,):
        assert error_from(one)[0] == (status or 408)
    assert not caplog.records
