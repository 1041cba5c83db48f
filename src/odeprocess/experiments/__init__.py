"""Experiments: the paper's tables and figures (`paper`), the scoreboard of accuracy (`scoreboard`), and the `baselines`.

`definitions` reads what each experiment runs, `reproduce` runs it, `result_files` writes and reads the records in `results/`.

May import every package but `serving` and `cli`.
"""

from .definitions import Experiment as Experiment, experiment as experiment
from .paper.protocol import Protocol as Protocol, protocol as protocol
