"""Streams and the server: time, robustness and durability.

Streams: 10,000 series with 100 observations each, one for every series at a time; is an update as fast at the end as at the
beginning? The server, in a process of its own on loopback: (1) all checks of schemathesis on its OpenAPI document; (2) 10,000
bad requests, and the memory that they leave in use; (3) 1,000 series for a minute at 50 requests a second, updates each followed
by a prediction, then SIGKILL: is everything that was answered there after a restart? Writes `results/streams-and-server.json`.
"""

import argparse
import atexit
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from odeprocess.experiments.result_files import read_json, write_json

RESULTS = Path(__file__).parent.parent / "results" / "streams-and-server.json"
API = "/api/v1"


def measure_streams(count: int = 10_000, points: int = 100) -> dict[str, Any]:
    import jax

    import odeprocess as odp

    series = odp.data.sines.sample(60, key=jax.random.key(0))
    row: dict[str, Any] = {"benchmark": "streams", "series": count, "observations": points}
    for variant in ("ndp", "np", "ndp-skip"):
        spec = odp.variant(variant)
        scaling = odp.Scaling.fit(series)
        spec = spec.resolve(scaling.apply(series))
        stream = odp.Stream(odp.Model(spec.build(key=jax.random.key(0)), spec, scaling), key=jax.random.key(1))
        rng, seconds = np.random.default_rng(0), []
        for _ in range(points):
            t, y = rng.uniform(-3, 3, count), rng.normal(size=count)
            began = time.perf_counter()
            stream.observe(range(count), t, y)
            seconds.append(time.perf_counter() - began)
        micro = 1e6 * np.array(seconds[1:]) / count  # the first compiles
        tenth = max(1, len(micro) // 10)
        first, last = micro[:tenth].min(), micro[-tenth:].min()  # the minimum, since others may use the machine
        row[variant] = {"first tenth, µs an observation": first, "last tenth, µs an observation": last, "ratio": last / first}
    return row


class Server:
    """Runs `odeprocess serve` in a process of its own."""

    def __init__(self, folder: Path, state: Path):
        command = [sys.executable, "-m", "odeprocess", "serve", folder, "--state", state, "--port", "0", "--device", "cpu"]
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        said = next(line for line in self.process.stderr if "Serving" in line)
        self.started = time.perf_counter() - began
        self.port = int(re.search(r"http://\S+:(\d+)", said)[1])  # type: ignore[index]
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        atexit.register(self.process.kill)

    def memory(self) -> float:
        """Resident memory in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 2**20

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait()


def send(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    content = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
    connection.request(method, path, content, {"Content-Type": "application/json"} if content is not None else {})
    answer = connection.getresponse()
    return answer.status, answer.read()


def train_model(folder: Path) -> None:
    import jax

    import odeprocess as odp

    odp.fit(odp.data.sines.sample(60, key=jax.random.key(0)), "ndp", options=odp.FitOptions(epochs=5)).model.save(folder)


def check_document(server: Server, examples: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{server.port}{API}/openapi.json"
    program = Path(sys.executable).with_name("schemathesis")
    options = ["--checks", "all", "--max-examples", str(examples), "--exclude-path-regex", "events$", "--no-color"]
    done = subprocess.run([program, "run", url, *options], capture_output=True, text=True, cwd=tempfile.gettempdir())
    cases = re.search(r"(\d+) generated", done.stdout)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr, flush=True)
    return {
        "benchmark": "schemathesis",
        "examples": examples,
        "cases": int(cases[1]) if cases else 0,
        "passed": done.returncode == 0,
    }


def send_bad_requests(server: Server, count: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    send(connection, "POST", f"{API}/series", {"id": "here"})
    rng, statuses, kept, odd = random.Random(0), {}, 0.0, 0
    junk = [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "9" * 5000,
        '"1"',
        "true",
        "null",
        "{}",
        "[]",
        '"\\ud800"',
        "1e13",
        "[" * 5000,
    ]
    whole = json.dumps({"observations": [{"t": 1.0, "y": [1.0]}]})
    for i in range(count):
        value, name = rng.choice(junk), "".join(rng.choices("abc%./\\~-_", k=rng.randint(1, 80)))
        method, path, body = rng.choice(
            [
                ("POST", f"{API}/series/here/observations", f'{{"observations": [{{"t": {value}, "y": [1]}}]}}'),
                (
                    "POST",
                    f"{API}/series/here/observations",
                    f'{{"observations": [{{"t": 1, "y": {value if value != "[]" else 1}}}]}}',
                ),
                ("POST", f"{API}/series/here/observations", whole[: rng.randrange(len(whole))]),
                ("POST", f"{API}/series/here/predict", f'{{"times": [0], "level": {value}}}'),
                ("POST", f"{API}/series/here/predict", json.dumps({"times": [0.0] * rng.randint(1001, 3000)})),
                ("POST", f"{API}/series/here/suggest", f'{{"candidates": {value}}}'),
                ("POST", f"{API}/series", f'{{"id": "x/{i}", "model": {value}}}'),
                ("POST", f"{API}/series", rng.randbytes(rng.randint(1, 400))),
                ("POST", f"{API}/series/unknown-{i}/predict", '{"times": [0]}'),
                ("GET", f"{API}/series/{quote(name, safe='')}{i}.", None),
                ("GET", f"{API}/series/..%2f..%2fetc%2fpasswd%00{i}", None),
                ("GET", f"/{i}/../../etc/passwd", None),
                (rng.choice(["PUT", "PATCH", "TRACE"]), f"{API}/series", whole),
                ("POST", f"{API}/series/here/observations", " " * (4 << 20) + "x" if i % 50 == 0 else "x"),
            ]
        )
        status, answer = send(connection, method, path, body)
        statuses[status] = statuses.get(status, 0) + 1
        shape = json.loads(answer)
        odd += not (400 <= status < 500 and list(shape) == ["error"] and list(shape["error"]) == ["code", "message", "where"])
        if i + 1 == count // 10:
            kept = server.memory()
    row: dict[str, Any] = {"benchmark": "bad requests", "requests": count, "statuses": dict(sorted(statuses.items()))}
    return row | {"not 4xx in one shape": odd, "MiB after a tenth": kept, "MiB more at the end": server.memory() - kept}


def measure_load(folder: Path, state: Path, count: int, seconds: float, rate: float) -> dict[str, Any]:
    server, threads, each = Server(folder, state), 8, []
    answered: dict[str, list[float]] = {}
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for i in range(count):
        assert send(connection, "POST", f"{API}/series", {"id": f"s{i}"})[0] == 201
    times = np.linspace(-3, 3, 50).tolist()
    begin, lock = time.perf_counter() + 0.5, threading.Lock()
    due = iter(range(int(seconds * rate)))

    def client() -> None:
        connection, rng = http.client.HTTPConnection("127.0.0.1", server.port), random.Random()
        connection.connect()
        while True:
            with lock:
                number = next(due, None)
            if number is None:
                return
            time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
            name, t = f"s{rng.randrange(count)}", rng.uniform(-3, 3)
            began = time.perf_counter()
            added = send(connection, "POST", f"{API}/series/{name}/observations", {"observations": [{"t": t, "y": [0.5]}]})
            found = send(connection, "POST", f"{API}/series/{name}/predict", {"times": times})
            took = time.perf_counter() - began
            with lock:
                each.append(took)
                assert added[0] == 201 and found[0] == 200, (added, found)
                answered.setdefault(name, []).append(t)

    clients = [threading.Thread(target=client) for _ in range(threads)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    server.stop(signal.SIGKILL)
    again = Server(folder, state)
    connection, lost = http.client.HTTPConnection("127.0.0.1", again.port), 0
    for name, sent in answered.items():
        rows = json.loads(send(connection, "GET", f"{API}/series/{name}")[1])["observations"]
        lost += len(sent) - len(set(sent) & {row["t"] for row in rows})
    milliseconds = 1e3 * np.array(each)
    figures = {f"p{q}, ms": float(np.quantile(milliseconds, q / 100)) for q in (50, 95, 99)}
    row = {"benchmark": "load", "series": count, "seconds": seconds, "requests a second": 2 * rate, **figures}
    row |= {"answered": len(each), "lost by SIGKILL": lost, "start, s": again.started, "exit code": again.stop()}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["streams", "schemathesis", "bad", "load"], nargs="*")
    parser.add_argument("--examples", type=int, default=200, help="of schemathesis for each operation")
    parser.add_argument("--requests", type=int, default=10_000, help="number of bad requests")
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    chosen = arguments.only or ["streams", "schemathesis", "bad", "load"]
    record = read_json(RESULTS)
    rows = record["rows"] if record else []
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "sines")
        train_model(folder)
        for part in chosen:
            if part == "streams":
                row = measure_streams()
            elif part == "load":
                row = measure_load(folder, Path(home, "load.sqlite"), 1000, arguments.seconds, 25.0)  # pairs: 50 requests
            else:
                server = Server(folder, Path(home, f"{part}.sqlite"))
                row = (
                    check_document(server, arguments.examples)
                    if part == "schemathesis"
                    else send_bad_requests(server, arguments.requests)
                )
                server.stop()
            print(json.dumps(row, indent=2, ensure_ascii=False), flush=True)
            rows = [old for old in rows if old["benchmark"] != row["benchmark"]] + [row]
            write_json(RESULTS, {"rows": rows})


if __name__ == "__main__":
    main()
