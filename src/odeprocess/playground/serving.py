"""The playground inside a FastAPI application; every script and style comes from this server."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .exhibit import Exhibit, gather

MISSING = "The playground needs Panel and bokeh-fastapi: pip install 'odeprocess[play]'."


def mount(app: Any, models: Iterable[str | Path] | dict[str, Exhibit], path: str = "/play") -> dict[str, Exhibit]:
    """Adds the playground to a FastAPI application.

    Arguments:
        app: the application.
        models: model folders, or exhibits by title.
        path: where the page lives.

    Returns:
        The exhibits by title.
    """
    try:
        import panel as pn
        from panel.io.fastapi import add_applications
    except ImportError:
        raise ImportError(MISSING) from None
    from .page import Page

    exhibits = models if isinstance(models, dict) else gather([Path(folder) for folder in models])

    def page() -> Any:
        theme = pn.state.cookies.get("odeprocess-theme", "light")
        return Page(exhibits, theme if theme == "dark" else "light").template()

    pn.config.design = pn.theme.Native
    add_applications({path: page}, app=app, title="odeprocess playground")
    return exhibits
