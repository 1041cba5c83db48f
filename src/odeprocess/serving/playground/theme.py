"""The colours of the plots, light and dark. The same colours of the HTML are in `assets/page.css`."""

from importlib import resources
from typing import Any

PALETTES = {
    "light": {
        "ink": "#1b1f24",
        "muted": "#59636e",
        "line": "#c9d0d7",
        "grid": "#edf0f2",
        "page": "#ffffff",
        "first": "#0b6e99",
        "second": "#c2571a",
        "third": "#3d7d3a",
        "suggestion": "#8a4f9e",
    },
    "dark": {
        "ink": "#e8ebee",
        "muted": "#9aa5b1",
        "line": "#3d4752",
        "grid": "#232a32",
        "page": "#14181d",
        "first": "#5bb8e0",
        "second": "#f0a36b",
        "third": "#86c982",
        "suggestion": "#cba3db",
    },
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def asset(name: str) -> str:
    """The text of a file in `assets/`."""
    return resources.files("odeprocess.serving.playground").joinpath("assets", name).read_text(encoding="utf-8")


def format_number(x: float) -> str:
    """A number with three digits and a typographic minus."""
    return f"{x:.3g}".replace("-", "−")


class Theme:
    """The colours of a page's Bokeh models; it lists them, so that all can change at once.

    Attributes:
        name: `"light"` or `"dark"`.
    """

    def __init__(self, name: str):
        """Starts without models."""
        self.name, self._coloured = name, []

    def colour(self, model: Any, **colours: str) -> None:
        """Sets colours of a model: `colour(title, text_color="ink")`."""
        for field, colour in colours.items():
            self._coloured.append((model, field, colour))
            setattr(model, field, PALETTES[self.name][colour])

    def switch(self, name: str) -> None:
        """Changes all colours to those of another theme."""
        self.name = name
        for model, field, colour in self._coloured:
            setattr(model, field, PALETTES[name][colour])

    def clear(self) -> None:
        """Forgets all models, because they are no longer on the page."""
        self._coloured = []
