"""A Python program that draws what the page shows, for its user to download, run and change.

The server writes it and never runs it. Names that somebody chose (folders, titles, columns) are in it as string literals only.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.display_names import file_name

from .figure_download import DPI
from .model_view import ModelView
from .predictions import NUM_DRAWS, NUM_TIMES, SEED, SERIES, Question

UNITS_IMPORT = "from odeprocess.forecasting.user_units import UserUnits\n"
IMPORTS = "Prediction, draw_figure"
GAUSSIAN_PROCESS_IMPORTS = "ModelView, Prediction, Question, draw_figure, predict_gaussian_process"
HEAD = '''"""Predictions of {who} after {count}, as shown in the playground."""

import jax
import numpy as np

import odeprocess as odp
{units_import}from odeprocess.serving.playground import {imports}

t = np.array({t})
y = np.array({y}).reshape(len(t), {channels})  # a column for each channel, np.nan where nothing was measured
times = np.linspace({start}, {stop}, {points})
predictions = {{}}

'''
MODEL = """model = odp.load({folder})
posterior = model.condition(t, y, key=odp.series_key({series}, {seed}), draws={draws}, inference={inference}{more})
draws = posterior.sample(times, of="function")
low, high = posterior.interval(times, {level}, of={of})
predictions[{title}] = Prediction(times, draws, draws.mean(0), low, high)

"""
TRANSFORMED = """model = odp.load({folder})
units = UserUnits.of_model(model)  # the model was trained on transformed values, such as logarithms
posterior = model.condition(
    t, units.to_model(y), key=odp.series_key({series}, {seed}), draws={draws}, inference={inference}{more}
)
draws = units.sample(posterior, times, of="function")
low, high = units.interval(posterior, times, {level}, of={of})
predictions[{title}] = Prediction(times, draws, draws.mean(0), low, high)

"""
GAUSSIAN_PROCESS = """question = Question(t, y, np.array({static}), level={level}, of={of})
predictions[{title}] = predict_gaussian_process(ModelView.load({folder}), question, times=times)

"""
FIGURE = """figure = draw_figure(
    t,
    y,
    predictions,
    names={names},
    time={time},
    ranges={ranges},
    level={level},
    num_draws={num_draws},
)
figure.savefig({file}, dpi={dpi})
"""


def write_script(
    columns: Mapping[str, ModelView | None],
    question: Question,
    *,
    ranges: Sequence[tuple[float, float]],
    num_draws: int,
    exact: Collection[str],
) -> str:
    """Returns a program that draws what the page shows.

    Arguments:
        columns: the shown models by the titles of their columns, the chosen one first; `None` stands for the Gaussian process.
        question: the observations and settings.
        ranges: lowest and highest value shown, for each channel.
        num_draws: how many draws are shown.
        exact: the titles of the models with exact inference.
    """
    first = next(iter(columns.values()))
    assert first is not None
    start, stop = first.window
    text = HEAD.format(
        who=f"{len(columns)} models" if len(columns) > 1 else "the model",
        count=f"{len(question.t)} observation{'' if len(question.t) == 1 else 's'}",
        units_import=UNITS_IMPORT if any(map(_is_transformed, columns.values())) else "",
        imports=GAUSSIAN_PROCESS_IMPORTS if None in columns.values() else IMPORTS,
        t=_code(question.t),
        y=_code(question.y),
        channels=first.channels,
        start=_code(start),
        stop=_code(stop),
        points=NUM_TIMES,
    )
    settings = {"seed": SEED, "series": _code(SERIES), "draws": NUM_DRAWS}
    settings |= {"level": _code(question.level), "of": _code(question.of)}
    for title, view in columns.items():
        if view is None:
            more = {"folder": _path(first.folder), "title": _code(title), "static": _code(question.static)}
            text += GAUSSIAN_PROCESS.format(**more, **settings)
            continue
        static = f", static={_code(question.static)}" if question.static.size else ""
        origin = ", origin=0.0" if view.model.scaling.origin == "first" else ""
        form = TRANSFORMED if _is_transformed(view) else MODEL
        inference = _code("auto" if title in exact else "amortised")
        text += form.format(folder=_path(view.folder), title=_code(title), more=static + origin, inference=inference, **settings)
    return text + FIGURE.format(
        names=_code(first.values),
        time=_code(first.time),
        ranges=_code(ranges),
        level=settings["level"],
        num_draws=num_draws,
        file=_code(file_name(first.name, ".png")),
        dpi=DPI,
    )


def _is_transformed(view: ModelView | None) -> bool:
    return view is not None and any(each.name != "identity" for each in view.units.transforms)


def _path(folder: Path | None) -> str:
    checks.require(folder is not None, "The folder of this model is unknown, so no code can be written for it.")
    return _code(str(folder.resolve()))  # pyright: ignore[reportOptionalMemberAccess]


def _code(value: Any) -> str:
    """Text, a number, or lists of them as a Python literal with all digits, in printable ASCII."""
    if isinstance(value, str):
        return ascii(str(value))
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(map(_code, value))}]"
    number = float(value)
    return "np.nan" if np.isnan(number) else repr(number)
