"""Servers on full disks, and servers that are killed: what they answered with success is stored once, and nothing else is.

The disks are real: a small file system in memory that only the server sees, or a limit on the size of its files.
"""

import http.client
import itertools
import random
import signal
import subprocess
import threading
import time
from collections import Counter

from . import outcomes
from .files import place
from .hostile import Answer, Client
from .outcomes import FAILURE, REFUSED, RIGHT
from .servers import API, started

DISK_BYTES = 3 << 20  # of which the server reserves 1 MiB
CLIENTS = 4  # at once, of a server that is killed; chosen by hand
OPTIONS = ("--no-playground", "--no-warm")


def full_disks(seed: int, count: int) -> Counter:
    """Sends `count` requests to servers whose disks are full now and then, since more is added than is deleted."""
    found: Counter = Counter()
    ways = ["size", "mount"] if _can_mount() else ["size"]
    for i, way in enumerate(ways):
        share = count // len(ways) + (i < count % len(ways))
        found += _fill_disk(random.Random(seed + i), share, way)
    outcomes.figures["kinds of full disk"] = len(ways)
    return found


def killed_servers(seed: int, count: int) -> Counter:
    """Kills a server `count` times while clients add to their series; requests without an answer are sent again."""
    rng, found = random.Random(seed), Counter()
    clients = [_Adder(i) for i in range(CLIENTS)]
    with place() as root:
        for _ in range(count):
            with started(root, *OPTIONS, "--state", root / "series.sqlite") as server:
                threads = [threading.Thread(target=each.add, args=(Client(server), found)) for each in clients]
                for thread in threads:
                    thread.start()
                time.sleep(rng.uniform(0.05, 1.0))
                server.process.send_signal(signal.SIGKILL)
                for thread in threads:
                    thread.join()
        with started(root, *OPTIONS, "--state", root / "series.sqlite") as server:
            for each in clients:
                each.add(Client(server), found, most=1)  # the request without an answer
                client = Client(server)
                kept = client.ask("GET", f"{API}/series/{each.name}").json()["observations"]
                client.close()
                same = [row["t"] for row in kept] == [i / 1000 for i in range(each.sent)]
                found[RIGHT if same else f"{FAILURE}: of {each.sent} observations {len(kept)} were kept"] += 1
    outcomes.figures.update({"kills": count, "observations answered with success": sum(each.sent for each in clients)})
    return found


class _Adder:
    """A client that adds observations to its series one by one, each with a key, and repeats requests without an answer."""

    def __init__(self, number: int):
        self.name, self.sent, self.opened = f"series-{number}", 0, False

    def add(self, client: Client, found: Counter, most: int = 10**6) -> None:
        """Adds until `most` were answered or the server is gone."""
        try:
            if not self.opened:
                key = {"Idempotency-Key": f"open-{self.name}"}
                answer = client.ask("POST", f"{API}/series", key, b'{"id": "%s"}' % self.name.encode())
                self.opened = answer.status == 201
            for _ in range(most):
                body = b'{"observations": [{"t": %f, "y": [0.5]}]}' % (self.sent / 1000)
                answer = client.ask("POST", f"{API}/series/{self.name}/observations", {"Idempotency-Key": str(self.sent)}, body)
                if answer.status != 201 or answer.json()["count"] != self.sent + 1:
                    found[f"{FAILURE}: {answer.status}, {answer.body[:100]!r} after {self.sent}"] += 1
                    return
                found[RIGHT] += 1
                self.sent += 1
        except (OSError, http.client.HTTPException):
            pass  # it was killed
        finally:
            client.close()


def _fill_disk(rng: random.Random, count: int, way: str) -> Counter:
    """Adds, predicts and deletes; each response is compared with those before."""
    found: Counter = Counter()
    kept: dict[str, list[float]] = {}
    names = (f"series-{i}" for i in itertools.count())
    fulls = 0
    with place() as root:
        disk = root / "disk"
        disk.mkdir()
        bounds = {"size": DISK_BYTES} if way == "size" else {"mount": f"{disk}:{DISK_BYTES}"}
        with started(root, "--no-playground", "--state", disk / "series.sqlite", **bounds) as server:
            client = Client(server)
            for _ in range(count):
                kind = rng.choices(("open", "add", "ask", "read", "delete"), (1, 8, 2, 1, 0.05 if fulls < 5 else 4))[0]
                fulls = 0 if kind == "delete" else fulls
                name = rng.choice(list(kept)) if kept else ""
                began = time.perf_counter()
                came = FAILURE
                try:
                    if kind == "open" or not kept:
                        fresh = next(names)
                        answer = client.ask("POST", f"{API}/series", body=b'{"id": "%s"}' % fresh.encode())
                        came = _outcome_of(answer, 0)
                        kept |= {fresh: []} if came == RIGHT else {}
                    elif kind == "add":
                        times = [rng.random() for _ in range(rng.choice((1, 300, 1000)))]
                        rows = ", ".join(f'{{"t": {t!r}, "y": [0.5]}}' for t in times)
                        answer = client.ask(
                            "POST", f"{API}/series/{name}/observations", body=f'{{"observations": [{rows}]}}'.encode()
                        )
                        came = _outcome_of(answer, len(kept[name]) + len(times))
                        kept[name] += times if came == RIGHT else []
                    elif kind == "ask":
                        answer = client.ask("POST", f"{API}/series/{name}/predict", body=b'{"times": [0.5]}')
                        good = answer.status == 200 and answer.json()["count"] == len(kept[name])
                        came = RIGHT if good else f"{FAILURE}: a prediction is {answer.status}"
                    elif kind == "read":
                        rows = client.ask("GET", f"{API}/series/{name}").json()["observations"]
                        came = RIGHT if [row["t"] for row in rows] == kept[name] else f"{FAILURE}: {name} has changed"
                    else:
                        answer = client.ask("DELETE", f"{API}/series/{name}")
                        came = RIGHT if answer.status == 204 else f"{FAILURE}: a deletion is {answer.status}"
                        kept.pop(name)
                except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
                    came = f"{FAILURE}: {kind}: {type(error).__name__}: {error}"
                fulls += came == REFUSED and answer.status == 507
                taken = time.perf_counter() - began
                outcomes.slowest = max(outcomes.slowest, taken)
                found[came if taken < outcomes.LIMIT else f"{FAILURE}: took {taken:.0f} s"] += 1
            said = server.said()
            found[RIGHT if "Traceback" not in said else f"{FAILURE}: the log has {said[-300:]!r}"] += 1
            outcomes.note(f"answers of 507, {way}", found[REFUSED])
            client.close()
        if way == "size":  # the other disk is gone with its server
            with started(root, *OPTIONS, "--state", disk / "series.sqlite") as server:
                client = Client(server)
                whole = {name: client.ask("GET", f"{API}/series/{name}").json()["observations"] for name in kept}
                same = {name: [row["t"] for row in rows] for name, rows in whole.items()} == kept
                found[RIGHT if same else f"{FAILURE}: after a kill not all is there"] += 1
                client.close()
    return found


def _outcome_of(answer: Answer, count: int) -> str:
    """The outcome of a request that stores: it is right, or refused because the disk or the series is full."""
    if answer.status == 201:
        return RIGHT if answer.json()["count"] == count else f"{FAILURE}: {answer.json()}"
    error = answer.json()["error"]
    full = (answer.status, error["code"]) in ((507, "full"), (409, "too_many_points"))
    return outcomes.refusal(error["message"]) if full else f"{FAILURE}: {answer.status}, {error}"


def _can_mount() -> bool:
    """Whether a process can have a file system of its own here."""
    try:
        return subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
