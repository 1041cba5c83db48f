"""Where runs and results are kept: JSON files that are whole or not there, and what to say about where they were made."""

import json
import math
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from odeprocess.common.storage import replace_file
from odeprocess.version import __version__


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes a JSON file in one step, a row a line; what is not a finite number becomes null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [f"{_line(key)}: {_lines(value)}" for key, value in _finite(content).items()]
    replace_file(path, ("{\n" + ",\n".join(fields) + "\n}\n").encode())


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return _line(value)
    return "[\n" + ",\n".join(f" {_line(row)}" for row in value) + "\n]"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_json(path: Path) -> Any | None:
    """A JSON file's content, or `None` where there is none or it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(x) for x in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def provenance() -> dict[str, Any]:
    """The kind of machine, the commit and the versions behind a result."""
    import jax
    import jaxlib.version
    import numpy

    device = jax.devices()[0]
    machine = f"CPU, {len(os.sched_getaffinity(0))} cores" if device.platform == "cpu" else device.device_kind
    versions = {"odeprocess": __version__, "python": platform.python_version(), "jax": jax.__version__}
    return {
        "machine": machine,
        "commit": _commit(),
        "versions": {**versions, "jaxlib": jaxlib.version.__version__, "numpy": numpy.__version__},
    }


def _commit() -> str | None:
    """The commit of the checkout this package runs from; `ODEPROCESS_COMMIT` where there is none."""
    try:
        here = Path(__file__).parent
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        return found.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("ODEPROCESS_COMMIT")
