"""The picture of a page as a program. What is saved as a picture is made by running it, so the two cannot differ."""

import io
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from .. import checks
from .exhibit import Exhibit
from .outlook import DRAWS, GRID, SEED, Question

DIGITS = 6
GAUSSIAN = "Gaussian process"

HEAD = '''"""{title}: what {who} after {count}, as shown in the playground."""

import jax
import numpy as np
from matplotlib.figure import Figure

import odeprocess as odp

t = np.array({t})
y = np.array({y}).reshape(len(t), {channels})  # a column for each channel, np.nan where nothing was measured
times = np.linspace({start}, {stop}, {points})
answers = {{}}  # for each model its draws [draws, times, channels], and both ends of its band

'''
MODEL = """model = odp.load({folder!r})
posterior = model.condition(t, y, key=jax.random.key({seed}), draws={draws}{more}){refine}
answers[{title!r}] = posterior.sample(times, of="function"), *posterior.interval(times, {level}, of={of!r})

"""
TRANSFORMED = """forecaster = odp.Forecaster.load({folder!r})
transforms = forecaster.layout_.transforms  # the model knows logarithms of some values
x = np.stack([each.forward(y[:, k]) for k, each in enumerate(transforms)], -1)
posterior = forecaster.model_.condition(t, x, key=jax.random.key({seed}), draws={draws}{more}){refine}
answers[{title!r}] = [
    np.stack([each.inverse(found[..., k]) for k, each in enumerate(transforms)], -1)
    for found in (posterior.sample(times, of="function"), *posterior.interval(times, {level}, of={of!r}))
]

"""
BASELINE = """from odeprocess.playground import Exhibit, Question, gaussian

question = Question(t, y, np.array({static}), level={level}, of={of!r})
found = gaussian(Exhibit.load({folder!r}), question, times=times)
answers[{title!r}] = found.mean[None], found.low, found.high

"""
PICTURE = """names, ranges, colours = {names!r}, {ranges!r}, ("#0b6e99", "#c2571a", "#3d7d3a")
phase = len(names) == 2
rows = len(names) + phase
figure = Figure(figsize=({wide} * len(answers), {high} * rows + 0.5), layout="constrained")
for j, (title, (draws, low, high)) in enumerate(answers.items()):
    colour, mean = colours[j % 3], draws.mean(0)
    for k, name in enumerate(names):
        ax = figure.add_subplot(rows, len(answers), k * len(answers) + j + 1)
        ax.fill_between(times, low[:, k], high[:, k], color=colour, alpha=0.16, linewidth=0, label="{percent} % band")
        ax.plot(times, draws[:{shown}, :, k].T, color=colour, alpha=0.35, linewidth=0.7)
        ax.plot(times, mean[:, k], color=colour, linewidth=2.2, label="mean")
        ax.plot(t, y[:, k], "o", color="#1b1f24", markeredgecolor="white", label="observations", zorder=5)
        ax.set(xlim=(times[0], times[-1]), ylim=ranges[k], ylabel=name, xlabel={time!r} if k == len(names) - 1 else "")
        ax.spines[["top", "right"]].set_visible(False)
        if k == 0:
            ax.set_title(title, loc="left", color=colour, fontsize=11)
    if phase:
        ax = figure.add_subplot(rows, len(answers), 2 * len(answers) + j + 1)
        ax.plot(draws[:{shown}, :, 0].T, draws[:{shown}, :, 1].T, color=colour, alpha=0.35, linewidth=0.7)
        ax.plot(mean[:, 0], mean[:, 1], color=colour, linewidth=2.2)
        ax.plot(y[:, 0], y[:, 1], "o", color="#1b1f24", markeredgecolor="white", zorder=5)
        ax.set(xlim=ranges[0], ylim=ranges[1], xlabel=names[0], ylabel=names[1])
        ax.spines[["top", "right"]].set_visible(False)
figure.axes[0].legend(frameon=False, fontsize=8)
"""


def program(
    exhibits: dict[str, Exhibit],
    question: Question,
    *,
    ranges: Sequence[tuple[float, float]],
    shown: int,
    refined: Collection[str],
    baseline: bool,
) -> str:
    """The program that draws what a page shows.

    Arguments:
        exhibits: the models on show by the titles of their columns, the chosen one first.
        question: what they are asked.
        ranges: lowest and highest value shown, for each channel.
        shown: how many draws are.
        refined: the titles of those that are refined.
        baseline: whether a Gaussian process is shown too.
    """
    first = next(iter(exhibits.values()))
    count = f"{len(question.t)} observation{'' if len(question.t) == 1 else 's'}"
    who = f"{len(exhibits) + baseline} models say" if len(exhibits) + baseline > 1 else "the model says"
    start, stop = first.window
    text = HEAD.format(
        title=first.title.replace('"', "'").replace("\\", "/"),
        who=who,
        count=count,
        t=_numbers(question.t),
        y=_numbers(question.y),
        channels=first.channels,
        start=_number(start),
        stop=_number(stop),
        points=GRID,
    )
    asked = {"seed": SEED, "draws": DRAWS, "level": question.level, "of": question.of}
    for title, exhibit in exhibits.items():
        static = f", static={_numbers(question.static)}" if question.static.size else ""
        origin = ", origin=0.0" if exhibit.model.scaling.origin == "first" else ""
        form = MODEL if all(each.name == "identity" for each in exhibit.transforms) else TRANSFORMED
        refine = ".refine()" if title in refined and len(question.t) else ""
        text += form.format(folder=_path(exhibit.folder), title=title, more=static + origin, refine=refine, **asked)
    if baseline:
        text += BASELINE.format(folder=_path(first.folder), title=GAUSSIAN, static=_numbers(question.static), **asked)
    size = {"wide": 7 if len(exhibits) + baseline == 1 else 4.6, "high": 3.4 if first.channels == 1 else 2.4}
    ends = [tuple(round(x, DIGITS) for x in pair) for pair in ranges]
    percent = f"{100 * question.level:g}"
    picture = PICTURE.format(names=list(first.values), ranges=ends, time=first.time, shown=shown, percent=percent, **size)
    return f'{text}{picture}figure.savefig("{first.name}.png", dpi=200)\n'


def picture(code: str) -> bytes:
    """The PNG file that a `program` would write."""
    body = code[: code.rindex("figure.savefig(")]
    scope: dict = {"__name__": "picture"}
    exec(compile(body, "picture", "exec"), scope)
    file = io.BytesIO()
    scope["figure"].savefig(file, dpi=200)
    return file.getvalue()


def _path(folder: Path | None) -> str:
    checks.require(folder is not None, "It is not known where this model was read from, so no code can be written for it.")
    return str(folder.resolve())  # pyright: ignore[reportOptionalMemberAccess]


def _number(x: float) -> str:
    return "np.nan" if np.isnan(x) else repr(round(float(x), DIGITS))


def _numbers(x: np.ndarray) -> str:
    if x.ndim == 1:
        return f"[{', '.join(map(_number, x))}]"
    return f"[{', '.join(map(_numbers, x))}]"
