"""What a page says in words: for those who cannot see the plot, and for everybody else."""

from html import escape

import numpy as np

from .predictions import Prediction
from .page_state import Session
from .theme import number


def band_widths(session: Session, found: Prediction) -> str:
    """How much is known: the number of observations, and how wide the band is, as HTML."""
    count, view = len(session.observations), session.view
    seen = f"{count} observation{'' if count == 1 else 's'}" if count else "No observations yet"
    inside = (found.t >= view.span[0]) & (found.t <= view.span[1])
    parts = []
    for k, name in enumerate(view.values):
        width, t = found.width[inside, k], found.t[inside]
        where = f"widest at {number(t[np.argmax(width)])} ({number(width.max())})"
        of = f" of {escape(name)}" if view.channels > 1 else ""
        parts.append(f"the {100 * session.settings.level:g} % band{of} is <b>{number(width.mean())}</b> wide on average, {where}")
    return f"<b>{seen}</b>: {'; '.join(parts)}."
