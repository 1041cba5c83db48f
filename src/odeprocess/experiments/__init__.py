"""Experiments: the paper's (`paper`), the scoreboard of accuracy (`scoreboard`), and what ours is compared with (`baselines`).

May import every package but `serving` and `cli`.
"""

from .paper.plan import Experiment as Experiment, experiment as experiment
from .paper.protocol import Protocol as Protocol, protocol as protocol
