"""The golden numbers: every part of the library says what it said when they were written down."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "golden.py"


@pytest.mark.long
def test_every_number_is_what_it_was():
    """In a process of its own, since it computes in float64."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
