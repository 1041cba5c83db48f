"""The playground in a FastAPI application; all scripts and styles come from the same server."""

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .model_menu import ModelMenu
from .model_view import ModelView, load_views

THEME_COOKIE = "odeprocess-theme"  # in which the page stores whether its colours are light or dark
CHECKS_PER_LIFETIME = 4  # how often closed pages are looked for in the time for which they are kept
MISSING_PACKAGES = "The playground needs Panel and bokeh-fastapi: pip install 'odeprocess[play]'."


def mount(
    app: Any,
    models: ModelMenu | Mapping[str, Any] | Iterable[str | Path],
    path: str = "/play",
    *,
    hosts: Iterable[str] = (),
    max_pages: int = 20,
    idle_seconds: float = 1800.0,
    away_seconds: float = 60.0,
) -> ModelMenu:
    """Adds the playground to a FastAPI application.

    Only pages of this server may use it, and only under the server's own host names: see `hosts`.

    Arguments:
        app: the application.
        models: model folders; or models by name, without the download of code; or a `ModelMenu`.
        path: the path of the page.
        hosts: host names of the server beside localhost and loopback addresses. Applications of `create_app` and of the commands
            have their own rules, which apply instead.
        max_pages: how many pages may be open at once.
        idle_seconds: after which an unused page is closed.
        away_seconds: for which a page is kept after its browser has disconnected.

    Returns:
        The menu of models.

    Raises:
        ImportError: if Panel is not installed.
        ValueError: if the page cannot show a model.
    """
    try:
        import panel as pn
        from panel.io.fastapi import add_applications
        from starlette.middleware import Middleware

        from odeprocess.serving.http.access_control import AccessControl
        from odeprocess.serving.http.allowed_origins import AllowedOrigins
        from odeprocess.serving.http.authentication import PlaygroundPaths

        from .page_limits import MemoryCleaner, PageLimits
    except ImportError:
        raise ImportError(MISSING_PACKAGES) from None
    from .page import Page

    if isinstance(models, Mapping):
        models = ModelMenu({str(name): ModelView.of(str(name), getattr(each, "model", each)) for name, each in models.items()})
    menu = models if isinstance(models, ModelMenu) else ModelMenu(load_views([Path(folder) for folder in models]))

    def make_page() -> Any:
        pn.state.on_session_destroyed(lambda context: cleaner.schedule())
        theme = pn.state.cookies.get(THEME_COOKIE, "light")
        return Page(menu, theme if theme == "dark" else "light").template()

    paths, cleaner, routes_before = PlaygroundPaths(path), MemoryCleaner(), list(app.routes)
    server = add_applications(
        {path: make_page},
        app=app,
        title="odeprocess playground",
        secret_key=secrets.token_bytes(32),
        sign_sessions=True,
        include_headers=[],  # Bokeh writes those that are included into the page, where scripts can read them
        include_cookies=[THEME_COOKIE],
        check_unused_sessions_milliseconds=max(1, round(1000 * away_seconds / CHECKS_PER_LIFETIME)),
        unused_session_lifetime_milliseconds=max(1, round(1000 * away_seconds)),
    )
    for route in [route for route in app.routes if route not in routes_before]:
        name = getattr(route, "path", "")
        if name.startswith("/components/"):  # imports any module that an address names; our page does not need it
            app.routes.remove(route)
        elif name == path:
            route.include_in_schema = False  # a page is no part of the API
    limits = Middleware(PageLimits, server=server, home=path, max_pages=max_pages, idle_seconds=idle_seconds)  # type: ignore[arg-type]
    app.user_middleware.append(limits)  # appended, so that it is inside the access control, which may be added before or after
    if not any(middleware.cls is AccessControl for middleware in app.user_middleware):
        app.add_middleware(AccessControl, origins=AllowedOrigins(hosts), only={path, paths.websocket})  # type: ignore[arg-type]
    app.state.playground_paths = paths
    return menu


def create_app(menu: ModelMenu) -> Any:
    """Returns an application that serves the playground alone, at `/`, to this machine."""
    from fastapi import FastAPI

    from odeprocess.serving.http.access_control import AccessControl
    from odeprocess.serving.http.allowed_origins import AllowedOrigins
    from odeprocess.serving.http.errors import add_error_handlers

    app = FastAPI(title="odeprocess playground", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    add_error_handlers(app)
    app.add_middleware(AccessControl, origins=AllowedOrigins())  # type: ignore[arg-type]
    mount(app, menu, path="/")
    return app
