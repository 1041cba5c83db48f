"""Idempotency keys: requests sent twice are stored once, also after a kill and at the same moment; and the store's files."""

import re
import signal
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from odeprocess.serving.http.sqlite_store import FORMAT, TABLES, SeriesEntry, SeriesStore
from server_cases import API, error_of, lines_folder, observations, run_server

folder = pytest.fixture(scope="module")(lines_folder)


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    with run_server(folder, "--state", tmp_path_factory.mktemp("state") / "series.sqlite") as (_, client):
        yield client


def key(value):
    return {"Idempotency-Key": value}


def test_observations_sent_twice_are_stored_once(server):
    server.post(f"{API}/series", json={"id": "twice"})
    path, body = f"{API}/series/twice/observations", observations((0.1, 1.0), (0.2, 2.0))
    first = server.post(path, json=body, headers=key("a"))
    server.post(path, json=observations((0.3, 3.0)))
    again = server.post(path, json=body, headers=key("a"))
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json() == {"id": "twice", "model": "lines", "count": 2}
    assert "idempotency-replayed" not in first.headers and again.headers["idempotency-replayed"] == "true"
    assert [row["t"] for row in server.get(f"{API}/series/twice").json()["observations"]] == [0.1, 0.2, 0.3]
    other = server.post(path, json=observations((0.9, 1.0)), headers=key("a"))
    assert other.status_code == 409 and error_of(other)["where"] == "header.idempotency-key"
    assert server.post(path, json=observations((0.9, 1.0)), headers=key("b")).json()["count"] == 4
    server.post(f"{API}/series", json={"id": "another"})
    assert server.post(f"{API}/series/another/observations", json=body, headers=key("a")).json()["count"] == 2
    server.delete(f"{API}/series/twice")
    assert server.post(path, json=body, headers=key("a")).status_code == 404


def test_a_series_opened_twice_with_a_key_is_opened_once(server):
    body = observations((0.5, 1.0))
    first, again = (server.post(f"{API}/series", json=body, headers=key("open")) for _ in range(2))
    assert first.json() == again.json() and again.headers["idempotency-replayed"] == "true"
    other = server.post(f"{API}/series", json=observations((0.5, 2.0)), headers=key("open"))
    assert other.status_code == 409 and "a key of its own" in error_of(other)["message"]
    server.delete(f"{API}/series/{first.json()['id']}")
    renewed = server.post(f"{API}/series", json=body, headers=key("open"))
    assert renewed.json()["id"] != first.json()["id"] and "idempotency-replayed" not in renewed.headers


def test_a_refused_request_is_tried_again(server):
    path = f"{API}/series/later/observations"
    assert server.post(path, json=observations((0.5, 1.0)), headers=key("x")).status_code == 404
    server.post(f"{API}/series", json={"id": "later"})
    assert server.post(path, json=observations((0.5, [1.0, 2.0])), headers=key("x")).status_code == 409
    assert server.post(path, json=observations((0.5, 1.0)), headers=key("x")).json()["count"] == 1


@pytest.mark.parametrize("value", ["", "x" * 65, "a b", b"\xe9".decode("latin-1")])
def test_a_key_is_short_and_plain(server, value):
    refused = server.post(f"{API}/series", json={}, headers={"Idempotency-Key": value.encode("latin-1")})
    assert refused.status_code == 422 and error_of(refused)["where"] == "header.Idempotency-Key"


def test_requests_at_the_same_moment_are_stored_once(server):
    server.post(f"{API}/series", json={"id": "crowd"})
    gate = threading.Barrier(8)

    def send(number):
        with httpx.Client(base_url=server.base_url, timeout=60.0) as client:
            client.get("/health")
            gate.wait()
            return client.post(f"{API}/series/crowd/observations", json=observations((0.5, 1.0)), headers=key(f"k{number % 2}"))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert [each.status_code for each in answers] == [201] * 8
    assert sum("idempotency-replayed" not in each.headers for each in answers) == 2
    assert server.get(f"{API}/series/crowd").json()["count"] == 2


def test_keys_survive_a_kill(folder, tmp_path):
    state, path = tmp_path / "series.sqlite", f"{API}/series/kept/observations"
    with run_server(folder, "--state", state) as (child, client):
        opened = client.post(f"{API}/series", json={"id": "kept"}, headers=key("open")).json()
        answers = [client.post(path, json=observations((i / 10, 1.0)), headers=key(str(i))).json() for i in range(5)]
        child.send_signal(signal.SIGKILL)
        child.wait()
    with run_server(folder, "--state", state) as (_, client):
        assert client.post(f"{API}/series", json={"id": "kept"}, headers=key("open")).json() == opened
        for i, answer in enumerate(answers):
            assert client.post(path, json=observations((i / 10, 1.0)), headers=key(str(i))).json() == answer
        assert client.get(f"{API}/series/kept").json()["count"] == 5


def test_stores_of_the_first_format_are_converted(tmp_path):
    path = tmp_path / "series.sqlite"
    old = sqlite3.connect(path)
    old.executescript(f"PRAGMA journal_mode = WAL; BEGIN; {TABLES[1]} PRAGMA user_version = 1; COMMIT;")
    old.execute("INSERT INTO series VALUES ('a', 'lines', '[1.5, \"x\"]', -0.0), ('b', 'lines', NULL, 2)")
    old.execute("INSERT INTO observations VALUES ('a', 0, 1, ?), ('a', 1, 0.5, ?)", (b"\0" * 8, b"\0\0\0\0\0\0\xf0\x7f"))
    old.commit()
    old.close()
    for _ in range(2):
        store = SeriesStore(path)
        assert store.entries() == [SeriesEntry("a", "lines", [1.5, "x"], 0.0), SeriesEntry("b", "lines", None, 2.0)]
        assert store.observations("a") == ([1.0, 0.5], [[0.0], [float("inf")]])
        store.close()
    with sqlite3.connect(path) as now:
        assert now.execute("PRAGMA user_version").fetchone() == (FORMAT,)


@pytest.mark.parametrize("change", ["PRAGMA user_version = 99", "DROP TABLE observations", "UPDATE series SET model = 'x'"])
def test_a_damaged_store_is_refused(change, tmp_path):
    path = tmp_path / "series.sqlite"
    store = SeriesStore(path)
    with store.transaction():
        store.open(SeriesEntry("a", "lines", None, -0.0))
        store.add("a", 0, [-0.0, 1.0], [[1.0], [None]])
    store.close()
    SeriesStore(path).close()
    with sqlite3.connect(path) as odd:
        odd.execute(change)
    odd.close()
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} cannot be used for the state.*\\. Name another"):
        SeriesStore(path)


@pytest.mark.parametrize("left", [0, 1, 511, 4096])
def test_a_truncated_store_is_refused(left, tmp_path):
    path = tmp_path / "series.sqlite"
    path.touch()  # a server may have been killed before it could write
    SeriesStore(path).close()
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} cannot be used for the state.*(damaged|malformed)"):
        SeriesStore(path)
    path.unlink()
    SeriesStore(path).close()  # a new one in its place
