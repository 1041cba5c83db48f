"""`odeprocess serve` as a process: after a kill it has all that it stored; on SIGTERM it stops."""

import signal

import pytest
from typer.testing import CliRunner

import odeprocess as odp
from fuzzing import disks
from fuzzing.outcomes import REFUSED, RIGHT
from odeprocess.cli.app import app
from odeprocess.serving.http import Limits, ServedModel
from odeprocess.serving.http.errors import ApiError
from odeprocess.serving.http.run import bind
from odeprocess.serving.http.schemas import NewSeries
from odeprocess.serving.http.service import Service
from odeprocess.serving.http.sqlite_store import SeriesEntry, SeriesStore
from server_cases import API, lines_folder, run_server

folder = pytest.fixture(scope="module")(lines_folder)


def test_stored_series_survive_a_kill(folder, tmp_path):
    state = tmp_path / "series.sqlite"
    with run_server(folder, "--state", state) as (child, client):
        for i in range(20):
            name = f"s{i % 4}"
            point = {"t": i / 20, "y": [i * 0.1]}
            if i < 4:
                answer = client.post(f"{API}/series", json={"id": name, "observations": [point]})
            else:
                answer = client.post(f"{API}/series/{name}/observations", json={"observations": [point]})
            assert answer.status_code == 201
        before = client.post(f"{API}/series/s1/predict", json={"times": [0.5, 1.0]}).json()
        child.send_signal(signal.SIGKILL)
        child.wait()
    with run_server(folder, "--state", state) as (child, client):
        cards = client.get(f"{API}/series").json()["series"]
        assert [(card["id"], card["count"]) for card in cards] == [(f"s{i}", 5) for i in range(4)]
        rows = client.get(f"{API}/series/s3").json()["observations"]
        assert [row["t"] for row in rows] == [i / 20 for i in range(3, 20, 4)]
        assert client.post(f"{API}/series/s1/predict", json={"times": [0.5, 1.0]}).json() == before
        other = refused("--state", str(state), folder=folder)
        assert other.exit_code == 2 and "another server has it open" in other.stderr
        with client.stream("GET", f"{API}/series/s0/events", params={"times": [0.0]}) as events:
            next(events.iter_lines())
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == 0


@pytest.mark.slow
def test_requests_without_an_answer_can_be_sent_again_after_a_kill():
    """A part of `make fuzz`, as is the next: kills while four clients add observations with keys, and send the last again."""
    found = disks.killed_servers(seed=0, count=2)
    assert set(found) == {RIGHT}, found


@pytest.mark.slow
def test_a_full_disk_is_reported_and_loses_nothing():
    """On a real file system of 3 MiB, where one can be made, and with a limit of the size of files; series are deleted."""
    found = disks.full_disks(seed=0, count=300)
    assert set(found) == {RIGHT, REFUSED} and found[REFUSED] > 5, found


def test_series_of_models_that_are_not_served_are_kept(folder, tmp_path):
    state, model = tmp_path / "series.sqlite", odp.load(folder)
    store = SeriesStore(state)
    with store.transaction():
        for name in ("lines", "other"):
            store.open(SeriesEntry(name, name, None, None))
            store.add(name, 0, [0.5], [[1.0]])
    store.close()
    service = Service({"lines": ServedModel.of("lines", model)}, SeriesStore(state), Limits())
    assert list(service.entries) == ["lines"] and service.card("lines").count == 1
    with pytest.raises(ApiError, match="exists already"):
        service.open(NewSeries(id="other"))
    assert service.store.observations("other") == ([0.5], [[1.0]])
    service.store.close()


def refused(*arguments, folder):
    return CliRunner().invoke(app, ["serve", str(folder), "--no-warm", "--port", "0", *arguments])


def test_a_server_that_cannot_start_prints_one_message(folder, tmp_path):
    for arguments, message in {
        ("--host", "0.0.0.0"): "a token is needed",
        ("--token", " "): "The token is empty",
        ("--public-url", "https://models.example.org"): "a token is needed",
        ("--public-url", "models.example.org", "--token", "x"): "expected one such as https://models.example.org",
        ("--state", str(tmp_path / "nowhere" / "at-all.sqlite")): "cannot be used for the state",
    }.items():
        done = refused(*arguments, folder=folder)
        assert done.exit_code == 2 and message in done.stderr
    taken = bind("127.0.0.1", 0)
    taken.listen()
    with pytest.raises(ValueError, match="Choose another with --port"):
        bind("127.0.0.1", taken.getsockname()[1])
    taken.close()
