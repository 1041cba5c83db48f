"""The observations as a table, which a keyboard and a screen reader can use: the plot's twin."""

from typing import Any, ClassVar

import param
from panel.custom import JSComponent

from .theme import asset


class ObservationTable(JSComponent):
    """Rows of times and values that can be edited, deleted and added to.

    A cell that was changed comes back in `edit`: its row (−1 for a new one), and what the row should be.
    """

    names: Any = param.List(default=[], doc="What the columns are: the time, then the channels.")
    rows: Any = param.List(default=[], doc="A list of numbers for each observation, None where nothing was measured.")
    edit: Any = param.Dict(default={}, doc="What a user did: kind, place, row, and a serial number.")

    _esm = asset("table.js")
    _stylesheets: ClassVar = [asset("table.css")]
