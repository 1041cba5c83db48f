"""The playground in a real browser with a real server: no request to another site, and nothing on the console."""

import math
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest

from cross_site_cases import attack_from_page, other_site
from playground_cases import ATTACKS, odd_folder, prey_folder, sines_folder
from server_cases import error_of

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which is not installed here"),
]
LONGEST = 120_000  # milliseconds that one step may take, on a busy machine
WIDTH = re.compile(r"the 90 % band is ([\d.e−]+) wide")


@pytest.fixture(scope="module")
def address(sines_model, tmp_path_factory):
    """The address of a server in a process of its own, as a user starts it."""
    root = tmp_path_factory.mktemp("models")
    folders = [sines_folder(sines_model, root), prey_folder(root), odd_folder(root)]
    command = [sys.executable, "-m", "odeprocess", "play", *map(str, folders), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            said = ""
            while "http://" not in said:
                said = server.stderr.readline()
                assert said, "the server ended before it said where it is"
            yield re.search(r"http://\S+/", said)[0]
        finally:
            server.terminate()
            server.communicate(timeout=20)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def opened(browser, address, **options):
    """Opens a page; at the end it must not have contacted other sites or written to the console."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    elsewhere, trouble = [], []

    def watch(route):
        if route.request.url.startswith(address):
            route.continue_()
        else:
            elsewhere.append(route.request.url)
            route.abort()

    context.route("**/*", watch)
    page = context.new_page()
    page.set_default_timeout(LONGEST)
    page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.goto(address)
    page.locator("canvas").first.wait_for()
    page.get_by_text("No observations yet").wait_for()
    yield page
    context.close()
    assert not elsewhere and not trouble


SPOT = """([t, y, number]) => {
  const view = [...Bokeh.index.all_views()].filter((each) => each.model.type === "Figure")[number];
  const box = view.canvas_view.events_el.getBoundingClientRect();
  return [box.left + view.frame.x_scale.compute(t), box.top + view.frame.y_scale.compute(y)];
}"""


def spot(page, t, y, number=0):
    """The place on the screen of a time and a value, in one of the plots."""
    return page.evaluate(SPOT, [t, y, number])


def band(page, count):
    """The width of the band in the status line, once it shows so many observations."""
    status = page.get_by_role("status")
    status.filter(has_text=re.compile(rf"^{count or 'No'} observation")).wait_for()
    return float(WIDTH.search(status.inner_text())[1].replace("−", "-"))


def wait_until(page, law):
    """Until the page has caught up."""
    for _ in range(LONGEST // 50):
        if law():
            return
        page.wait_for_timeout(50)
    assert law()


FIVE = [(t, 0.7 * math.sin(t)) for t in (-2.8, -1.4, 0.0, 1.4, 2.8)]


def test_points_are_added_dragged_deleted_and_undone(address, browser):
    with opened(browser, address) as page:
        widths = [band(page, 0)]
        for i, where in enumerate(FIVE):
            page.mouse.click(*spot(page, *where))
            widths.append(band(page, i + 1))
        assert widths[-1] < 0.7 * widths[0]

        cell = page.get_by_label("Observation 5, time")
        before = float(cell.input_value())
        page.mouse.move(*spot(page, *FIVE[-1]))
        page.mouse.down()
        page.mouse.move(*spot(page, 2.5, 0.4), steps=4)
        page.mouse.move(*spot(page, 2.2, 0.5), steps=4)
        page.mouse.up()
        wait_until(page, lambda: float(cell.input_value()) < before - 0.3)

        page.get_by_role("button", name="Undo").click()
        wait_until(page, lambda: float(cell.input_value()) == before)
        assert band(page, 5) == widths[-1]

        page.mouse.click(*spot(page, *FIVE[0]))
        page.keyboard.press("Delete")
        band(page, 4)
        page.mouse.dblclick(*spot(page, *FIVE[1]))
        band(page, 3)
        page.get_by_role("button", name="Clear").click()
        page.get_by_text("No observations yet").wait_for()


def test_suggestion_file_model_and_downloads(address, browser, tmp_path):
    with opened(browser, address) as page:
        page.mouse.click(*spot(page, *FIVE[0]))
        band(page, 1)
        page.get_by_role("button", name="Suggest the next point").click()
        page.get_by_text(re.compile("Measure next at time")).wait_for()

        files = page.locator("input[type=file]")
        files.set_input_files({"name": "bad.csv", "mimeType": "text/csv", "buffer": b"t,y\n1,2\n3,x\n"})
        page.get_by_role("alert").filter(has_text="Row 3, column y: 'x' is not a number.").wait_for()
        files.set_input_files({"name": "good.csv", "mimeType": "text/csv", "buffer": b"t,y\n-2,-0.5\n0,0\n2,0.5\n"})
        band(page, 3)
        assert page.get_by_role("alert").count() == 0
        page.get_by_text("Loaded 3 observations.").wait_for()

        for name, kind in (("Figure (PNG)", b"\x89PNG"), ("Python code", b'"""Predictions of the model')):
            with page.expect_download(timeout=60_000) as waited:
                page.get_by_role("link", name=name).or_(page.get_by_role("button", name=name)).first.click()
            waited.value.save_as(tmp_path / "saved")
            assert (tmp_path / "saved").read_bytes().startswith(kind)

        page.get_by_label("Model", exact=True).select_option("Predators and prey")
        page.get_by_text("No observations yet").wait_for()
        assert page.locator(".bk-events").count() == 3  # two channels and a phase portrait
        page.mouse.click(*spot(page, 0.7, 0.9, number=1))
        status = page.get_by_role("status").filter(has_text="1 observation: the 90 % band of prey")
        status.wait_for()
        assert page.get_by_label("Observation 1, prey").input_value() == ""
        page.get_by_label("Model", exact=True).select_option("Sines")
        band(page, 3)


def test_only_own_pages_and_host_names_are_accepted(address, browser):
    """And nothing but the page is served: no OpenAPI document, no module that an address names."""
    port = address.rsplit(":", 1)[1].strip("/")
    with httpx.Client(base_url=address, timeout=LONGEST / 1000) as ask:
        page = ask.get("/", headers={"Origin": address.rstrip("/")})
        token = re.search(r'"token":"([^"]+)"', page.text)[1]
        for path in ("/docs", "/redoc", "/openapi.json", "/components/antigravity/a/b/c", "/nowhere"):
            assert error_of(ask.get(path))["code"] == "not_found"
        for path in ("/", "/docs", "/static/js/bokeh.min.js"):
            assert error_of(ask.get(path, headers={"Host": f"evil.example:{port}"}))["code"] == "host"
            assert error_of(ask.get(path, headers={"Origin": "http://evil.example"}))["code"] == "origin"
    with other_site() as other:
        for at in (f"http://localhost:{other}/", f"http://127.0.0.1:{other}/"):
            came, frame = attack_from_page(browser, at, address.rstrip("/"), "/", "/ws", token)
            assert came.pop("frame") in ("there", "nothing") and frame.startswith("chrome-error:")
            assert set(came.values()) == {"nothing"}, came


def test_the_table_works_by_keyboard_and_models_are_shown_side_by_side(address, browser):
    """With the keyboard only, on a phone's width, in dark colours."""
    with opened(browser, address, color_scheme="dark") as page:
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.get_by_label("New observation, time").focus()
        page.keyboard.type("-1")
        page.keyboard.press("Tab")
        page.keyboard.type("-0.5")
        page.keyboard.press("Enter")
        first = band(page, 1)
        page.get_by_label("Observation 1, y").fill("")
        page.keyboard.press("Tab")
        page.get_by_role("alert").filter(has_text="no value at all").wait_for()
        page.get_by_label("New observation, time").fill("2")
        page.get_by_label("New observation, y").fill("0.5")
        page.get_by_role("button", name="Add this observation").press("Enter")
        assert band(page, 2) != first
        page.get_by_label("Neural process", exact=True).check()
        page.wait_for_function("() => [...Bokeh.index.all_views()].filter(v => v.model.type === 'Figure').length === 2")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("button", name="Delete observation 1").press("Enter")
        band(page, 1)


def test_harmful_names_are_shown_and_nothing_else(address, browser, tmp_path):
    """As code, as HTML and as mathematics (which would be fetched from elsewhere)."""
    with opened(browser, address) as page:
        title = page.get_by_label("Model", exact=True).locator("option").filter(has_text="Odd").inner_text()
        page.get_by_label("Model", exact=True).select_option(title)
        page.wait_for_function("() => [...Bokeh.index.all_views()].filter(v => v.model.type === 'Figure').length === 3")
        page.mouse.click(*spot(page, 0.7, 0.9, number=1))
        page.get_by_role("status").filter(has_text="1 observation: the 90 % band of <img src=x").wait_for()
        page.get_by_role("checkbox", name="<img src=x").check()
        page.wait_for_function("() => [...Bokeh.index.all_views()].filter(v => v.model.type === 'Figure').length === 6")
        for name, ending in (("Figure (PNG)", ".png"), ("Python code", ".py")):
            with page.expect_download(timeout=LONGEST) as waited:
                page.get_by_role("link", name=name).or_(page.get_by_role("button", name=name)).first.click()
            assert re.fullmatch(rf"[\w.-]+\{ending}", waited.value.suggested_filename)
            waited.value.save_as(tmp_path / f"saved{ending}")
        assert (tmp_path / "saved.png").read_bytes().startswith(b"\x89PNG")
        assert repr(ATTACKS[0])[1:-1] in (tmp_path / "saved.py").read_text()
        page.screenshot(path=tmp_path / "page.png")
        assert page.evaluate("window.hacked") is None
        assert page.locator("img[src=x]").count() == 0
