"""The plots of a page, by Bokeh: for each model a column of channels, and a phase portrait where there are two channels."""

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, CustomJS, Label, PlainText, Range1d, Span
from bokeh.plotting import figure

from .model_view import ModelView
from .predictions import Prediction
from .theme import FONT, Painter, asset, number

EMPTY = "Click anywhere in the plot to add an observation"
SLOTS = ("first", "second", "third")  # colours of the columns
HEIGHTS = {1: 450, 2: 250, 3: 200, 4: 170}  # of a channel, by how many there are
LESS = 0.8  # of it, where models stand side by side
PHASE_HEIGHT = 330  # where models stand side by side; else a phase portrait is as high as its channels
ROOM = 0.06  # above and below what must be seen, as a part of the range


class Column:
    """One model: a figure for each channel, and what they draw."""

    def __init__(self, view: ModelView, title: str, slot: str, plots: "Plots"):
        """Figures without curves; `plots` holds what the columns share."""
        self.curves, self.draws = ColumnDataSource(name="curves"), ColumnDataSource(name="draws")
        self.show(None, 0, view.channels)
        painter, several = plots.painter, view.channels > 1
        self.figures = []
        height = round(HEIGHTS[view.channels] * (LESS if plots.side_by_side else 1.0))
        for k, name in enumerate(view.values):
            last = k == view.channels - 1
            fig = blank(painter, height + (24 if last else 0), plots.x_range, plots.y_ranges[k])
            band = fig.varea("t", f"low{k}", f"high{k}", source=self.curves, fill_alpha=0.18)
            lines = fig.line("t", f"y{k}", source=self.draws, line_width=0.8, line_alpha=0.32)
            mean = fig.line("t", f"mean{k}", source=self.curves, line_width=2.6)
            painter.paint(band.glyph, fill_color=slot)
            painter.paint(lines.glyph, line_color=slot)
            painter.paint(mean.glyph, line_color=slot)
            plots.add_points(fig, k)
            fig.yaxis.axis_label = PlainText(text=name)  # a string would be read as mathematics wherever it holds $$
            fig.xaxis.axis_label = PlainText(text=view.time) if last else None
            if several and not last:
                fig.xaxis.major_label_text_font_size = "0px"
            if k == 0:
                entitle(fig, title, slot, painter)
            self.figures.append(fig)
        self.phase = _phase(view, self, slot, plots) if view.channels == 2 else None
        self.curves.js_on_change("data", CustomJS(args={"gestures": plots.gestures}, code=asset("next_drag_step.js")))

    def show(self, found: Prediction | None, draws: int, channels: int) -> None:
        """Draws an answer, or nothing."""
        if found is None:
            empty = np.zeros(0)
            self.curves.data = {"t": empty, **{f"{what}{k}": empty for what in ("mean", "low", "high") for k in range(channels)}}
            self.draws.data = {"t": empty, **{f"y{k}": empty for k in range(channels)}}
            return
        parts = {"mean": found.mean, "low": found.low, "high": found.high}
        self.curves.data = {"t": found.t, **{f"{what}{k}": x[:, k] for what, x in parts.items() for k in range(channels)}}
        # One line with gaps in it: far less to send and to draw than a line for each draw.
        shown = found.draws[:draws]
        gap = np.full((len(shown), 1), np.nan)
        joined = {f"y{k}": np.concatenate([shown[..., k], gap], 1).ravel() for k in range(channels)}
        self.draws.data = {"t": np.tile(np.append(found.t, np.nan), len(shown)), **joined}


class Plots:
    """All columns, and what they share: ranges, observations, the suggestion, and the channel that gestures come by."""

    def __init__(self, view: ModelView, titles: list[str], painter: Painter, gestures: ColumnDataSource):
        """Plots of a view and what is shown beside it; `titles` are those of the columns."""
        painter.forget()
        self.view, self.painter, self.gestures = view, painter, gestures
        self.x_range = Range1d(start=view.window[0], end=view.window[1])
        self.y_ranges: list[Any] = [Range1d(start=low, end=high) for low, high in view.ranges]
        self.points = ColumnDataSource()
        self.show_points(np.zeros(0), np.zeros((0, view.channels)))
        self.hints, self.suggestions, self.side_by_side = [], [], len(titles) > 1
        self.columns = [Column(view, title, slot, self) for title, slot in zip(titles, SLOTS[: len(titles)], strict=True)]

    def show_points(self, t: np.ndarray, y: np.ndarray) -> None:
        """Draws the observations."""
        self.points.selected.indices = []
        self.points.data = {"t": t, **{f"y{k}": y[:, k] for k in range(y.shape[1])}}
        for hint in getattr(self, "hints", ()):
            hint.visible = len(t) == 0

    def suggest(self, t: float | None) -> None:
        """Draws a suggested time, or none."""
        for span, label in self.suggestions:
            span.visible = label.visible = t is not None
            span.location = label.x = self.view.span[0] if t is None else t
            label.text = "" if t is None else f" measure here: {number(t)}"
            late = t is not None and t > np.mean(self.view.window)
            label.text_align = "right" if late else "left"

    def make_room(self, found: list[Prediction], y: np.ndarray) -> None:
        """Grows the ranges where a band or an observation would not be seen."""
        for k, (least, most) in enumerate(self.view.ranges):
            seen = [x[:, k] for each in found for x in (each.low, each.high)] + [y[:, k]]
            values = np.concatenate(seen)
            values = values[np.isfinite(values)]
            low, high = min(least, values.min(initial=least)), max(most, values.max(initial=most))
            room = ROOM * (high - low)
            self.y_ranges[k].update(start=low - room * (low < least), end=high + room * (high > most))

    def add_points(self, fig: Any, channel: int) -> None:
        """Observations, the suggestion and the gestures of one figure."""
        dots = fig.scatter("t", f"y{channel}", source=self.points, size=11, line_width=1.8, level="overlay", name="points")
        for glyph in (dots.glyph, dots.nonselection_glyph):
            self.painter.paint(glyph, fill_color="ink", line_color="page")
            glyph.fill_alpha = glyph.line_alpha = 1.0
        dots.selection_glyph = dots.glyph.clone(size=15, line_width=3)
        self.painter.paint(dots.selection_glyph, fill_color="ink", line_color="suggestion")
        span = Span(dimension="height", location=0, visible=False, line_dash=[5, 4], line_width=1.8)
        label = Label(x=0, y=6, y_units="screen", text="", visible=False, text_font=FONT, text_font_size="12px")
        self.painter.paint(span, line_color="suggestion")
        self.painter.paint(label, text_color="suggestion", background_fill_color="page")
        self.suggestions.append((span, label))
        fig.add_layout(span)
        fig.add_layout(label)
        if not self.hints or len(self.hints) < self.view.channels:
            hint = Label(x=0, y=0, text=EMPTY if channel == 0 else "", text_font=FONT, text_font_size="15px", text_align="center")
            low, high = self.view.ranges[channel]
            hint.x, hint.y = float(np.mean(self.view.window)), low + 0.9 * (high - low)
            self.painter.paint(hint, text_color="muted")
            fig.add_layout(hint)
            self.hints.append(hint)
        fig.tags = [channel]
        args = {"fig": fig, "points": self.points, "gestures": self.gestures, "channel": channel}
        for event in ("tap", "doubletap", "panstart", "pan", "panend"):
            fig.js_on_event(event, CustomJS(args=args, code=asset("gestures.js")))


def blank(painter: Painter, height: int, x_range: Any, y_range: Any) -> Any:
    """A calm figure: no tools, thin axes, light grid."""
    fig: Any = figure(
        height=height,
        x_range=x_range,
        y_range=y_range,
        tools="",
        toolbar_location=None,
        sizing_mode="stretch_width",
        min_border_left=52,
        min_border_right=8,
        min_border_top=6,
        min_border_bottom=4,
        outline_line_color=None,
        background_fill_alpha=0.0,
        border_fill_alpha=0.0,
        stylesheets=[".bk-Canvas { --highlight-color: var(--focus); }"],
    )
    for axis in (fig.xaxis[0], fig.yaxis[0]):
        axis.minor_tick_line_color = None
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.axis_label_text_font_style, axis.axis_label_text_font_size = "normal", "13px"
        axis.major_label_text_font_size, axis.major_tick_in, axis.major_tick_out = "12px", 0, 4
        painter.paint(
            axis,
            axis_line_color="line",
            major_tick_line_color="line",
            major_label_text_color="muted",
            axis_label_text_color="ink",
        )
    fig.yaxis.ticker.desired_num_ticks = 5
    for grid in fig.grid:
        painter.paint(grid, grid_line_color="grid")
    return fig


def entitle(fig: Any, title: str, slot: str, painter: Painter) -> None:
    """Names a figure, in the colour of its curves."""
    fig.title.text, fig.title.text_font, fig.title.text_font_size = PlainText(text=title), FONT, "15px"
    painter.paint(fig.title, text_color=slot)


def _phase(view: ModelView, column: Column, slot: str, plots: Plots) -> Any:
    """One channel over the other, with the observations that have both."""
    height = PHASE_HEIGHT if plots.side_by_side else sum(fig.height for fig in column.figures)
    fig = blank(plots.painter, height, plots.y_ranges[0], plots.y_ranges[1])
    lines = fig.line("y0", "y1", source=column.draws, line_width=0.8, line_alpha=0.32)
    mean = fig.line("mean0", "mean1", source=column.curves, line_width=2.6)
    dots = fig.scatter("y0", "y1", source=plots.points, size=11, line_width=1.8)
    plots.painter.paint(lines.glyph, line_color=slot)
    plots.painter.paint(mean.glyph, line_color=slot)
    for glyph in (dots.glyph, dots.nonselection_glyph):
        plots.painter.paint(glyph, fill_color="ink", line_color="page")
        glyph.fill_alpha = glyph.line_alpha = 1.0
    fig.xaxis.axis_label, fig.yaxis.axis_label = (PlainText(text=name) for name in view.values)
    entitle(fig, "Phase portrait", slot, plots.painter)
    return fig
