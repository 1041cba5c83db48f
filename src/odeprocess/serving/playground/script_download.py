"""What a page shows as a program, for its user to run and to change.

It is written here and never run here. Whatever somebody chose (folders, titles, names of columns) stands in it as a string
between quotes, by `repr`, and nowhere else.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.display_names import file_name

from .model_view import ModelView
from .predictions import DRAWS, GRID, SEED, Question
from .figure_download import DOTS

HEAD = '''"""What {who} after {count}, as shown in the playground."""

import jax
import numpy as np

import odeprocess as odp
from odeprocess.serving.playground import {imports}

t = np.array({t})
y = np.array({y}).reshape(len(t), {channels})  # a column for each channel, np.nan where nothing was measured
times = np.linspace({start}, {stop}, {points})
answers = {{}}

'''
MODEL = """model = odp.load({folder})
posterior = model.condition(t, y, key=jax.random.key({seed}), draws={draws}{more}){refine}
draws = posterior.sample(times, of="function")
low, high = posterior.interval(times, {level}, of={of})
answers[{title}] = Prediction(times, draws, draws.mean(0), low, high)

"""
TRANSFORMED = """forecaster = odp.Forecaster.load({folder})
transforms = forecaster.layout_.transforms  # the model knows logarithms of some values
x = np.stack([each.forward(y[:, k]) for k, each in enumerate(transforms)], -1)
posterior = forecaster.model_.condition(t, x, key=jax.random.key({seed}), draws={draws}{more}){refine}
draws, low, high = (
    np.stack([each.inverse(found[..., k]) for k, each in enumerate(transforms)], -1)
    for found in (posterior.sample(times, of="function"), *posterior.interval(times, {level}, of={of}))
)
answers[{title}] = Prediction(times, draws, draws.mean(0), low, high)

"""
BASELINE = """question = Question(t, y, np.array({static}), level={level}, of={of})
answers[{title}] = gaussian(ModelView.load({folder}), question, times=times)

"""
PICTURE = """figure = draw(
    t,
    y,
    answers,
    names={names},
    time={time},
    ranges={ranges},
    level={level},
    shown={shown},
)
figure.savefig({file}, dpi={dots})
"""


def program(
    columns: Mapping[str, ModelView | None],
    question: Question,
    *,
    ranges: Sequence[tuple[float, float]],
    shown: int,
    refined: Collection[str],
) -> str:
    """The program that draws what a page shows.

    Arguments:
        columns: the models on show by the titles of their columns, the chosen one first; `None` stands for a Gaussian process.
        question: what they are asked.
        ranges: lowest and highest value shown, for each channel.
        shown: how many draws are.
        refined: the titles of those that are refined.
    """
    first = next(iter(columns.values()))
    assert first is not None
    start, stop = first.window
    text = HEAD.format(
        who=f"{len(columns)} models say" if len(columns) > 1 else "the model says",
        count=f"{len(question.t)} observation{'' if len(question.t) == 1 else 's'}",
        imports="ModelView, Prediction, Question, draw, gaussian" if None in columns.values() else "Prediction, draw",
        t=_code(question.t),
        y=_code(question.y),
        channels=first.channels,
        start=_code(start),
        stop=_code(stop),
        points=GRID,
    )
    asked = {"seed": SEED, "draws": DRAWS, "level": _code(question.level), "of": _code(question.of)}
    for title, view in columns.items():
        if view is None:
            more = {"folder": _path(first.folder), "title": _code(title), "static": _code(question.static)}
            text += BASELINE.format(**more, **asked)
            continue
        static = f", static={_code(question.static)}" if question.static.size else ""
        origin = ", origin=0.0" if view.model.scaling.origin == "first" else ""
        form = MODEL if all(each.name == "identity" for each in view.transforms) else TRANSFORMED
        refine = ".refine()" if title in refined and len(question.t) else ""
        text += form.format(folder=_path(view.folder), title=_code(title), more=static + origin, refine=refine, **asked)
    return text + PICTURE.format(
        names=_code(first.values),
        time=_code(first.time),
        ranges=_code(ranges),
        level=asked["level"],
        shown=shown,
        file=_code(file_name(first.name, ".png")),
        dots=DOTS,
    )


def _path(folder: Path | None) -> str:
    checks.require(folder is not None, "It is not known where this model was read from, so no code can be written for it.")
    return _code(str(folder.resolve()))  # pyright: ignore[reportOptionalMemberAccess]


def _code(value: Any) -> str:
    """Text, a number, or lists of them as code that gives the same again, to the last digit; printable ASCII alone."""
    if isinstance(value, str):
        return ascii(str(value))
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(map(_code, value))}]"
    number = float(value)
    return "np.nan" if np.isnan(number) else repr(number)
