"""Handwritten letters: the pen's path in time, from the CharacterTrajectories set (UCI, CC BY 4.0)."""

import dataclasses
import hashlib

import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import Series, make_series

from .files import CHARACTERS

COUNT, LONGEST, STEP = 2858, 205, 0.1  # letters, points of the longest, and the time between two points: as published


@dataclasses.dataclass(frozen=True, eq=False)
class Characters:
    """Letters as series with channels (x, y), and the letter of each."""

    series: Series
    letters: np.ndarray

    def __len__(self) -> int:
        return len(self.letters)


def load_characters() -> Characters:
    """All 2858 letters, in an order that depends only on their content.

    The file holds velocities; a position is 0.1 times their running sum, and time is the index over 204. Each series ends
    where its own recording ends.
    """
    from scipy.io import loadmat

    path = CHARACTERS.path()
    content = loadmat(str(path))
    checks.require(
        {"mixout", "consts"} <= set(content) and content["mixout"].size == COUNT,
        f"{path} does not hold the {COUNT} letters of CharacterTrajectories. Fetch it again from {CHARACTERS.homes[0]}.",
    )
    constants = content["consts"]
    keys = np.array([str(key[0]) for key in constants["key"][0, 0][0]])
    letters = keys[np.asarray(constants["charlabels"][0, 0][0], int) - 1]
    velocities = [np.asarray(v, np.float64) for v in content["mixout"][0]]
    # Public copies of the set differ in their order; a split must not.
    order = np.argsort([hashlib.sha256(np.round(v, 3).astype("<f4").tobytes()).hexdigest() for v in velocities])
    y = [STEP * velocities[i][:2].cumsum(-1).T for i in order]
    t = [np.arange(len(path)) / (LONGEST - 1) for path in y]
    return Characters(make_series(t, y), letters[order])
