"""Data: the paper's curves and systems, drawn by our code."""

from .curves import (
    CURVES as CURVES,
    CurveFamily as CurveFamily,
    exponentials as exponentials,
    lines as lines,
    oscillators as oscillators,
    sines as sines,
)
from .physics import LotkaVolterra as LotkaVolterra, lotka_volterra as lotka_volterra

SOURCES: dict[str, CurveFamily | LotkaVolterra] = {**CURVES, lotka_volterra.name: lotka_volterra}
