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
DORMAND_PRINCE = Tableau(
    nodes=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    rows=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    weights=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    quartic=(
        -12715105075 / 11282082432,
        0.0,
        87487479700 / 32700410799,
        -10690763975 / 1880347072,
        701980252875 / 199316789632,
        -1453857185 / 822651844,
        69997945 / 29380423,
    ),
)

TABLEAUS: dict[int, Tableau] = {1: EULER, 2: MIDPOINT, 3: BOGACKI_SHAMPINE, 4: CLASSICAL, 5: DORMAND_PRINCE}
