"""The plots of the page by Bokeh: a column of channels for each model, and a phase portrait where there are two channels."""

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, CustomJS, Label, PlainText, Range1d, Span
from bokeh.plotting import figure

from .model_view import ModelView
from .predictions import Prediction
from .theme import FONT, Theme, asset, format_number

EMPTY_HINT = "Click anywhere in the plot to add an observation"
COLUMN_COLOURS = ("first", "second", "third")  # by name in the theme; there are as many columns at most
# Pixels, chosen by hand so that the page fits on a laptop's screen.
HEIGHTS = {1: 450, 2: 250, 3: 200, 4: 170}  # of a channel, by the number of channels
SIDE_BY_SIDE = 0.8  # factor of the heights where models are side by side
AXIS_HEIGHT = 24  # of the time axis, which the last channel has
PHASE_HEIGHT = 330  # of a phase portrait where models are side by side; else it is as high as the channels together
MARGIN = 0.06  # above and below the values that must be visible, as a share of the range; chosen by hand


class Column:
    """The plots of one model: a figure for each channel, and a phase portrait if there are two."""

    def __init__(self, view: ModelView, title: str, colour: str, plots: "Plots"):
        """Makes figures without curves; `plots` has the ranges and points that all columns share."""
        self.curves, self.draws = ColumnDataSource(name="curves"), ColumnDataSource(name="draws")
        self.show(None, 0, view.channels)
        theme, several = plots.theme, view.channels > 1
        self.figures = []
        height = round(HEIGHTS[view.channels] * (SIDE_BY_SIDE if plots.side_by_side else 1.0))
        for k, name in enumerate(view.values):
            last = k == view.channels - 1
            fig = make_figure(theme, height + (AXIS_HEIGHT if last else 0), plots.x_range, plots.y_ranges[k])
            band = fig.varea("t", f"low{k}", f"high{k}", source=self.curves, fill_alpha=0.18)
            lines = fig.line("t", f"y{k}", source=self.draws, line_width=0.8, line_alpha=0.32)
            mean = fig.line("t", f"mean{k}", source=self.curves, line_width=2.6)
            theme.colour(band.glyph, fill_color=colour)
            theme.colour(lines.glyph, line_color=colour)
            theme.colour(mean.glyph, line_color=colour)
            plots.add_points(fig, k)
            fig.yaxis.axis_label = PlainText(text=name)  # Bokeh reads $$ in a string as mathematics
            fig.xaxis.axis_label = PlainText(text=view.time) if last else None
            if several and not last:
                fig.xaxis.major_label_text_font_size = "0px"
            if k == 0:
                set_title(fig, title, colour, theme)
            self.figures.append(fig)
        self.phase = _phase_portrait(view, self, colour, plots) if view.channels == 2 else None
        self.curves.js_on_change("data", CustomJS(args={"gestures": plots.gestures}, code=asset("next_drag_step.js")))

    def show(self, prediction: Prediction | None, num_draws: int, channels: int) -> None:
        """Shows a prediction, or nothing."""
        if prediction is None:
            empty = np.zeros(0)
            self.curves.data = {"t": empty, **{f"{part}{k}": empty for part in ("mean", "low", "high") for k in range(channels)}}
            self.draws.data = {"t": empty, **{f"y{k}": empty for k in range(channels)}}
            return
        parts = {"mean": prediction.mean, "low": prediction.low, "high": prediction.high}
        self.curves.data = {"t": prediction.t, **{f"{part}{k}": x[:, k] for part, x in parts.items() for k in range(channels)}}
        # One line with gaps, which the browser receives and draws faster than a line for each draw.
        shown = prediction.draws[:num_draws]
        gap = np.full((len(shown), 1), np.nan)
        joined = {f"y{k}": np.concatenate([shown[..., k], gap], 1).ravel() for k in range(channels)}
        self.draws.data = {"t": np.tile(np.append(prediction.t, np.nan), len(shown)), **joined}


class Plots:
    """The columns of all models, with their shared ranges, observations, suggested time and gestures."""

    def __init__(self, view: ModelView, titles: list[str], theme: Theme, gestures: ColumnDataSource):
        """Makes the plots of a view and of the models beside it, which have one title each."""
        theme.clear()
        self.view, self.theme, self.gestures = view, theme, gestures
        self.x_range = Range1d(start=view.window[0], end=view.window[1])
        self.y_ranges: list[Any] = [Range1d(start=low, end=high) for low, high in view.ranges]
        self.points = ColumnDataSource()
        self.show_points(np.zeros(0), np.zeros((0, view.channels)))
        self.hints, self.suggestions, self.side_by_side = [], [], len(titles) > 1
        self.columns = [
            Column(view, title, colour, self) for title, colour in zip(titles, COLUMN_COLOURS[: len(titles)], strict=True)
        ]

    def show_points(self, t: np.ndarray, y: np.ndarray) -> None:
        """Shows the observations."""
        self.points.selected.indices = []
        self.points.data = {"t": t, **{f"y{k}": y[:, k] for k in range(y.shape[1])}}
        for hint in getattr(self, "hints", ()):
            hint.visible = len(t) == 0

    def show_suggestion(self, t: float | None) -> None:
        """Shows a suggested time, or none."""
        for span, label in self.suggestions:
            span.visible = label.visible = t is not None
            span.location = label.x = self.view.span[0] if t is None else t
            label.text = "" if t is None else f" measure here: {format_number(t)}"
            in_right_half = t is not None and t > np.mean(self.view.window)
            label.text_align = "right" if in_right_half else "left"

    def fit_ranges(self, predictions: list[Prediction], y: np.ndarray) -> None:
        """Extends the ranges so that bands and observations are visible."""
        for k, (least, most) in enumerate(self.view.ranges):
            values = np.concatenate([x[:, k] for each in predictions for x in (each.low, each.high)] + [y[:, k]])
            values = values[np.isfinite(values)]
            low, high = min(least, values.min(initial=least)), max(most, values.max(initial=most))
            margin = MARGIN * (high - low)
            self.y_ranges[k].update(start=low - margin * (low < least), end=high + margin * (high > most))

    def add_points(self, fig: Any, channel: int) -> None:
        """Adds the observations, the suggested time and the gestures to one figure."""
        dots = fig.scatter("t", f"y{channel}", source=self.points, size=11, line_width=1.8, level="overlay", name="points")
        for glyph in (dots.glyph, dots.nonselection_glyph):
            self.theme.colour(glyph, fill_color="ink", line_color="page")
            glyph.fill_alpha = glyph.line_alpha = 1.0
        dots.selection_glyph = dots.glyph.clone(size=15, line_width=3)
        self.theme.colour(dots.selection_glyph, fill_color="ink", line_color="suggestion")
        span = Span(dimension="height", location=0, visible=False, line_dash=[5, 4], line_width=1.8)
        label = Label(x=0, y=6, y_units="screen", text="", visible=False, text_font=FONT, text_font_size="12px")
        self.theme.colour(span, line_color="suggestion")
        self.theme.colour(label, text_color="suggestion", background_fill_color="page")
        self.suggestions.append((span, label))
        fig.add_layout(span)
        fig.add_layout(label)
        if not self.hints or len(self.hints) < self.view.channels:
            hint = Label(
                x=0, y=0, text=EMPTY_HINT if channel == 0 else "", text_font=FONT, text_font_size="15px", text_align="center"
            )
            low, high = self.view.ranges[channel]
            hint.x, hint.y = float(np.mean(self.view.window)), low + 0.9 * (high - low)
            self.theme.colour(hint, text_color="muted")
            fig.add_layout(hint)
            self.hints.append(hint)
        fig.tags = [channel]
        args = {"fig": fig, "points": self.points, "gestures": self.gestures, "channel": channel}
        for event in ("tap", "doubletap", "panstart", "pan", "panend"):
            fig.js_on_event(event, CustomJS(args=args, code=asset("gestures.js")))


def make_figure(theme: Theme, height: int, x_range: Any, y_range: Any) -> Any:
    """Returns an empty figure without tools, with thin axes and a light grid."""
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
        theme.colour(
            axis,
            axis_line_color="line",
            major_tick_line_color="line",
            major_label_text_color="muted",
            axis_label_text_color="ink",
        )
    fig.yaxis.ticker.desired_num_ticks = 5
    for grid in fig.grid:
        theme.colour(grid, grid_line_color="grid")
    return fig


def set_title(fig: Any, title: str, colour: str, theme: Theme) -> None:
    """Sets the title of a figure, in the colour of its curves."""
    fig.title.text, fig.title.text_font, fig.title.text_font_size = PlainText(text=title), FONT, "15px"
    theme.colour(fig.title, text_color=colour)


def _phase_portrait(view: ModelView, column: Column, colour: str, plots: Plots) -> Any:
    """Returns a figure of the second channel over the first, with the observations that have both."""
    height = PHASE_HEIGHT if plots.side_by_side else sum(fig.height for fig in column.figures)
    fig = make_figure(plots.theme, height, plots.y_ranges[0], plots.y_ranges[1])
    lines = fig.line("y0", "y1", source=column.draws, line_width=0.8, line_alpha=0.32)
    mean = fig.line("mean0", "mean1", source=column.curves, line_width=2.6)
    dots = fig.scatter("y0", "y1", source=plots.points, size=11, line_width=1.8)
    plots.theme.colour(lines.glyph, line_color=colour)
    plots.theme.colour(mean.glyph, line_color=colour)
    for glyph in (dots.glyph, dots.nonselection_glyph):
        plots.theme.colour(glyph, fill_color="ink", line_color="page")
        glyph.fill_alpha = glyph.line_alpha = 1.0
    fig.xaxis.axis_label, fig.yaxis.axis_label = (PlainText(text=name) for name in view.values)
    set_title(fig, "Phase portrait", colour, plots.theme)
    return fig
