"""Slow clients beside one that is not: half of a request and then a byte now and then, in hundreds of connections.

The normal one asks all the time, first alone and then beside the others, several times in turn. It must get what is right, and
not much later than when it is alone.
"""

import http.client
import json
import multiprocessing
import socket
import statistics
import time
from collections import Counter
from multiprocessing.synchronize import Event as Signal
from typing import Any

from . import outcomes
from .files import place
from .outcomes import FAILURE, REFUSED, RIGHT
from .servers import API, Server, started

CHILDREN = multiprocessing.get_context("spawn")
RATE = 50.0  # requests a second of the normal client
TURNS = 5  # with and without slow clients
SECONDS = 10.0  # of each turn
WARM = 2.0  # seconds that are not counted, in which slow clients come
MOST_LATER = 2.0  # times the 99th percentile alone
HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
POSTED = f"POST {API}/series HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n".encode()


def slow_clients(seed: int, count: int, seconds: float = SECONDS, turns: int = TURNS) -> Counter:
    """So many slow ones; what the normal client got, and how much later."""
    found: Counter = Counter()
    with place() as root, started(root, "--no-playground") as server:
        began = server.memory()
        alone, beside, closed, most = [], [], 0, 0.0
        for _ in range(turns):
            alone += [_p99(_asked(server, seconds, found))]
            with Slow(server.port, count) as slow:
                time.sleep(WARM)
                beside += [_p99(_asked(server, seconds, found))]
                most = max(most, server.memory())
            closed += slow.closed
        ratio = statistics.median(beside) / statistics.median(alone)
        found[RIGHT if ratio <= MOST_LATER else f"{FAILURE}: p99 is {ratio:.1f} times as long"] += 1
        found[RIGHT if closed else f"{FAILURE}: slow clients are let be"] += 1
        said = server.said()
        found[RIGHT if "Traceback" not in said and len(said) < 10_000 else f"{FAILURE}: the log has {said[-300:]!r}"] += 1
        outcomes.figures.update(
            {
                "p99 alone, ms": [round(1e3 * each, 2) for each in alone],
                "p99 beside slow clients, ms": [round(1e3 * each, 2) for each in beside],
                "times as long": round(ratio, 2),
                "slow connections that were closed": closed,
                "MiB more, at most": round(most - began, 1),
            }
        )
    return found


def held_bodies(seed: int, count: int) -> Counter:
    """Clients that send all but the last byte of a body of 4 MB, and wait; the server must not keep them all."""
    found: Counter = Counter()
    with place() as root, started(root, "--no-playground") as server:
        began, most, held = server.memory(), 0.0, []
        content = POSTED + b" " * 3_999_999
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            held.append(one)
            try:
                one.sendall(content)
                found[RIGHT] += 1
            except OSError:
                found[REFUSED] += 1
            most = max(most, server.memory())
        found[_health(server)] += 1
        for one in held:
            one.close()
        grown = most - began
        found[RIGHT if grown < 64 else f"{FAILURE}: they cost {grown:.0f} MiB"] += 1
        outcomes.figures.update({"bodies of 4 MB": count, "MiB more, at most": round(grown, 1)})
    return found


class Slow:
    """Slow clients, in a process of their own; those that are closed come again."""

    def __init__(self, port: int, count: int):
        self._stop, (self._ours, theirs) = CHILDREN.Event(), CHILDREN.Pipe()
        self._child = CHILDREN.Process(target=_crawl, args=(port, count, self._stop, theirs))
        self.closed = 0

    def __enter__(self) -> "Slow":
        self._child.start()
        self._ours.recv()  # all are there
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self.closed = self._ours.recv()
        self._child.join()


def _crawl(port: int, count: int, stop: Signal, to: Any) -> None:
    """Half of them send a head, half a body; each a byte a second."""
    closed, told = 0, False
    clients: list[socket.socket | None] = [None] * count
    turn, pause = 0, 1.0 / count
    while not stop.is_set():
        place = turn % count
        one = clients[place]
        try:
            if one is None:
                one = clients[place] = socket.create_connection(("127.0.0.1", port), timeout=1.0)
                one.sendall(HEAD if place % 2 else POSTED)
                one.setblocking(False)
            elif _ended(one):
                raise ConnectionError
            else:
                one.send(b"x")
        except OSError:
            closed += 1
            if one is not None:
                one.close()
            clients[place] = None
        turn += 1
        if turn == count and not told:
            to.send(None)
            told = True
        time.sleep(pause if told else 0.0005)
    for one in clients:
        if one is not None:
            one.close()
    to.send(closed)


def _ended(one: socket.socket) -> bool:
    try:
        return one.recv(4096) is not None  # an answer, or its end: the server wants no more of this
    except BlockingIOError:
        return False


def _asked(server: Server, seconds: float, found: Counter) -> list[float]:
    """Seconds that each request of a normal client took; what came of it is counted."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    taken, name, end = [], f"n{time.monotonic_ns()}", time.perf_counter() + seconds
    _ask(connection, "POST", f"{API}/series", {"id": name})
    due, count = time.perf_counter(), 0
    while time.perf_counter() < end:
        time.sleep(max(0.0, due - time.perf_counter()))
        due = max(due + 1.0 / RATE, time.perf_counter() - 0.1)
        began = time.perf_counter()
        try:
            if len(taken) % 2:
                answer = _ask(connection, "POST", f"{API}/series/{name}/predict", {"times": [0.0, 1.0]})
                good = answer["count"] == count and len(answer["mean"]) == 2
            else:
                answer = _ask(connection, "POST", f"{API}/series/{name}/observations", {"observations": [{"t": 0.5, "y": [0.1]}]})
                count += 1
                good = answer["count"] == count
            found[RIGHT if good else f"{FAILURE}: the normal client was answered {answer}"] += 1
        except (OSError, http.client.HTTPException) as error:
            found[f"{FAILURE}: the normal client got {type(error).__name__}"] += 1
            connection.close()
        taken.append(time.perf_counter() - began)
    connection.close()
    outcomes.slowest = max(outcomes.slowest, *taken)
    return taken


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())


def _health(server: Server) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    try:
        connection.request("GET", "/health")
        return RIGHT if connection.getresponse().status == 200 else f"{FAILURE}: /health does not work"
    except OSError as error:
        return f"{FAILURE}: /health: {type(error).__name__}"
    finally:
        connection.close()


def _p99(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]
