"""Experiments: the paper's protocols as data, a runner that trains and a reporter that only reads."""

from .plan import Experiment as Experiment, experiment as experiment
from .protocol import Protocol as Protocol, protocol as protocol
