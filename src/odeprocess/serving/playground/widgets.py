"""The controls and messages of the page, as Panel widgets."""

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
import panel as pn

from odeprocess.common.display_names import distinct, file_name

from .bokeh_plots import COLUMN_COLOURS
from .model_view import GAUSSIAN_PROCESS
from .observation_table import ObservationTable
from .page_state import PageState
from .predictions import NUM_DRAWS
from .theme import asset

BANDS = {"the curve": "function", "a new measurement": "observations"}
WIDE = {"sizing_mode": "stretch_width"}


class Messages:
    """The messages of the page: an error, and a status line that screen readers announce."""

    def __init__(self):
        """Makes empty messages."""
        self._error, self._status = _html(""), _html("")
        self._bands = self._text = self._work = ""
        self.parts = {"message": self._error, "status": self._status}

    def show_error(self, text: str) -> None:
        """Shows an error, or removes it if the text is empty."""
        self._error.object = f'<p class="wrong" role="alert">{escape(text)}</p>' if text else ""

    def show_bands(self, html: str) -> None:
        """Shows the width of the bands, instead of the status before."""
        self._bands, self._text, self._work = html, "", ""
        self._update()

    def show_text(self, text: str) -> None:
        """Adds a sentence to the status."""
        self._text = text
        self._update()

    def show_work(self, text: str) -> None:
        """Adds in brackets whether something is being computed."""
        self._work = text
        self._update()

    def _update(self) -> None:
        text = f" {escape(self._text)}" if self._text else ""
        work = f' <span class="help">({escape(self._work)})</span>' if self._work else ""
        self._status.object = f'<p class="status" role="status" aria-live="polite">{self._bands}{text}{work}</p>'


class Controls:
    """All controls. They change the settings of `state`, and call `page` for everything else."""

    def __init__(self, state: PageState, page: Any):
        """Makes the controls."""
        self.state, self.page, self.selected = state, page, None
        self.model = _widget(pn.widgets.Select, name="Model", options=list(state.views), width=280)
        self.about = _html("", styles={"flex": "1 1 300px", "padding-bottom": "6px"})
        self.level = _slider(
            pn.widgets.FloatSlider, name="The band holds", start=0.5, end=0.99, step=0.01, value=0.9, format="0 %"
        )
        self.of = _widget(pn.widgets.Select, name="The band is of", options=BANDS, **WIDE)
        self.draws = _slider(pn.widgets.IntSlider, name="Draws shown", start=0, end=NUM_DRAWS, step=4, value=20)
        self.noise = _slider(pn.widgets.FloatSlider, name="Noise", start=0.0, end=0.5, step=0.05, format="0 %")
        self.exact = _widget(pn.widgets.Checkbox, name="Exact inference when I pause", **WIDE)
        self.beside = _widget(pn.widgets.CheckBoxGroup, name="Compare with", options=[GAUSSIAN_PROCESS], **WIDE)
        self.suggest = _widget(pn.widgets.Button, name="Suggest the next point", button_type="primary")
        self.undo, self.delete, self.clear = (_widget(pn.widgets.Button, name=n) for n in ("Undo", "Delete", "Clear"))
        self.table = ObservationTable(sizing_mode="stretch_width", margin=(0, 0, 8, 0))
        self.load = _widget(pn.widgets.FileInput, accept=".csv", **WIDE)
        self.save = _download("Figure (PNG)", lambda: page.figure_png())
        self.code = _download("Python code", lambda: page.script().encode())
        self.static = pn.FlexBox(gap="12px", margin=0, visible=False)
        self.training = _html("")
        self.parts = self._make_parts()
        self.show_model()
        self._connect()

    def _make_parts(self) -> dict[str, Any]:
        """The parts of the page, by their names in `assets/page.html`."""
        noise = "Moves the points at random, by this share of the standard deviation of the training data."
        exact = "Fits the posterior to your points: slower, and closer to them."
        gaussian_process = "The Gaussian process is fitted to your points only."
        csv = "A header, a column of times and one for each value; empty where nothing was measured."
        file = _html('<p class="help">Load a CSV file</p>')
        parts = {
            "choice": pn.FlexBox(
                self.model, self.about, self.static, self.training, align_items="end", gap="6px 20px", margin=0, **WIDE
            ),
            "actions": pn.FlexBox(self.suggest, self.undo, self.delete, self.clear, gap="8px", margin=0, **WIDE),
            "show": _column(self.level, self.of, self.draws, self.noise, _help(noise), self.exact, _help(exact)),
            "beside": _column(self.beside, _help(gaussian_process)),
            "table": self.table,
            "load": _column(file, self.load, _help(csv)),
            "save": _column(self.save, self.code),
        }
        return parts

    def _connect(self) -> None:
        """Connects the controls with the page."""
        settings, page = self.state.settings, self.page

        def connect_setting(widget: Any, name: str) -> None:
            def change(event: Any) -> None:
                if getattr(settings, name) != event.new:  # they are equal if the setting changed first, with the model
                    setattr(settings, name, event.new)
                    page.refresh()

            widget.param.watch(change, "value")

        for name in ("level", "of", "draws", "noise", "exact"):
            connect_setting(getattr(self, name), name)
        self.model.param.watch(lambda event: self._choose_model(event.new), "value")
        self.beside.param.watch(lambda event: self._set_beside(event.new), "value")
        self.suggest.on_click(lambda event: page.suggest())
        self.undo.on_click(lambda event: page.attempt(lambda: self.state.observations.undo()))
        self.clear.on_click(lambda event: page.attempt(lambda: self.state.observations.clear()))
        self.delete.on_click(lambda event: self.delete_selected())
        self.table.param.watch(lambda event: self._edit_row(event.new), "edit")
        self.load.param.watch(lambda event: event.new and page.attempt(lambda: self.state.load_csv(event.new)), "value")

    def show_model(self) -> None:
        """Updates the controls for the chosen model."""
        view = self.state.view
        self.about.object = f'<p class="about">{escape(view.about)}</p>'
        self.exact.value = self.state.settings.exact
        options = [*view.beside, GAUSSIAN_PROCESS]
        self.beside.param.update(options=options, value=[x for x in self.state.settings.beside if x in options])
        self.table.names = [view.time, *view.values]
        self.code.disabled = view.folder is None
        self.save.filename, self.code.filename = (file_name(view.name, ending) for ending in (".png", ".py"))
        self.static[:], self.static.visible = self._make_static(), self.state.static.size > 0

    def show_models(self, titles: Iterable[str], progress: str) -> None:
        """Updates the list of models, and the progress of those that are being trained."""
        self.model.options = list(titles)
        self.training.object = f'<p class="help">{escape(progress)}</p>' if progress else ""

    def show_observations(self, t: np.ndarray, y: np.ndarray) -> None:
        """Updates the table and the buttons."""
        rows = np.concatenate([t[:, None], y], 1).tolist()
        self.table.rows = [[None if value != value else value for value in row] for row in rows]
        self.select(None)
        self.clear.disabled = not rows

    def select(self, place: int | None) -> None:
        """Selects an observation, which the button Delete deletes; `None` selects none."""
        self.selected = place
        self.delete.disabled = place is None

    def delete_selected(self) -> None:
        """Deletes the selected observation, if there is one."""
        place = self.selected
        if place is not None:
            self.page.attempt(lambda: self.state.observations.delete(place))

    def _choose_model(self, title: str) -> None:
        self.state.choose_model(title)
        self.show_model()
        self.page.messages.show_error("")
        self.page.build()

    def _set_beside(self, titles: list[str]) -> None:
        if len(titles) >= len(COLUMN_COLOURS):
            self.beside.value = list(self.state.settings.beside)
            self.page.messages.show_error(f"At most {len(COLUMN_COLOURS)} models fit side by side. Remove one to add another.")
            return
        if tuple(titles) != self.state.settings.beside:
            self.state.settings.beside = tuple(titles)
            self.page.build()

    def _edit_row(self, edit: dict[str, Any]) -> None:
        place, row = edit["place"], [float("nan") if x is None else x for x in edit["row"]]
        if edit["kind"] == "delete":
            self.page.attempt(lambda: self.state.observations.delete(place))
        else:
            self.page.attempt(lambda: self.state.set_row(place, row[0], row[1:]))

    def _make_static(self) -> list[Any]:
        """A control for each covariate of the series."""
        view, controls, start = self.state.view, [], 0
        for name, covariate in zip(view.static, view.units.covariates, strict=True):
            controls.append(self._make_covariate(name, covariate.categories, slice(start, start + covariate.width)))
            start += covariate.width
        return controls

    def _make_covariate(self, name: str, categories: tuple[str, ...] | None, where: slice) -> Any:
        static = self.state.static
        if categories:
            now = categories[int(np.argmax(static[where]))]
            widget = _widget(pn.widgets.Select, name=name, options=distinct(categories), value=now, width=150)
        else:
            std = float(self.state.view.model.scaling.static_scale[where.start])
            step = 10.0 ** np.floor(np.log10(std))
            widget = _widget(pn.widgets.FloatInput, name=name, value=float(static[where.start]), step=step, width=150)

        def enter(value: Any) -> None:
            static[where] = np.array(categories) == value if categories else value

        def change(event: Any) -> None:
            if event.new is not None:
                self.page.attempt(lambda: enter(event.new))

        widget.param.watch(change, "value")
        return widget


def _widget(kind: Any, **options: Any) -> Any:
    return kind(stylesheets=[asset("widgets.css")], margin=(4, 0), **options)


def _slider(kind: Any, **options: Any) -> Any:
    return _widget(kind, **options, **WIDE)


def _html(text: str, **options: Any) -> Any:
    return pn.pane.HTML(text, stylesheets=[asset("text.css")], margin=0, sizing_mode="stretch_width", **options)


def _help(text: str) -> Any:
    return _html(f'<p class="help">{text}</p>')


def _column(*parts: Any) -> Any:
    return pn.Column(*parts, margin=0, sizing_mode="stretch_width")


def _download(label: str, make: Any) -> Any:
    from io import BytesIO

    return _widget(pn.widgets.FileDownload, label=label, callback=lambda: BytesIO(make()), auto=True, embed=False, **WIDE)
