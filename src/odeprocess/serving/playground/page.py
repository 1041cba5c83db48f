"""The page: Panel's controls around Bokeh's plots, and a `Session` behind them."""

import asyncio
from typing import Any
from urllib.parse import quote

import panel as pn
from bokeh.models import ColumnDataSource, CustomJS

from .bokeh_plots import Plots
from .status_text import band_widths
from .model_menu import ModelMenu
from .model_view import GAUSSIAN
from .predictions import Prediction
from .page_state import Session
from .theme import Painter, asset, number
from .widgets import Controls, Texts

PAUSE = 150  # milliseconds after the last change, before what takes longer begins
NEWS = 1000  # milliseconds between two looks at what is being trained


class Page:
    """What one visitor sees."""

    def __init__(self, gallery: ModelMenu, theme: str = "light"):
        """A page for a new visitor."""
        self.gallery, self.session, self.painter = gallery, Session(gallery.views), Painter(theme)
        self.gestures, self.texts = ColumnDataSource(data={}, name="gestures"), Texts()
        self.controls = Controls(self.session, self)
        self.stage = pn.Column(sizing_mode="stretch_width", margin=0)
        self.doc: Any = pn.state.curdoc
        self._pause, self._revision = None, 0
        self.gestures.on_change("data", lambda attribute, old, new: self._gesture(new))
        self.build()

    def template(self) -> Any:
        """The HTML page."""
        page = pn.Template(asset("page.html"))
        page.add_variable("css", asset("page.css"))
        page.add_variable("logo", asset("logo.svg").replace("<svg ", '<svg width="28" height="28" aria-hidden="true" '))
        for name, part in {**self.controls.parts, **self.texts.parts, "plots": self.stage}.items():
            page.add_panel(name, part)
        page.add_variable("icon", f"data:image/svg+xml,{quote(asset('logo.svg'))}")
        if self.gallery.news:
            self._news = pn.state.add_periodic_callback(self._arrivals, NEWS)
        if self.doc is not None:
            args = {"gestures": self.gestures, "drawn": self.painter.theme}
            self.doc.js_on_event("document_ready", CustomJS(args=args, code=asset("page_setup.js")))
        return page

    def build(self) -> None:
        """Plots for the view on show and what is beside it."""
        session = self.session
        self.plots = Plots(session.view, list(session.columns()), self.painter, self.gestures)
        columns = [
            pn.Column(*(_pane(fig) for fig in c.figures), margin=0, sizing_mode="stretch_width") for c in self.plots.columns
        ]
        phases = [_pane(c.phase) for c in self.plots.columns if c.phase is not None]
        across = "minmax(0, 3fr) minmax(0, 2fr)" if phases and len(columns) == 1 else f"repeat({len(columns)}, minmax(0, 1fr))"
        self.stage.stylesheets = [asset("plots.css").replace("ACROSS", across)]
        self.stage[:] = [*columns, *phases]
        self.refresh()

    def refresh(self, *, points: bool = True) -> None:
        """Asks the models anew and draws what they say; `points=False` while the browser moves a point by itself."""
        session, self._revision = self.session, self._revision + 1
        found = session.predictions()
        t, y = session.shown()
        with pn.io.hold():
            self.plots.make_room(list(found.values()), y)
            self.plots.suggest(None)
            if points:
                self.plots.show_points(t, y)
            self._draw(found)
            self.controls.show(t, y)
        self._later()

    def attempt(self, action: Any, *, points: bool = True) -> None:
        """Does what a user asked and shows what came of it and what it says; or says why not, and changes nothing."""
        before = self.session.state()
        try:
            said = action()
            self.refresh(points=points)
        except ValueError as error:
            self.session.restore(before)
            self.texts.complain(str(error))
            self.refresh()
            return
        self.texts.complain("")
        if isinstance(said, str):
            self.texts.tell(said)

    def suggest(self) -> None:
        """Draws when to measure next."""
        t = self.session.suggestion()
        self.plots.suggest(t)
        self.texts.tell(f"Measure next at {self.session.view.time} = {number(t)}: there one more observation tells most.")

    def program(self) -> str:
        """A program that draws what is shown."""
        return self.session.program(self._ranges())

    def picture(self) -> bytes:
        """What is shown, as a PNG file."""
        return self.session.picture(self._ranges())

    def _ranges(self) -> list[tuple[float, float]]:
        return [(float(r.start), float(r.end)) for r in self.plots.y_ranges]

    def _draw(self, found: dict[str, Prediction]) -> None:
        titles, session = list(self.session.columns()), self.session
        for title, each in found.items():
            self.plots.columns[titles.index(title)].show(each, session.settings.draws, session.view.channels)
        first = found.get(titles[0])
        if first is not None:
            self.texts.describe(band_widths(session, first))

    def _later(self) -> None:
        """What takes longer (refinement, a Gaussian process) waits until the user pauses."""
        settings = self.session.settings
        if self.doc is None or not (settings.refine or GAUSSIAN in settings.beside):
            return
        if self._pause is not None:
            self.doc.remove_timeout_callback(self._pause)
        self._pause = self.doc.add_timeout_callback(self._work, PAUSE)

    async def _work(self) -> None:
        self._pause, asked, session = None, self._revision, self.session
        self.texts.work("working it out …")
        try:
            if session.settings.refine:
                found = await asyncio.to_thread(session.predictions, refine=True)
                self._when_current(asked, found)
            if GAUSSIAN in session.settings.beside:
                found = await asyncio.to_thread(session.baseline)
                self._when_current(asked, {GAUSSIAN: found})
        except (ValueError, ImportError) as error:
            self.texts.complain(str(error))
        if asked == self._revision:
            self.texts.work("refined" if session.settings.refine and len(session.observations) else "")

    def _arrivals(self) -> None:
        """More models may have been trained since."""
        self.session.views = self.gallery.views
        self.controls.offer(self.gallery.views, self.gallery.news)
        if not self.gallery.news:
            self._news.stop()

    def _when_current(self, asked: int, found: dict[str, Prediction]) -> None:
        if asked == self._revision:
            with pn.io.hold():
                self._draw(found)

    def _gesture(self, data: dict[str, Any]) -> None:
        """What a user did in a plot."""
        kind, channel, place, t, y = (data[name][0] for name in ("kind", "channel", "place", "t", "y"))
        session = self.session
        if kind in ("light", "dark"):
            with pn.io.hold():
                self.painter.switch(kind)
        elif kind == "add":
            self.attempt(lambda: session.add(channel, t, y))
        elif kind == "select":
            self.controls.select(place)
        elif kind == "grab":
            session.observations.remember()
        elif kind == "move":
            self.attempt(lambda: session.move(place, t, channel, y), points=False)
        elif kind == "drop":
            self.attempt(lambda: session.move(place, t, channel, y))
        elif kind == "delete":
            self.attempt(lambda: session.observations.delete(place))
        elif kind == "delete-selected":
            self.controls.delete_selected()


def _pane(fig: Any) -> Any:
    return pn.pane.Bokeh(fig, sizing_mode="stretch_width", margin=0)
