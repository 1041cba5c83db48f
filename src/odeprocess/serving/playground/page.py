"""The page: Panel widgets around Bokeh plots, which show a `PageState`."""

import asyncio
from typing import Any
from urllib.parse import quote

import panel as pn
from bokeh.models import ColumnDataSource, CustomJS

from .bokeh_plots import Plots
from .model_menu import ModelMenu
from .model_view import GAUSSIAN_PROCESS
from .page_state import PageState
from .predictions import Prediction
from .status_text import describe_bands
from .theme import Theme, asset, format_number
from .widgets import Controls, Messages

PAUSE = 150  # milliseconds after the last change until slow predictions start; chosen by hand
PROGRESS_INTERVAL = 1000  # milliseconds between updates about models that are being trained; chosen by hand
NARROW, WIDE = "minmax(0, 2fr)", "minmax(0, 3fr)"  # columns of a CSS grid: the phase portrait, and the channels


class Page:
    """One open page."""

    def __init__(self, menu: ModelMenu, theme: str = "light"):
        """Makes a page without observations."""
        self.menu, self.state, self.theme = menu, PageState(menu.views), Theme(theme)
        self.gestures, self.messages = ColumnDataSource(data={}, name="gestures"), Messages()
        self.controls = Controls(self.state, self)
        self.plot_grid = pn.Column(sizing_mode="stretch_width", margin=0)
        self.doc: Any = pn.state.curdoc
        self._pause_timer, self._revision = None, 0
        self.gestures.on_change("data", lambda attribute, old, new: self._handle_gesture(new))
        self.build()

    def template(self) -> Any:
        """The HTML page."""
        page = pn.Template(asset("page.html"))
        page.add_variable("css", asset("page.css"))
        page.add_variable("logo", asset("logo.svg").replace("<svg ", '<svg width="28" height="28" aria-hidden="true" '))
        for name, part in {**self.controls.parts, **self.messages.parts, "plots": self.plot_grid}.items():
            page.add_panel(name, part)
        page.add_variable("icon", f"data:image/svg+xml,{quote(asset('logo.svg'))}")
        if self.menu.progress:
            self._progress_timer = pn.state.add_periodic_callback(self._update_menu, PROGRESS_INTERVAL)
        if self.doc is not None:
            args = {"gestures": self.gestures, "drawn": self.theme.name}
            self.doc.js_on_event("document_ready", CustomJS(args=args, code=asset("page_setup.js")))
        return page

    def build(self) -> None:
        """Makes the plots of the chosen model and of those beside it."""
        state = self.state
        self.plots = Plots(state.view, list(state.columns()), self.theme, self.gestures)
        columns = [
            pn.Column(*(_pane(fig) for fig in c.figures), margin=0, sizing_mode="stretch_width") for c in self.plots.columns
        ]
        phases = [_pane(c.phase) for c in self.plots.columns if c.phase is not None]
        grid = f"{WIDE} {NARROW}" if phases and len(columns) == 1 else f"repeat({len(columns)}, minmax(0, 1fr))"
        self.plot_grid.stylesheets = [asset("plots.css").replace("COLUMNS", grid)]
        self.plot_grid[:] = [*columns, *phases]
        self.refresh()

    def refresh(self, *, points: bool = True) -> None:
        """Predicts again and updates the plots; without `points` while the browser moves a dragged point itself."""
        state, self._revision = self.state, self._revision + 1
        predictions = state.predict()
        t, y = state.shown_observations()
        with pn.io.hold():
            self.plots.fit_ranges(list(predictions.values()), y)
            self.plots.show_suggestion(None)
            if points:
                self.plots.show_points(t, y)
            self._show(predictions)
            self.controls.show_observations(t, y)
        self._schedule_slow_predictions()

    def attempt(self, action: Any, *, points: bool = True) -> None:
        """Runs a user's action and shows the result and any text that it returns; if it raises, shows why and undoes it."""
        before = self.state.snapshot()
        try:
            text = action()
            self.refresh(points=points)
        except ValueError as error:
            self.state.restore(before)
            self.messages.show_error(str(error))
            self.refresh()
            return
        self.messages.show_error("")
        if isinstance(text, str):
            self.messages.show_text(text)

    def suggest(self) -> None:
        """Shows the time to measure at next."""
        t = self.state.suggest_time()
        self.plots.show_suggestion(t)
        text = f"Measure next at {self.state.view.time} = {format_number(t)}: there a new observation is most informative."
        self.messages.show_text(text)

    def script(self) -> str:
        """A Python program that draws what is shown."""
        return self.state.script(self._ranges())

    def figure_png(self) -> bytes:
        """What is shown, as a PNG file."""
        return self.state.figure_png(self._ranges())

    def _ranges(self) -> list[tuple[float, float]]:
        return [(float(r.start), float(r.end)) for r in self.plots.y_ranges]

    def _show(self, predictions: dict[str, Prediction]) -> None:
        titles, state = list(self.state.columns()), self.state
        for title, each in predictions.items():
            self.plots.columns[titles.index(title)].show(each, state.settings.draws, state.view.channels)
        first = predictions.get(titles[0])
        if first is not None:
            self.messages.show_bands(describe_bands(state, first))

    def _schedule_slow_predictions(self) -> None:
        """Starts exact inference and the Gaussian process when the user pauses."""
        settings = self.state.settings
        if self.doc is None or not (settings.exact or GAUSSIAN_PROCESS in settings.beside):
            return
        if self._pause_timer is not None:
            self.doc.remove_timeout_callback(self._pause_timer)
        self._pause_timer = self.doc.add_timeout_callback(self._predict_slowly, PAUSE)

    async def _predict_slowly(self) -> None:
        self._pause_timer, revision, state = None, self._revision, self.state
        self.messages.show_work("computing …")
        try:
            if state.settings.exact:
                predictions = await asyncio.to_thread(state.predict, exact=True)
                self._show_if_current(revision, predictions)
            if GAUSSIAN_PROCESS in state.settings.beside:
                prediction = await asyncio.to_thread(state.predict_gaussian_process)
                self._show_if_current(revision, {GAUSSIAN_PROCESS: prediction})
        except (ValueError, ImportError) as error:
            self.messages.show_error(str(error))
        if revision == self._revision:
            self.messages.show_work("exact inference" if state.settings.exact and len(state.observations) else "")

    def _show_if_current(self, revision: int, predictions: dict[str, Prediction]) -> None:
        if revision == self._revision:
            with pn.io.hold():
                self._show(predictions)

    def _update_menu(self) -> None:
        """Adds the models that have been trained since, and shows the progress of others."""
        self.state.views = self.menu.views
        self.controls.show_models(self.menu.views, self.menu.progress)
        if not self.menu.progress:
            self._progress_timer.stop()

    def _handle_gesture(self, data: dict[str, Any]) -> None:
        """Does what a user did in a plot."""
        kind, channel, place, t, y = (data[name][0] for name in ("kind", "channel", "place", "t", "y"))
        state = self.state
        if kind in ("light", "dark"):
            with pn.io.hold():
                self.theme.switch(kind)
        elif kind == "add":
            self.attempt(lambda: state.add_click(channel, t, y))
        elif kind == "select":
            self.controls.select(place)
        elif kind == "grab":
            state.observations.start_drag()
        elif kind == "move":
            self.attempt(lambda: state.drag(place, t, channel, y), points=False)
        elif kind == "drop":
            self.attempt(lambda: state.drag(place, t, channel, y))
        elif kind == "delete":
            self.attempt(lambda: state.observations.delete(place))
        elif kind == "delete-selected":
            self.controls.delete_selected()


def _pane(fig: Any) -> Any:
    return pn.pane.Bokeh(fig, sizing_mode="stretch_width", margin=0)
