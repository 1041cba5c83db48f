"""Explicit Runge–Kutta methods as data.

Each step gives the values and slopes at both of its ends, hence a cubic between them. That is as accurate as the
steps up to order 4; the method of order 5 adds a quartic term made of its stages.
"""

from typing import NamedTuple


class Tableau(NamedTuple):
    """Nodes, stage rows and weights; `quartic` weighs the stages and the slope at the end (orders above 4)."""

    nodes: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    quartic: tuple[float, ...] | None = None


EULER = Tableau((0.0,), ((),), (1.0,))
MIDPOINT = Tableau((0.0, 1 / 2), ((), (1 / 2,)), (0.0, 1.0))
BOGACKI_SHAMPINE = Tableau((0.0, 1 / 2, 3 / 4), ((), (1 / 2,), (0.0, 3 / 4)), (2 / 9, 1 / 3, 4 / 9))
CLASSICAL = Tableau((0.0, 1 / 2, 1 / 2, 1.0), ((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6))
# Tsitouras (2011): of the same cost as Dormand–Prince, with a third of its error. `quartic` holds the
# coefficients of θ⁴ in his interpolant; the rest of it is the cubic.
TSITOURAS = Tableau(
    nodes=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0),
    rows=(
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
    ),
    weights=(0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774),
    quartic=(
        -1.0530884977290216,
        0.1017,
        2.490627285651253,
        -16.548102889244902,
        47.37952196281928,
        -34.87065786149661,
        2.5,
    ),
)

TABLEAUS: dict[int, Tableau] = {1: EULER, 2: MIDPOINT, 3: BOGACKI_SHAMPINE, 4: CLASSICAL, 5: TSITOURAS}
