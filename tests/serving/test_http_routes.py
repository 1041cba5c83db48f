"""The routes of a server in this process: responses, errors and their shape, limits, and the deletion of idle series."""

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from cases import SOLVER, untrained
from odeprocess.forecasting.covariates import Covariate
from odeprocess.forecasting.transforms import Transform
from odeprocess.forecasting.user_units import UserUnits
from odeprocess.serving.http import Limits, ServedModel, create_app
from server_cases import API, error_of, observations, run_app

SIZES = {"r_dim": 6, "z_dim": 6, "l_dim": 2, "h_dim": 8, "solver": SOLVER}


@pytest.fixture(scope="module")
def sines() -> odp.Model:
    series = odp.data.sines.sample(8, key=jr.key(0))
    model = untrained(odp.variant("ndp", **SIZES), series)
    return dataclasses.replace(model, scaling=model.scaling.with_training_range(series))


@pytest.fixture(scope="module")
def doses() -> ServedModel:
    """A model as a forecaster saves it: positive values, a number and a category for each series."""
    series = odp.data.sines.sample(8, key=jr.key(0))
    static = np.concatenate([np.arange(8.0)[:, None], np.eye(2)[np.arange(8) % 2]], 1)
    model = untrained(odp.variant("ndp", **SIZES), odp.Series(series.t, series.y, series.mask, static))
    units = UserUnits(("level",), (Transform("log", 2.0),), (Covariate("dose"), Covariate("sex", ("f", "m"))))
    return ServedModel("doses", model, units)


@pytest.fixture(scope="module")
def client(sines, doses):
    limits = Limits(max_series=40, max_points=30)
    app = create_app([ServedModel.of("sines", sines), doses], limits=limits, warm=False)
    with run_app(app) as client:
        yield client


def test_a_series_is_opened_extended_predicted_and_deleted(client, sines):
    card = client.post(f"{API}/series", json={"id": "one", **observations((0.0, 0.1))})
    assert card.status_code == 201 and card.json() == {"id": "one", "model": "sines", "count": 1}
    assert client.post(f"{API}/series/one/observations", json=observations((1.0, 0.8), (-1.0, -0.7))).json()["count"] == 3
    whole = client.get(f"{API}/series/one").json()
    assert [(row["t"], row["y"]) for row in whole["observations"]] == [(0.0, [0.1]), (1.0, [0.8]), (-1.0, [-0.7])]
    times = [-2.0, 0.5, 3.0]
    found = client.post(f"{API}/series/one/predict", json={"times": times, "level": 0.8, "draws": 3}).json()
    stream = odp.Stream(sines, key=jr.key(0))
    posterior = sines.condition([0.0, 1.0, -1.0], [0.1, 0.8, -0.7], key=stream.key("one"))
    low, high = posterior.interval(times, 0.8)
    expected = {"mean": posterior.mean(times), "std": posterior.std(times), "low": low, "high": high}
    expected["draws"] = posterior.sample(times, of="function")[:3]
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-3, atol=1e-4)
    assert found["count"] == 3 and found["times"] == times and found["notes"] == []
    client.post(f"{API}/series/one/observations", json=observations((1.5, 99.0)))
    late, odd = client.post(f"{API}/series/one/predict", json={"times": [4.0]}).json()["notes"]
    assert "Times from 4 to 4 lie outside" in late and "Observed values lie far outside" in odd
    wish = {"candidates": [-2.0, 0.5, 3.0], "count": 2, "by": "spread", "forbidden": [[0.0, 1.0]]}
    advice = client.post(f"{API}/series/one/suggest", json=wish).json()
    assert sorted(advice["times"]) == [-2.0, 3.0] and advice["scores"] == sorted(advice["scores"], reverse=True)
    assert client.delete(f"{API}/series/one").status_code == 204
    assert error_of(client.get(f"{API}/series/one"))["code"] == "not_found"


def test_a_forecasters_model_uses_the_users_units(client):
    card = next(card for card in client.get(f"{API}/models").json() if card["name"] == "doses")
    assert card["channels"] == ["level"] and card["covariates"][1] == {"name": "sex", "categories": ["f", "m"]}
    new = {"model": "doses", "static": [4.0, "m"], **observations((0.0, 3.0), (1.0, 5.0))}
    name = client.post(f"{API}/series", json=new).json()["id"]
    found = client.post(f"{API}/series/{name}/predict", json={"times": [0.5, 2.0], "draws": 64}).json()
    assert (np.array(found["low"]) > 0).all() and (np.array(found["draws"]) > 0).all()
    for static, values, where in (
        ([4.0], 1.0, "body.static"),
        ([4.0, "x"], 1.0, "body.static"),
        (["m", "m"], 1.0, "body.static"),
        ([4.0, "m"], -1.0, "body.observations.0.y.0"),
        ([4.0, "m"], [1.0, 2.0], "body.observations.0.y"),
    ):
        refused = client.post(f"{API}/series", json={"model": "doses", "static": static, **observations((0.0, values))})
        assert refused.status_code == 409 and error_of(refused)["where"] == where
    assert client.get("/health").json()["series"] == 1
    client.delete(f"{API}/series/{name}")


BAD = {
    "no such path": ("GET", "/nowhere", None, 404),
    "a trick with the path": ("GET", f"{API}/series/..%2F..%2Fetc%2Fpasswd", None, 404),
    "an id that cannot be": ("GET", f"{API}/series/a.b", None, 422),
    "an unknown id": ("POST", f"{API}/series/unknown/predict", '{"times": [1]}', 404),
    "another method": ("PATCH", f"{API}/series", None, 405),
    "a trailing slash": ("GET", f"{API}/series/", None, 404),
    "not JSON": ("POST", f"{API}/series", "{", 422),
    "not UTF-8": ("POST", f"{API}/series", b"\xff\xfe", 422),
    "deep": ("POST", f"{API}/series", "[" * 9000, 400),
    "many digits": ("POST", f"{API}/series", '{"origin": ' + "9" * 9000 + "}", 400),
    "a lone surrogate": ("POST", f"{API}/series", '{"\\ud800": 1}', 422),
    "NaN": ("POST", f"{API}/series/here/observations", '{"observations": [{"t": NaN, "y": [1]}]}', 422),
    "infinity": ("POST", f"{API}/series/here/observations", '{"observations": [{"t": 1, "y": [1e999]}]}', 422),
    "huge": ("POST", f"{API}/series/here/observations", '{"observations": [{"t": 1, "y": [1e300]}]}', 422),
    "text for a number": ("POST", f"{API}/series/here/observations", '{"observations": [{"t": "1", "y": [1]}]}', 422),
    "true for a number": ("POST", f"{API}/series/here/observations", '{"observations": [{"t": true, "y": [1]}]}', 422),
    "two channels": ("POST", f"{API}/series/here/observations", '{"observations": [{"t": 1, "y": [1, 2]}]}', 409),
    "nothing measured": ("POST", f"{API}/series/here/observations", '{"observations": [{"t": 1, "y": [null]}]}', 409),
    "too many points": ("POST", f"{API}/series/here/observations", json.dumps(observations(*[(0.0, 0.0)] * 40)), 409),
    "a large body": ("POST", f"{API}/series/here/observations", " " * (Limits.max_body_bytes + 1), 413),
    "far away": ("POST", f"{API}/series/here/predict", '{"times": [1e6]}', 409),
    "too many times": ("POST", f"{API}/series/here/predict", json.dumps({"times": [0.0] * 1001}), 422),
    "an unknown field": ("POST", f"{API}/series/here/predict", '{"times": [1], "when": 2}', 422),
    "all forbidden": ("POST", f"{API}/series/here/suggest", '{"candidates": [1], "forbidden": [[0, 2]]}', 409),
    "costs of others": ("POST", f"{API}/series/here/suggest", '{"candidates": [1], "costs": [1, 2]}', 409),
    "an id that is taken": ("POST", f"{API}/series", '{"id": "here"}', 409),
    "an unknown model": ("POST", f"{API}/series", '{"model": "x"}', 409),
    "events of nobody": ("GET", f"{API}/series/unknown/events?times=1", None, 404),
}


@pytest.fixture(scope="module")
def here(client):
    client.post(f"{API}/series", json={"id": "here"})
    yield client
    client.delete(f"{API}/series/here")


@pytest.mark.parametrize("case", BAD)
def test_errors_have_one_shape(here, case):
    method, path, body, status = BAD[case]
    headers = {"Content-Type": "application/json"} if body else {}
    answer = here.request(method, path, content=body, headers=headers)
    assert answer.status_code == status and len(error_of(answer)["message"]) > 5


EXTREME = (1e12, -1e12, 5e-324, -0.0, 1e-300)


def test_extreme_numbers_give_finite_predictions_or_errors(client):
    def sound(answer: httpx.Response) -> bool:
        """Whether it is a success with finite numbers in strict JSON, or an error of the one shape."""
        json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} in {answer.text[:200]}"))
        return answer.is_success or (answer.status_code in (409, 422) and "\n" not in error_of(answer)["message"])

    client.post(f"{API}/series", json={"id": "far", **observations((0.0, 0.1))})
    for level in (1e-300, 5e-324, 1 - 1e-8, 1 - 1e-16):
        answer = client.post(f"{API}/series/far/predict", json={"times": [0.5], "level": level})
        assert answer.is_success and sound(answer)
    for x in EXTREME:
        assert sound(
            client.post(f"{API}/series", json={"model": "doses", "static": [x, "m"], **observations((0.5, abs(x) or 1.0))})
        )
        assert sound(client.post(f"{API}/series/far/predict", json={"times": [0.5, x]}))
        assert sound(client.post(f"{API}/series/far/suggest", json={"candidates": [0.5, x], "about": [x]}))
        assert sound(client.post(f"{API}/series/far/observations", json=observations((x, 0.1))))
        assert sound(client.post(f"{API}/series/far/observations", json=observations((0.1, x))))
        assert sound(client.post(f"{API}/series/far/predict", json={"times": [0.5], "of": "function", "draws": 2}))
    client.delete(f"{API}/series/far")


def test_series_are_listed_in_pages_and_limited(client):
    names = [f"s{i:02d}" for i in range(5)]
    for name in names:
        client.post(f"{API}/series", json={"id": name})
    first = client.get(f"{API}/series", params={"limit": 3, "after": "s"}).json()
    rest = client.get(f"{API}/series", params={"limit": 3, "after": first["next"]}).json()
    assert [each["id"] for each in first["series"] + rest["series"]] == names and rest["next"] is None
    codes = [client.post(f"{API}/series", json={"id": f"t{i}"}).status_code for i in range(40)]
    assert 201 in codes and codes[-1] == 409
    for each in client.get(f"{API}/series").json()["series"]:
        client.delete(f"{API}/series/{each['id']}")


def test_other_names_of_this_host_are_refused(client):
    assert error_of(client.get("/health", headers={"Host": "evil.example"}))["code"] == "host"
    assert client.get("/health", headers={"Host": "localhost:8000"}).status_code == 200


def test_metrics_name_routes_and_not_their_parameters(client):
    for name in ("sines", "no-such-model"):
        client.get(f"{API}/models/{name}")
    text = client.get("/metrics").text
    for status in (200, 404):
        assert f'odeprocess_requests_total{{method="GET",route="{API}/models/{{name}}",status="{status}"}}' in text
    assert 'le="+Inf"' in text and "no-such-model" not in text


def test_events_follow_a_series_until_it_is_deleted(client):
    client.post(f"{API}/series", json={"id": "live"})
    with client.stream("GET", f"{API}/series/live/events", params={"times": [0.0, 1.0]}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()

        def event():
            name, data, blank = next(lines), next(lines), next(lines)
            assert blank == ""
            return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

        name, before = event()
        assert name == "prediction" and before["count"] == 0 and len(before["mean"]) == 2
        client.post(f"{API}/series/live/observations", json=observations((0.5, 0.9)))
        _, after = event()
        assert after["count"] == 1 and after["mean"] != before["mean"]
        client.delete(f"{API}/series/live")
        assert event()[0] == "deleted" and list(lines) == []


def test_with_a_token_only_health_is_open_and_idle_series_expire(sines):
    app = create_app([ServedModel.of("sines", sines)], token="secret", limits=Limits(idle_seconds=0.4), warm=False)
    with run_app(app) as client:
        assert client.get("/health").status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            refused = client.get(f"{API}/series", headers=headers)
            assert refused.status_code == 401 and error_of(refused)["code"] == "unauthorised"
        client.headers["Authorization"] = "Bearer secret"
        assert client.get(f"{API}/openapi.json").json()["components"]["securitySchemes"]
        client.post(f"{API}/series", json={"id": "brief"})
        assert len(client.get(f"{API}/series").json()["series"]) == 1
        time.sleep(1.0)
        assert client.get(f"{API}/series").json()["series"] == []


def test_the_server_matches_its_openapi_document(client, tmp_path):
    """Runs all checks of schemathesis; benchmarks/live.py runs them with more examples."""
    url, program = str(client.base_url.join(f"{API}/openapi.json")), Path(sys.executable).with_name("schemathesis")
    options = ["--checks", "all", "--max-examples", "8", "--exclude-path-regex", "events$", "--phases", "coverage,fuzzing"]
    options += ["--seed", "0", "--generation-deterministic"]
    done = subprocess.run([program, "run", url, *options], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-3000:]
