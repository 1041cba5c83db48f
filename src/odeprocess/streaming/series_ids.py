"""The roster: which series there are, by name, each with a row that is its own until it is forgotten."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common import checks

LEAST = 64
LONGEST_NAME = 1000  # characters
Id = str | int


class SeriesIds:
    """Names and rows of series, and what is known of a series from the beginning.

    Attributes:
        rows: the row of each name, in the order in which they were opened.
        static: covariates, `[capacity, k]`.
        origins: where each series' time begins, `[capacity]`; NaN while that is open.
        explicit: whether that was said, `[capacity]`.
    """

    def __init__(self, static_dim: int):
        self.rows: dict[Id, int] = {}
        self.static, self.origins = np.zeros((LEAST, static_dim)), np.zeros(LEAST)
        self.explicit = np.zeros(LEAST, bool)
        self._free: list[int] = []

    def open(self, names: list[Id], static: np.ndarray, origins: np.ndarray, explicit: Any) -> np.ndarray:
        """Gives new names their rows."""
        used = len(self.rows) + len(self._free)
        fresh = range(used, used + max(0, len(names) - len(self._free)))
        rows = np.array([*self._free[: len(names)], *fresh], np.int64)
        self._free = self._free[len(names) :]
        if (need := used + len(fresh)) > len(self.origins):
            more = max(need, 2 * len(self.origins)) - len(self.origins)
            self.static, self.origins, self.explicit = (
                np.concatenate([x, np.zeros((more, *x.shape[1:]), x.dtype)]) for x in (self.static, self.origins, self.explicit)
            )
        self.static[rows], self.origins[rows], self.explicit[rows] = static, origins, explicit
        self.rows.update(zip(names, rows.tolist(), strict=True))
        return rows

    def find(self, names: list[Id]) -> np.ndarray:
        """The rows of names."""
        unknown = [name for name in names if name not in self.rows]
        checks.require(not unknown, f"Series {checks.shown(unknown[:3])} are not in this stream, which has {len(self.rows)}.")
        return np.array([self.rows[name] for name in names], np.int64)

    def begun(self, rows: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where time begins with observations `t [n]` of `rows [n]`, and the rows for which that is earlier than before."""
        origins = self.origins.copy()
        np.fmin.at(origins, rows, t)
        origins = np.where(self.explicit, self.origins, origins)
        return origins, np.unique(rows[origins[rows] < self.origins[rows]])

    def forget(self, names: list[Id]) -> None:
        """Gives the rows of names free."""
        self._free += [self.rows.pop(name) for name in names]


def read_names(ids: Id | Sequence[Id]) -> tuple[list[Id], bool]:
    """Names as a list, and whether one came alone."""
    if isinstance(ids, (str, int, np.integer)):
        names, single = [ids], True
    else:
        names, single = list(ids), False
    names = [int(name) if isinstance(name, np.integer) else name for name in names]
    odd = [name for name in names if not isinstance(name, (str, int)) or isinstance(name, bool)]
    checks.require(not odd, f"A series is named {checks.shown(odd[:1])}; expected strings or whole numbers.")
    long = [name for name in names if len(str(name)) > LONGEST_NAME]
    checks.require(not long, f"A series is named {str(long[:1])[:40]}…; expected {LONGEST_NAME} characters at most.")
    return names, single
