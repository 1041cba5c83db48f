"""The controls and texts of a page, as Panel's widgets and panes."""

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
import panel as pn

from odeprocess.common.display_names import distinct, file_name

from .bokeh_plots import SLOTS
from .model_view import GAUSSIAN
from .observation_table import ObservationTable
from .predictions import DRAWS
from .page_state import Session
from .theme import asset

BANDS = {"the curve": "function", "a new measurement": "observations"}
WIDE = {"sizing_mode": "stretch_width"}


class Texts:
    """What a page says: a complaint, and a status that screen readers announce."""

    def __init__(self):
        """Nothing to say yet."""
        self._complaint, self._status = _html(""), _html("")
        self._widths = self._said = self._note = ""
        self.parts = {"message": self._complaint, "status": self._status}

    def complain(self, text: str) -> None:
        """Says what went wrong, or takes that back."""
        self._complaint.object = f'<p class="wrong" role="alert">{escape(text)}</p>' if text else ""

    def describe(self, widths: str) -> None:
        """Says how wide the bands are, as HTML; what was said before is over."""
        self._widths, self._said, self._note = widths, "", ""
        self._write()

    def tell(self, text: str) -> None:
        """Says one thing more."""
        self._said = text
        self._write()

    def work(self, note: str) -> None:
        """Says whether something is being worked out, or was."""
        self._note = note
        self._write()

    def _write(self) -> None:
        said = f" {escape(self._said)}" if self._said else ""
        note = f' <span class="help">({escape(self._note)})</span>' if self._note else ""
        self._status.object = f'<p class="status" role="status" aria-live="polite">{self._widths}{said}{note}</p>'


class Controls:
    """All that can be set; `page` does what is asked."""

    def __init__(self, session: Session, page: Any):
        """Controls of a session's settings."""
        self.session, self.page, self.selected = session, page, None
        self.model = _widget(pn.widgets.Select, name="Model", options=list(session.views), width=280)
        self.about = _html("", styles={"flex": "1 1 300px", "padding-bottom": "6px"})
        self.level = _slider(
            pn.widgets.FloatSlider, name="The band holds", start=0.5, end=0.99, step=0.01, value=0.9, format="0 %"
        )
        self.of = _widget(pn.widgets.Select, name="The band is of", options=BANDS, **WIDE)
        self.draws = _slider(pn.widgets.IntSlider, name="Draws shown", start=0, end=DRAWS, step=4, value=20)
        self.noise = _slider(pn.widgets.FloatSlider, name="Noise", start=0.0, end=0.5, step=0.05, format="0 %")
        self.refine = _widget(pn.widgets.Checkbox, name="Refine when I pause", **WIDE)
        self.beside = _widget(pn.widgets.CheckBoxGroup, name="Beside it", options=[GAUSSIAN], **WIDE)
        self.suggest = _widget(pn.widgets.Button, name="Suggest the next point", button_type="primary")
        self.undo, self.delete, self.clear = (_widget(pn.widgets.Button, name=n) for n in ("Undo", "Delete", "Clear"))
        self.table = ObservationTable(sizing_mode="stretch_width", margin=(0, 0, 8, 0))
        self.load = _widget(pn.widgets.FileInput, accept=".csv", **WIDE)
        self.save = _download("Picture (PNG)", lambda: page.picture())
        self.code = _download("Python code", lambda: page.program().encode())
        self.static = pn.FlexBox(gap="12px", margin=0, visible=False)
        self.coming = _html("")
        self.parts = self._parts()
        self.choose()
        self._watch()

    def _parts(self) -> dict[str, Any]:
        shakes = "Shakes the points at random, by this share of the spread of the training data."
        better = "Works the posterior out on your points: slower, and closer to them."
        gaussian = "The Gaussian process is fitted to your points alone."
        inside = "A header, a column of times and one for each value; empty where nothing was measured."
        file = _html('<p class="help">Load a CSV file</p>')
        parts = {
            "choice": pn.FlexBox(
                self.model, self.about, self.static, self.coming, align_items="end", gap="6px 20px", margin=0, **WIDE
            ),
            "actions": pn.FlexBox(self.suggest, self.undo, self.delete, self.clear, gap="8px", margin=0, **WIDE),
            "show": _column(self.level, self.of, self.draws, self.noise, _help(shakes), self.refine, _help(better)),
            "beside": _column(self.beside, _help(gaussian)),
            "table": self.table,
            "load": _column(file, self.load, _help(inside)),
            "save": _column(self.save, self.code),
        }
        return parts

    def _watch(self) -> None:
        settings, page = self.session.settings, self.page

        def setting(widget: Any, name: str) -> None:
            def change(event: Any) -> None:
                if getattr(settings, name) != event.new:  # else the setting changed first, with the view
                    setattr(settings, name, event.new)
                    page.refresh()

            widget.param.watch(change, "value")

        for name in ("level", "of", "draws", "noise", "refine"):
            setting(getattr(self, name), name)
        self.model.param.watch(lambda event: self._choose(event.new), "value")
        self.beside.param.watch(lambda event: self._beside(event.new), "value")
        self.suggest.on_click(lambda event: page.suggest())
        self.undo.on_click(lambda event: page.attempt(lambda: self.session.observations.undo()))
        self.clear.on_click(lambda event: page.attempt(lambda: self.session.observations.clear()))
        self.delete.on_click(lambda event: self.delete_selected())
        self.table.param.watch(lambda event: self._edit(event.new), "edit")
        self.load.param.watch(lambda event: event.new and page.attempt(lambda: self.session.load(event.new)), "value")

    def choose(self) -> None:
        """Controls that depend on the view."""
        view = self.session.view
        self.about.object = f'<p class="about">{escape(view.about)}</p>'
        self.refine.value = self.session.settings.refine
        options = [*view.beside, GAUSSIAN]
        self.beside.param.update(options=options, value=[x for x in self.session.settings.beside if x in options])
        self.table.names = [view.time, *view.values]
        self.code.disabled = view.folder is None
        self.save.filename, self.code.filename = (file_name(view.name, ending) for ending in (".png", ".py"))
        self.static[:], self.static.visible = self._static(), self.session.static.size > 0

    def offer(self, titles: Iterable[str], news: str) -> None:
        """Which models there are, and which are coming."""
        self.model.options = list(titles)
        self.coming.object = f'<p class="help">{escape(news)}</p>' if news else ""

    def show(self, t: np.ndarray, y: np.ndarray) -> None:
        """What depends on the observations."""
        rows = np.concatenate([t[:, None], y], 1).tolist()
        self.table.rows = [[None if value != value else value for value in row] for row in rows]
        self.select(None)
        self.clear.disabled = not rows

    def select(self, place: int | None) -> None:
        """An observation was chosen, which can be deleted."""
        self.selected = place
        self.delete.disabled = place is None

    def delete_selected(self) -> None:
        """Takes the chosen observation away, if there is one."""
        place = self.selected
        if place is not None:
            self.page.attempt(lambda: self.session.observations.delete(place))

    def _choose(self, title: str) -> None:
        self.session.choose(title)
        self.choose()
        self.page.texts.complain("")
        self.page.build()

    def _beside(self, titles: list[str]) -> None:
        if len(titles) >= len(SLOTS):
            self.beside.value = list(self.session.settings.beside)
            self.page.texts.complain(f"There is room for {len(SLOTS)} side by side. Take one away to add another.")
            return
        if tuple(titles) != self.session.settings.beside:
            self.session.settings.beside = tuple(titles)
            self.page.build()

    def _edit(self, edit: dict[str, Any]) -> None:
        place, row = edit["place"], [float("nan") if x is None else x for x in edit["row"]]
        if edit["kind"] == "delete":
            self.page.attempt(lambda: self.session.observations.delete(place))
        else:
            self.page.attempt(lambda: self.session.put(place, row[0], row[1:]))

    def _static(self) -> list[Any]:
        """A control for each covariate of the series."""
        view, found, place = self.session.view, [], 0
        known = [each.categories for each in view.covariates] or [None] * len(view.static)
        for name, categories in zip(view.static, known, strict=True):
            where = slice(place, place := place + (len(categories) if categories else 1))
            found.append(self._covariate(name, categories, where))
        return found

    def _covariate(self, name: str, categories: tuple[str, ...] | None, where: slice) -> Any:
        static = self.session.static
        if categories:
            now = categories[int(np.argmax(static[where]))]
            widget = _widget(pn.widgets.Select, name=name, options=distinct(categories), value=now, width=150)
        else:
            spread = float(self.session.view.model.scaling.static_scale[where.start])
            step = 10.0 ** np.floor(np.log10(spread))
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
