"""The playground inside a FastAPI application; every script and style comes from this server."""

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .model_menu import ModelMenu
from .model_view import ModelView, load_views

THEME = "odeprocess-theme"  # the cookie in which the page keeps its colours
MISSING = "The playground needs Panel and bokeh-fastapi: pip install 'odeprocess[play]'."


def mount(
    app: Any,
    models: ModelMenu | Mapping[str, Any] | Iterable[str | Path],
    path: str = "/play",
    *,
    hosts: Iterable[str] = (),
    visitors: int = 20,
    idle: float = 1800.0,
    away: float = 60.0,
) -> ModelMenu:
    """Adds the playground to a FastAPI application.

    Only pages of this server may use it, and only under its own names: see `hosts`.

    Arguments:
        app: the application.
        models: model folders; or models by name, of which no code can be saved; or a gallery.
        path: where the page lives.
        hosts: names that the server is called by, beside those of this machine for itself. `create_app` and the commands have
            rules of their own, which count instead.
        visitors: pages that may be open at once.
        idle: seconds after which a page ends on which nothing has been done.
        away: seconds for which a page is kept whose browser does not answer.

    Returns:
        The gallery.

    Raises:
        ImportError: where Panel is not installed.
        ValueError: where a page cannot show a model.
    """
    try:
        import panel as pn
        from panel.io.fastapi import add_applications
        from starlette.middleware import Middleware

        from odeprocess.serving.http.access_control import Guard
        from odeprocess.serving.http.allowed_origins import Origins
        from odeprocess.serving.http.authentication import Pages

        from .page_limits import LeftPages, PageSessions
    except ImportError:
        raise ImportError(MISSING) from None
    from .page import Page

    if isinstance(models, Mapping):
        models = ModelMenu({str(name): ModelView.of(str(name), getattr(each, "model", each)) for name, each in models.items()})
    gallery = models if isinstance(models, ModelMenu) else ModelMenu(load_views([Path(folder) for folder in models]))

    def page() -> Any:
        pn.state.on_session_destroyed(lambda context: leavings.clear_soon())
        theme = pn.state.cookies.get(THEME, "light")
        return Page(gallery, theme if theme == "dark" else "light").template()

    pages, leavings, before = Pages(path), LeftPages(), list(app.routes)
    server = add_applications(
        {path: page},
        app=app,
        title="odeprocess playground",
        secret_key=secrets.token_bytes(32),
        sign_sessions=True,
        include_headers=[],  # what is included stands in the page, where a script could read it
        include_cookies=[THEME],
        check_unused_sessions_milliseconds=max(1, round(250 * away)),
        unused_session_lifetime_milliseconds=max(1, round(1000 * away)),
    )
    for route in [route for route in app.routes if route not in before]:
        name = getattr(route, "path", "")
        if name.startswith("/components/"):  # imports whatever module an address names, and no page of ours needs it
            app.routes.remove(route)
        elif name == path:
            route.include_in_schema = False  # a page for people, which the document of the interface does not describe
    visits = Middleware(PageSessions, server=server, home=path, most=visitors, idle=idle)  # type: ignore[arg-type]
    app.user_middleware.append(visits)  # within the guard, whichever of them comes first
    if not any(middleware.cls is Guard for middleware in app.user_middleware):
        app.add_middleware(Guard, origins=Origins(hosts), only={path, pages.socket})  # type: ignore[arg-type]
    app.state.pages = pages
    return gallery


def alone(gallery: ModelMenu) -> Any:
    """An application that is the playground and nothing else, for this machine."""
    from fastapi import FastAPI

    from odeprocess.serving.http import errors
    from odeprocess.serving.http.access_control import Guard
    from odeprocess.serving.http.allowed_origins import Origins

    app = FastAPI(title="odeprocess playground", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    errors.install(app)
    app.add_middleware(Guard, origins=Origins())  # type: ignore[arg-type]
    mount(app, gallery, path="/")
    return app
