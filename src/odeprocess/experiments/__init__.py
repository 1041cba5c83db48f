"""Experiments: the paper's protocols as data, a runner that trains and a reporter that only reads."""

from .protocol import Protocol as Protocol, protocol as protocol
