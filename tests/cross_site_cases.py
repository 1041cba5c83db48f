"""A page of another site, in a real browser, which tries to use a server in every way that pages have."""

import contextlib
import http.server
import threading
from collections.abc import Iterator

from playwright.sync_api import Browser, BrowserContext

SCRIPT = """async ([server, page, socket, token]) => {
  const results = {};
  const attempt = async (name, act) => {
    try { results[name] = await act(); } catch (error) { results[name] = "nothing"; }
  };
  await attempt("read", async () => (await fetch(server + page, {credentials: "include"})).text());
  await attempt("sent", async () => (await fetch(server + "/api/v1/series", {
    method: "POST", mode: "no-cors", credentials: "include", body: '{"id": "foreign"}', headers: {"Content-Type": "text/plain"},
  })).type);
  await attempt("asked", async () => (await fetch(server + page, {mode: "no-cors", credentials: "include"})).type);
  await attempt("socket", () => new Promise((resolve) => {
    const opened = new WebSocket(server.replace("http", "ws") + socket, ["bokeh", token]);
    opened.onmessage = (event) => resolve("heard " + event.data);
    opened.onclose = opened.onerror = () => resolve("nothing");
  }));
  await attempt("script", () => new Promise((resolve) => {
    const script = document.createElement("script");
    script.onload = () => resolve("loaded");
    script.onerror = () => resolve("nothing");
    script.src = server + "/static/js/bokeh.min.js";
    document.head.append(script);
  }));
  await attempt("frame", () => new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.onload = () => resolve("there");
    frame.src = server + page;
    document.body.append(frame);
    setTimeout(() => resolve("nothing"), 3000);
  }));
  return results;
}"""


@contextlib.contextmanager
def other_site() -> Iterator[int]:
    """Runs another server on this machine, with one empty page; yields its port."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!DOCTYPE html><title>another site</title><body>")

        def log_message(self, format: str, *args: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def attack_from_page(
    browser: Browser | BrowserContext, at: str, server: str, page: str, socket: str, token: str
) -> tuple[dict[str, str], str]:
    """What a page at the address `at` gets from a server, and the address of the frame in which it shows the server's page."""
    attacker = browser.new_page()
    attacker.goto(at)
    results = attacker.evaluate(SCRIPT, [server, page, socket, token])
    (frame,) = [frame for frame in attacker.frames if frame != attacker.main_frame]
    while not frame.url:  # the browser is still loading it
        attacker.wait_for_timeout(50)
    frame_url = frame.url
    attacker.close()
    return results, frame_url
