"""The observations as a table that can be edited with a keyboard or a screen reader."""

from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from .theme import asset


class ObservationTable(JSComponent):
    """A table of times and values, whose rows can be edited, deleted and added.

    An edit arrives in `edit`: the row's index (−1 for a new one), and the numbers that it should hold.
    """

    names: Any = param.List(default=[], doc="The headings: the time, then the channels.")
    rows: Any = param.List(default=[], doc="A list of numbers for each observation, None for missing values.")
    edit: Any = param.Dict(default={}, doc="The user's last edit: kind, place, row, and a serial number.")

    _esm = asset("table.js")
    _stylesheets: ClassVar = [asset("table.css")]
