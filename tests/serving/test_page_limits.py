"""Limits on open pages of the playground: their number, and the end of disconnected and of idle ones."""

import contextlib
import gc
import re
import threading
import time
import weakref

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from odeprocess.serving.http.run import bind
from odeprocess.serving.playground import ModelMenu, load_views, mount
from odeprocess.serving.playground.page import Page
from playground_cases import prey_folder
from server_cases import error_of

pytestmark = [  # Panel uses Tornado, and itself, as they were
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]
LONGEST = 60.0  # seconds that one step may take, on a busy machine
MOST = 3
AWAY = 4.0  # seconds: longer than a busy machine takes from a page to its WebSocket


@pytest.fixture(scope="module")
def menu(tmp_path_factory) -> ModelMenu:
    return ModelMenu(load_views([prey_folder(tmp_path_factory.mktemp("models"))]))


@contextlib.contextmanager
def mounted(menu, **options):
    """Runs an application with a route of its own and the playground; yields its port."""
    app, listening = FastAPI(), bind("127.0.0.1", 0)
    app.get("/own")(lambda: "theirs")
    mount(app, menu, **options)
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def page(port: int, **headers: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}/play", timeout=LONGEST, headers=headers)


def socket(port: int, answer: httpx.Response):
    token = re.search(r'"token":"([^"]+)"', answer.text)[1]  # pyright: ignore[reportOptionalSubscript]
    return connect(f"ws://127.0.0.1:{port}/play/ws", subprotocols=["bokeh", token])  # type: ignore[list-item]


def open_page(port: int):
    """A page and its WebSocket; tries again if the page ended before a busy machine opened its WebSocket."""
    began = time.monotonic()
    while time.monotonic() - began < LONGEST:
        answer = page(port)
        if answer.status_code == 200:
            with contextlib.suppress(InvalidStatus):
                return answer, socket(port, answer)
        time.sleep(0.05)
    raise AssertionError("no page could be opened")


def pages() -> list[Page]:
    return [each for each in gc.get_objects() if type(each) is Page]


def until(law) -> None:
    began = time.monotonic()
    while not law():
        assert time.monotonic() - began < LONGEST
        time.sleep(0.05)


def test_the_number_of_pages_is_limited(menu):
    with mounted(menu, max_pages=MOST, away_seconds=AWAY) as port, contextlib.ExitStack() as visits:
        for _ in range(MOST):
            visits.enter_context(open_page(port)[1]).recv(LONGEST)
        refused = page(port, Accept="text/html")
        assert refused.status_code == 503 and f"{MOST} pages are open" in refused.text and "<h1>" in refused.text
        assert error_of(page(port))["code"] == "visitors"
        visits.pop_all().close()
        until(lambda: page(port).status_code == 200)


def test_disconnected_pages_are_closed_and_freed(menu):
    with mounted(menu, max_pages=MOST, away_seconds=AWAY) as port:
        others = {id(each) for each in pages()}  # of servers that have ended
        first, opened = open_page(port)
        with opened as visit:
            visit.recv(LONGEST)
            ours = [weakref.ref(each) for each in pages() if id(each) not in others]
        assert ours

        def gone() -> bool:
            gc.collect()
            return all(each() is None for each in ours)

        until(gone)
        with pytest.raises(InvalidStatus, match="404"), socket(port, first):  # a closed page cannot be opened again
            pass


def test_an_idle_page_is_closed(menu):
    with mounted(menu, max_pages=1, idle_seconds=0.5, away_seconds=AWAY) as port:
        with open_page(port)[1] as visit:
            visit.recv(LONGEST)
            with pytest.raises(ConnectionClosed, match=r"1001.*has not been used"):
                while True:
                    visit.recv(LONGEST)
        until(lambda: page(port).status_code == 200)


def test_mount_checks_access_to_the_page_only(menu):
    with mounted(menu, hosts=["models.example.org"]) as port:
        for host, status in {"localhost": 200, "models.example.org": 200, "evil.example": 400}.items():
            assert page(port, Host=host).status_code == status
        assert page(port, Origin="http://evil.example").status_code == 403
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{port}/play/ws", origin="http://evil.example")  # type: ignore[arg-type]
        own = httpx.get(f"http://127.0.0.1:{port}/own", headers={"Host": "theirs.example", "Origin": "http://theirs.example"})
        assert own.json() == "theirs" and "x-frame-options" not in own.headers
