"""Colours, light and dark. What is drawn by Bokeh is painted here; what is HTML takes the same from `assets/page.css`."""

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


def number(x: float) -> str:
    """Three digits, with a proper sign."""
    return f"{x:.3g}".replace("-", "−")


class Painter:
    """Remembers which property of which Bokeh model has which colour, so that all can change at once."""

    def __init__(self, theme: str):
        """A painter for `"light"` or `"dark"`."""
        self.theme, self._jobs = theme, []

    def paint(self, model: Any, **colours: str) -> None:
        """Gives properties of a model their colours: `paint(title, text_color="ink")`."""
        for name, colour in colours.items():
            self._jobs.append((model, name, colour))
            setattr(model, name, PALETTES[self.theme][colour])

    def switch(self, theme: str) -> None:
        """Paints everything anew."""
        self.theme = theme
        for model, name, colour in self._jobs:
            setattr(model, name, PALETTES[theme][colour])

    def forget(self) -> None:
        """What was painted so far is gone from the page."""
        self._jobs = []
