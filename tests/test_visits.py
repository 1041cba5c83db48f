"""Visits of the playground: so many at once, and each ends when nobody is there or nothing is done."""

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

from odeprocess.playground import Gallery, gather, mount
from odeprocess.playground.page import Page
from odeprocess.server.run import bound
from playground_cases import prey_folder
from server_cases import shape

pytestmark = [  # Panel uses Tornado, and itself, as they were
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]
LONGEST = 60.0  # seconds that anything may take, on the busiest machine
MOST = 3
AWAY = 3.0  # seconds in which a page must come to its socket, on a busy machine, and after which it ends


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    return Gallery(gather([prey_folder(tmp_path_factory.mktemp("models"))]))


@contextlib.contextmanager
def mounted(gallery, **how):
    """The port of an application of somebody's own, which has the playground."""
    app, listening = FastAPI(), bound("127.0.0.1", 0)
    app.get("/own")(lambda: "theirs")
    mount(app, gallery, **how)
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


def visited(port: int):
    """A page and its WebSocket; another page, where a busy machine came to the first one's socket only after its end."""
    began = time.monotonic()
    while time.monotonic() - began < LONGEST:
        answer = page(port)
        if answer.status_code == 200:
            with contextlib.suppress(InvalidStatus):
                return answer, socket(port, answer)
        time.sleep(0.05)
    raise AssertionError("no visit began")


def pages() -> list[Page]:
    return [each for each in gc.get_objects() if type(each) is Page]


def until(law) -> None:
    began = time.monotonic()
    while not law():
        assert time.monotonic() - began < LONGEST
        time.sleep(0.05)


def test_there_is_room_for_so_many_and_the_next_is_told(gallery):
    with mounted(gallery, visitors=MOST, away=AWAY) as port, contextlib.ExitStack() as visits:
        for _ in range(MOST):
            visits.enter_context(visited(port)[1]).recv(LONGEST)
        refused = page(port, Accept="text/html")
        assert refused.status_code == 503 and f"{MOST} visitors are here" in refused.text and "<h1>" in refused.text
        assert shape(page(port))["code"] == "visitors"
        visits.pop_all().close()
        until(lambda: page(port).status_code == 200)


def test_visits_end_and_leave_nothing_behind(gallery):
    with mounted(gallery, visitors=MOST, away=AWAY) as port:
        others = {id(each) for each in pages()}  # of servers that have ended
        first, opened = visited(port)
        with opened as visit:
            visit.recv(LONGEST)
            ours = [weakref.ref(each) for each in pages() if id(each) not in others]
        assert ours

        def gone() -> bool:
            gc.collect()
            return all(each() is None for each in ours)

        until(gone)
        with pytest.raises(InvalidStatus, match="404"), socket(port, first):  # what has ended does not begin again
            pass


def test_a_visit_on_which_nothing_is_done_ends(gallery):
    with mounted(gallery, visitors=1, idle=0.5, away=AWAY) as port:
        with visited(port)[1] as visit:
            visit.recv(LONGEST)
            with pytest.raises(ConnectionClosed, match=r"1001.*nothing has been done"):
                while True:
                    visit.recv(LONGEST)
        until(lambda: page(port).status_code == 200)


def test_in_an_application_of_ones_own_the_page_is_guarded_and_the_rest_is_not(gallery):
    with mounted(gallery, hosts=["models.example.org"]) as port:
        for host, status in {"localhost": 200, "models.example.org": 200, "evil.example": 400}.items():
            assert page(port, Host=host).status_code == status
        assert page(port, Origin="http://evil.example").status_code == 403
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{port}/play/ws", origin="http://evil.example")  # type: ignore[arg-type]
        own = httpx.get(f"http://127.0.0.1:{port}/own", headers={"Host": "theirs.example", "Origin": "http://theirs.example"})
        assert own.json() == "theirs" and "x-frame-options" not in own.headers
