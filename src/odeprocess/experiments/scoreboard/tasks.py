"""The data of the scoreboard: training series, test series, and which points of them are given in each cell."""

import dataclasses

import jax.random as jr
import numpy as np

from odeprocess.data import SOURCES
from odeprocess.data.series import Series
from odeprocess.experiments.paper.protocol import protocol

SPLITS = ("interpolation", "forecast")  # given points anywhere in a series, or its first ones
CONTEXTS = (0, 1, 2, 3, 5, 10)  # numbers of points given
LONG_CONTEXTS = (20, 50, 90)  # also given where series have 100 points of an orbit: Lotka–Volterra


@dataclasses.dataclass(frozen=True)
class ScoreboardTask:
    """One source of data with one level of noise.

    Attributes:
        name: of the source.
        noise: standard deviation of the noise on every value.
        num_series: number of test series.
        quick: whether this is a rehearsal with two context sizes.
    """

    name: str
    noise: float
    num_series: int
    quick: bool = False

    @property
    def contexts(self) -> tuple[int, ...]:
        """Numbers of points given."""
        return (0, 3) if self.quick else CONTEXTS + (LONG_CONTEXTS if self.name == "lotka-volterra" else ())

    @property
    def train(self) -> Series:
        """The training series: as many as in the paper."""
        return SOURCES[self.name].sample(protocol(self.name).train, key=jr.key(0), noise=self.noise)

    @property
    def test(self) -> Series:
        """The test series."""
        return SOURCES[self.name].sample(self.num_series, key=jr.key(2), noise=self.noise)

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation of each channel over the training series: the unit of scaled values."""
        return np.asarray(self.train.y, np.float64).std((0, 1))

    def given(self, split: str, context: int) -> np.ndarray:
        """Which points of each test series are given, `[series, n]`."""
        length = SOURCES[self.name].num_points
        if split == "forecast":
            return np.broadcast_to(np.arange(length) < context, (self.num_series, length))
        rank = np.argsort(np.argsort(np.random.default_rng(5).random((self.num_series, length)), 1), 1)
        return rank < context

    def cells(self) -> list[tuple[str, int]]:
        """All pairs of split and context; without any observation both splits are the same, so only one is kept."""
        return [(split, n) for split in SPLITS for n in self.contexts if split == "interpolation" or n > 0]
