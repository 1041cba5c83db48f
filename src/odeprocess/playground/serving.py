"""The playground inside a FastAPI application; every script and style comes from this server."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .gallery import Gallery

MISSING = "The playground needs Panel and bokeh-fastapi: pip install 'odeprocess[play]'."


def mount(app: Any, models: Iterable[str | Path] | Gallery, path: str = "/play") -> Gallery:
    """Adds the playground to a FastAPI application.

    Arguments:
        app: the application.
        models: model folders, or a gallery of them.
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

    gallery = models if isinstance(models, Gallery) else Gallery([Path(folder) for folder in models])

    def page() -> Any:
        theme = pn.state.cookies.get("odeprocess-theme", "light")
        return Page(gallery, theme if theme == "dark" else "light").template()

    add_applications({path: page}, app=app, title="odeprocess playground")
    return gallery
