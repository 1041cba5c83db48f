"""A wall clock that jumps, as clocks of machines do when they are set: durations are measured by one that does not."""

import ast
import sys
from pathlib import Path

import pytest

import odeprocess as odp
from fuzzing.clocks import COMPILER, clock_jumps
from fuzzing.outcomes import RIGHT

WALL = {("time", "time"), ("time", "time_ns"), *(("datetime", name) for name in ("now", "utcnow", "today")), ("date", "today")}
EXCEPTIONS = {("page_limits.py", "time.time")}  # the token of a page has the time of day at which it expires, as Bokeh writes it


@pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs a C compiler and Linux")
def test_a_wall_clock_that_jumps_by_decades_drops_nothing():
    assert clock_jumps(0, 40) == {RIGHT: 40}


def test_durations_are_measured_by_clocks_that_do_not_jump():
    for path in Path(odp.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                wall = (owner, node.attr) in WALL and (path.name, f"{owner}.{node.attr}") not in EXCEPTIONS
                assert not wall, f"{path.name}, line {node.lineno}: {owner}.{node.attr}"
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                assert not {alias.name for alias in node.names} & {"time", "time_ns"}, path.name
