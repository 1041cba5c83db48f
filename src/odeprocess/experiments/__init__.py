"""Experiments: the paper's protocols as data."""

from .protocol import Protocol as Protocol, protocol as protocol
