"""The page's status line, in words: for users who cannot see the plots, and for everybody else."""

from html import escape

import numpy as np

from .page_state import PageState
from .predictions import Prediction
from .theme import format_number


def describe_bands(state: PageState, prediction: Prediction) -> str:
    """Returns the number of observations and the width of the bands, as HTML."""
    count, view = len(state.observations), state.view
    observations = f"{count} observation{'' if count == 1 else 's'}" if count else "No observations yet"
    inside = (prediction.t >= view.span[0]) & (prediction.t <= view.span[1])
    parts, level = [], f"{100 * state.settings.level:g}"
    for k, name in enumerate(view.values):
        width, t = prediction.width[inside, k], prediction.t[inside]
        widest = f"widest at {format_number(t[np.argmax(width)])} ({format_number(width.max())})"
        of = f" of {escape(name)}" if view.channels > 1 else ""
        parts.append(f"the {level} % band{of} is <b>{format_number(width.mean())}</b> wide on average, {widest}")
    return f"<b>{observations}</b>: {'; '.join(parts)}."
