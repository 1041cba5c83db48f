"""Data: the paper's curves and systems, drawn by our code, and the public sets that its experiments and our examples use."""

from .characters import Characters as Characters, load_characters as load_characters
from .curves import (
    CURVES as CURVES,
    CurveFamily as CurveFamily,
    exponentials as exponentials,
    lines as lines,
    oscillators as oscillators,
    sines as sines,
)
from .files import table_path as table_path
from .images import (
    RotatingDigits as RotatingDigits,
    load_digits as load_digits,
    rotate as rotate,
    rotating as rotating,
    variable_rotating as variable_rotating,
)
from .physics import LotkaVolterra as LotkaVolterra, lotka_volterra as lotka_volterra

SOURCES: dict[str, CurveFamily | LotkaVolterra] = {**CURVES, lotka_volterra.name: lotka_volterra}
