"""Series and their sources: padded arrays, scaling, training ranges, tasks, simulated curves and public data sets.

`odp.data.sines`, `odp.data.load_digits` and others are defined in `sources`. May import `common`.
"""

from .sources.characters import Characters as Characters, load_characters as load_characters
from .sources.curves import (
    CURVES as CURVES,
    CurveFamily as CurveFamily,
    exponentials as exponentials,
    lines as lines,
    oscillators as oscillators,
    sines as sines,
)
from .sources.files import table_path as table_path
from .sources.images import (
    RotatingDigits as RotatingDigits,
    load_digits as load_digits,
    rotate as rotate,
    rotating as rotating,
    variable_rotating as variable_rotating,
)
from .sources.physics import LotkaVolterra as LotkaVolterra, lotka_volterra as lotka_volterra

SOURCES: dict[str, CurveFamily | LotkaVolterra] = {**CURVES, lotka_volterra.name: lotka_volterra}
