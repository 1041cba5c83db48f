"""The stages of one Runge–Kutta step, for any tableau."""

from typing import Any

from .tableaus import Tableau


def combine(weights, slopes) -> Any:
    """The weighted sum of slopes; those of weight zero are left out."""
    return sum(w * k for w, k in zip(weights, slopes, strict=True) if w != 0.0)


def stages(tableau: Tableau, velocity, t, step, l, slope) -> list:
    """The slopes at all stages of the step from `(t, l)`, of which the first is known."""
    slopes = [slope]
    for node, row in zip(tableau.nodes[1:], tableau.rows[1:], strict=True):
        slopes.append(velocity(t + node * step, l + step * combine(row, slopes)))
    return slopes
