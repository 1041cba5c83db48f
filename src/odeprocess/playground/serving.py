"""The playground inside a FastAPI application; every script and style comes from this server."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .exhibit import Exhibit, gather
from .gallery import Gallery

MISSING = "The playground needs Panel and bokeh-fastapi: pip install 'odeprocess[play]'."


def mount(app: Any, models: Gallery | Mapping[str, Any] | Iterable[str | Path], path: str = "/play") -> Gallery:
    """Adds the playground to a FastAPI application.

    Arguments:
        app: the application.
        models: model folders; or models by name, of which no code can be saved; or a gallery.
        path: where the page lives.

    Returns:
        The gallery.

    Raises:
        ImportError: where Panel is not installed.
        ValueError: where a page cannot show a model.
    """
    try:
        import panel as pn
        from panel.io.fastapi import add_applications
    except ImportError:
        raise ImportError(MISSING) from None
    from .page import Page

    if isinstance(models, Mapping):
        models = Gallery({str(name): Exhibit.of(str(name), getattr(each, "model", each)) for name, each in models.items()})
    gallery = models if isinstance(models, Gallery) else Gallery(gather([Path(folder) for folder in models]))

    def page() -> Any:
        theme = pn.state.cookies.get("odeprocess-theme", "light")
        return Page(gallery, theme if theme == "dark" else "light").template()

    add_applications({path: page}, app=app, title="odeprocess playground")
    for route in app.routes:
        if getattr(route, "path", "").rstrip("/") == path:
            route.include_in_schema = False  # a page for people, which the document of the interface does not describe
    return gallery
