"""Servers for tests: real ones, in processes of their own, over real sockets."""

import contextlib
import re
import subprocess
import sys
import threading

import httpx
import jax.random as jr
import uvicorn

import odeprocess as odp
from cases import untrained
from odeprocess.serving.http.run import bind

API = "/api/v1"


def lines_folder(tmp_path_factory):
    """The folder of a small model, which compiles quickly."""
    path = tmp_path_factory.mktemp("models") / "lines"
    untrained(odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4), odp.data.lines.sample(4, key=jr.key(0))).save(path)
    return path


@contextlib.contextmanager
def run_server(*arguments, **options):
    """Runs `odeprocess serve`; yields its process and a client."""
    command = [sys.executable, "-m", "odeprocess", "serve", *map(str, arguments), "--port", "0", "--no-warm", "--no-playground"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)
    assert child.stderr is not None
    try:
        line = next((line for line in child.stderr if "Serving" in line), "")
        with httpx.Client(base_url=re.search(r"http://\S+:\d+", line)[0], timeout=60.0) as client:  # pyright: ignore
            yield child, client
    finally:
        child.kill()
        child.communicate()


@contextlib.contextmanager
def run_app(app):
    """Runs the application; yields a client that uses a real socket."""
    listening = bind("127.0.0.1", 0)
    listening.listen()  # clients that connect before the server has started wait for it
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    app.state.stopping = lambda: server.should_exit
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60.0) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def error_of(response: httpx.Response) -> dict:
    """The error in a response, whose shape it checks."""
    body = response.json()
    assert list(body) == ["error"] and list(body["error"]) == ["code", "message", "where"], body
    return body["error"]


def observations(*pairs):
    """The JSON of observations, of one channel or of several."""
    return {"observations": [{"t": t, "y": y if isinstance(y, list) else [y]} for t, y in pairs]}
