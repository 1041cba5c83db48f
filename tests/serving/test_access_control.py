"""Access control of real servers, with and without a token; pages of other sites in a real browser, and raw requests."""

import random
import re
import shutil
import time

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from cross_site_cases import attack_from_page, other_site
from fuzzing import hostile
from fuzzing.hostile import SECRET, Attack
from fuzzing.outcomes import REFUSED, RIGHT, outcome
from fuzzing.servers import API, Server, started
from odeprocess.serving.http.allowed_origins import AllowedOrigins
from odeprocess.serving.http.authentication import COOKIE_LIFETIME, PlaygroundPaths, TokenAuthentication
from odeprocess.serving.http.errors import ApiError
from server_cases import error_of

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def without_token(tmp_path_factory):
    with started(tmp_path_factory.mktemp("open")) as server:
        yield server


@pytest.fixture(scope="module")
def with_token(tmp_path_factory):
    with started(tmp_path_factory.mktemp("with_token"), "--no-warm", token=SECRET) as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def client(server: Server, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{server.port}", headers=headers, timeout=60.0)


def token_of(page: httpx.Response) -> str:
    """The token with which a page opens its WebSocket."""
    assert page.status_code == 200, page.text[:300]
    return re.search(r'"token":"([^"]+)"', page.text)[1]  # pyright: ignore[reportOptionalSubscript]


def opened(server: Server, token: str, **headers: str) -> str:
    """The first message of a WebSocket, or the status of its refusal."""
    origin = headers.pop("Origin", None)
    try:
        with connect(
            f"ws://127.0.0.1:{server.port}/play/ws",
            subprotocols=["bokeh", token],  # type: ignore[list-item]
            origin=origin,  # type: ignore[arg-type]
            additional_headers=headers,
        ) as socket:
            return str(socket.recv(30))
    except InvalidStatus as refused:
        assert b'"error"' in (refused.response.body or b"")
        return str(refused.response.status_code)


def test_only_own_pages_and_host_names_are_accepted(without_token):
    own = f"http://127.0.0.1:{without_token.port}"
    with client(without_token) as ask:
        token = token_of(ask.get("/play", headers={"Origin": own}))
        assert "ACK" in opened(without_token, token, Origin=own)
        for origin in ("http://evil.example", f"http://localhost:{without_token.port}", f"{own}0", f"https{own[4:]}", "null", ""):
            assert opened(without_token, token, Origin=origin) == "403"
            for method, path in (("GET", "/play"), ("POST", f"{API}/series"), ("DELETE", f"{API}/series/x"), ("GET", "/health")):
                refused = ask.request(method, path, headers={"Origin": origin})
                assert refused.status_code == 403 and error_of(refused)["code"] == "origin"
        for host in ("evil.example", f"evil.example:{without_token.port}", "127.0.0.1.evil.example", ""):  # DNS that points here
            for path in ("/play", f"{API}/models", "/health", "/static/js/bokeh.min.js"):
                refused = ask.get(path, headers={"Host": host, "Origin": f"http://{host}"})
                assert refused.status_code == 400 and error_of(refused)["code"] == "host"
        frame = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
        assert ask.get("/play", headers=frame).status_code == 403
        assert ask.get("/health", headers={**frame, "Sec-Fetch-Dest": "document"}).status_code == 200  # a link leads here
        answer = ask.get("/play")
        assert (
            "frame-ancestors 'none'" in answer.headers["content-security-policy"] and answer.headers["x-frame-options"] == "DENY"
        )
        assert answer.headers["cache-control"] == "no-store"


def test_a_websocket_needs_the_token_of_an_open_page(without_token):
    with client(without_token) as ask:
        token = token_of(ask.get("/play"))
        head, _, rest = token.partition(".")
        for wrong in (head, f"{head}.{rest[:-2]}", f"{head[:-2]}.{rest}", "e30", "x.y", "." * 50):
            assert opened(without_token, wrong) == "404"
        assert ask.get("/play", params={"bokeh_session_id": "mine"}).status_code == 200
        assert "mine" not in ask.get("/play", params={"bokeh_session_id": "mine"}).text
        for module in ("antigravity", "this", "..", "os"):  # nothing is imported because an address names it
            assert ask.get(f"/components/{module}/a/b/c").status_code == 404


def test_the_link_with_the_token_sets_a_cookie_that_scripts_cannot_read(with_token):
    with client(with_token) as ask:
        assert ask.get("/play", headers={"Accept": "text/html"}).status_code == 401
        assert error_of(ask.get("/play"))["code"] == "unauthorised"
        assert ask.get("/play?token=wrong").status_code == 401
        exchanged = ask.get(with_token.link)
        assert exchanged.status_code == 303 and exchanged.headers["location"] == "/play"
        assert exchanged.headers["cache-control"] == "no-store" and exchanged.headers["referrer-policy"] == "no-referrer"
        name, value = exchanged.headers["set-cookie"].split(";")[0].split("=", 1)
        attributes = {each.strip().lower() for each in exchanged.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/", f"max-age={COOKIE_LIFETIME}"} <= attributes
        page = ask.get("/play")
        assert value not in page.text and SECRET not in page.text and SECRET not in value
        assert value.split(".")[0] not in page.text
        assert ask.get("/static/js/bokeh.min.js").status_code == 200
        assert "ACK" in opened(with_token, token_of(page), Cookie=f"{name}={value}")
        assert ask.get(f"{API}/models").status_code == 401, "the cookie opens the page, and nothing else"
        ask.cookies.clear()
        assert opened(with_token, token_of(page)) == "401"
        assert opened(with_token, token_of(page), Cookie=f"{name}={value[:-1]}") == "401"
        assert ask.get("/static/js/bokeh.min.js").status_code == 401
        assert ask.get("/play", headers={"Authorization": f"Bearer {SECRET}"}).status_code == 200
    said = with_token.log.read_text()
    assert said.count("token=") == 1 and SECRET not in said


def test_cookies_expire_and_are_valid_until_the_server_stops():
    pages = PlaygroundPaths("/play")

    def asked(token: TokenAuthentication, query: bytes = b"", cookie: str = ""):
        headers = [(b"host", b"localhost:8000"), (b"cookie", cookie.encode())]
        return token.refusal({"type": "http", "method": "GET", "path": "/play", "query_string": query, "headers": headers}, pages)

    token = TokenAuthentication("secret", secure=True)
    given = asked(token, b"token=secret").headers["set-cookie"]
    assert "Secure" in given
    cookie = given.split(";")[0]
    assert asked(token, cookie=cookie) is None
    assert asked(TokenAuthentication("secret"), cookie=cookie).status_code == 401
    now = time.time()
    token._signer.get_timestamp = lambda: int(now) + COOKIE_LIFETIME + 1  # type: ignore[method-assign]
    assert asked(token, cookie=cookie).status_code == 401


@pytest.mark.parametrize(
    ("public", "host", "origin", "good"),
    [
        ("https://models.example.org", "models.example.org", "https://models.example.org", True),
        ("https://models.example.org:443", "127.0.0.1:8000", "https://models.example.org", True),
        ("https://models.example.org", "models.example.org", "https://evil.example", False),
        ("https://models.example.org", "models.example.org", "https://models.example.org.evil.example", False),
        ("https://models.example.org", "models.example.org", "https://models.example.org:444", False),
        (None, "LOCALHOST:80", "http://localhost", True),
        (None, "[::1]:8000", "http://[::1]:8000", True),
        (None, "localhost", "https://localhost", False),
    ],
)
def test_behind_a_proxy_the_public_origin_is_the_servers_own(public, host, origin, good):
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    scope = {"type": "http", "scheme": "http", "method": "POST", "headers": headers}
    origins = AllowedOrigins(() if public is None else None, public)
    if good:
        origins.check(scope)
    else:
        with pytest.raises(ApiError, match="another site"):
            origins.check(scope)


@pytest.mark.parametrize("public", ["models.example.org", "ftp://x", "https://x/path", "https://a b", "https://"])
def test_an_invalid_public_address_is_an_error(public):
    with pytest.raises(ValueError, match="expected one such as https"):
        AllowedOrigins(None, public)


def test_a_page_of_another_site_gets_nothing(without_token, with_token, browser):
    with other_site() as port, browser.new_context() as context:
        visited = context.new_page()
        visited.goto(with_token.link)
        visited.locator("canvas").first.wait_for()
        assert visited.url == f"http://127.0.0.1:{with_token.port}/play"
        (cookie,) = [each for each in context.cookies() if each["name"].startswith("odeprocess-") and each["httpOnly"]]
        assert cookie["sameSite"] == "Strict" and cookie["value"] not in visited.evaluate("document.cookie")
        with client(with_token, Cookie=f"{cookie['name']}={cookie['value']}") as ask:
            tokens = {with_token: token_of(ask.get("/play"))}
        with client(without_token) as ask:
            tokens[without_token] = token_of(ask.get("/play"))
        for at in (f"http://127.0.0.1:{port}/", f"http://localhost:{port}/"):  # of one site with the cookie, and of another
            for server, token in tokens.items():
                came, frame = attack_from_page(context, at, f"http://127.0.0.1:{server.port}", "/play", "/play/ws", token)
                assert came.pop("frame") in ("there", "nothing") and frame.startswith("chrome-error:")
                assert came.pop("sent") == came.pop("asked") == "nothing", "not even an answer that cannot be read"
                assert set(came.values()) == {"nothing"}, came
        with client(without_token) as ask:
            assert ask.get(f"{API}/series/foreign").status_code == 404


def test_the_page_works_with_a_token(with_token, browser):
    with browser.new_context() as context:
        page, trouble = context.new_page(), []
        page.set_default_timeout(120_000)
        page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
        page.goto(with_token.link)
        page.get_by_text("No observations yet").wait_for()
        page.get_by_label("New observation, time").fill("0.5")
        page.get_by_label("New observation, y").fill("0.1")
        page.get_by_role("button", name="Add this observation").press("Enter")
        page.get_by_role("status").filter(has_text="1 observation").wait_for()
        assert not trouble
        page.reload()
        page.get_by_text("No observations yet").wait_for()


def test_hostile_requests_are_answered_or_refused(without_token, with_token):
    attack = Attack(random.Random(1), without_token, with_token)
    attack.client.ask("POST", f"{API}/series", body=b'{"id": "s0"}')
    attack.counts["s0"] = 0
    for _ in range(100):  # what is compiled on the way takes a while
        outcome(attack.attempt)
    found = hostile._counted(attack.attempt, (without_token, with_token), 400)
    attack.close()
    assert set(found) == {RIGHT, REFUSED}, found
