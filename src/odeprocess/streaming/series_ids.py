"""The ids of the series of a stream. Each has a row, which is its own until the series is forgotten."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common import checks

INITIAL_CAPACITY = 64  # series; chosen by hand
LONGEST_ID = 1000  # characters; chosen by hand, to bound the size of a stream's file
Id = str | int


class SeriesIds:
    """Ids and rows of series, and what is given when a series is opened.

    Attributes:
        rows: the row of each id, in the order in which they were opened.
        static: covariates, `[capacity, k]`.
        origins: where each series' time begins, `[capacity]`; NaN while that is unknown.
        explicit: whether the user gave the origin, `[capacity]`.
    """

    def __init__(self, static_dim: int):
        self.rows: dict[Id, int] = {}
        self.static, self.origins = np.zeros((INITIAL_CAPACITY, static_dim)), np.zeros(INITIAL_CAPACITY)
        self.explicit = np.zeros(INITIAL_CAPACITY, bool)
        self._free: list[int] = []

    def open(self, ids: list[Id], static: np.ndarray, origins: np.ndarray, explicit: Any) -> np.ndarray:
        """Gives new ids their rows, and returns these."""
        used = len(self.rows) + len(self._free)
        fresh = range(used, used + max(0, len(ids) - len(self._free)))
        rows = np.array([*self._free[: len(ids)], *fresh], np.int64)
        self._free = self._free[len(ids) :]
        if (needed := used + len(fresh)) > len(self.origins):
            more = max(needed, 2 * len(self.origins)) - len(self.origins)
            self.static, self.origins, self.explicit = (
                np.concatenate([x, np.zeros((more, *x.shape[1:]), x.dtype)]) for x in (self.static, self.origins, self.explicit)
            )
        self.static[rows], self.origins[rows], self.explicit[rows] = static, origins, explicit
        self.rows.update(zip(ids, rows.tolist(), strict=True))
        return rows

    def find(self, ids: list[Id]) -> np.ndarray:
        """The rows of ids."""
        unknown = [name for name in ids if name not in self.rows]
        checks.require(not unknown, f"Series {checks.shown(unknown[:3])} are not in this stream, which has {len(self.rows)}.")
        return np.array([self.rows[name] for name in ids], np.int64)

    def update_origins(self, rows: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All origins after observations `t [n]` of `rows [n]`, and the rows whose origin becomes earlier. Changes nothing."""
        origins = self.origins.copy()
        np.fmin.at(origins, rows, t)
        origins = np.where(self.explicit, self.origins, origins)
        return origins, np.unique(rows[origins[rows] < self.origins[rows]])

    def forget(self, ids: list[Id]) -> None:
        """Removes ids; their rows may be given to others."""
        self._free += [self.rows.pop(name) for name in ids]


def read_ids(ids: Id | Sequence[Id]) -> tuple[list[Id], bool]:
    """Checked ids as a list, and whether a single one was given."""
    if isinstance(ids, (str, int, np.integer)):
        names, single = [ids], True
    else:
        names, single = list(ids), False
    names = [int(name) if isinstance(name, np.integer) else name for name in names]
    odd = [name for name in names if not isinstance(name, (str, int)) or isinstance(name, bool)]
    checks.require(not odd, f"A series is named {checks.shown(odd[:1])}; expected strings or whole numbers.")
    long = [name for name in names if len(str(name)) > LONGEST_ID]
    checks.require(not long, f"A series is named {str(long[:1])[:40]}…; expected {LONGEST_ID} characters at most.")
    return names, single
