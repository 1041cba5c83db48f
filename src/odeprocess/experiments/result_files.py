"""Files of results: a run's `run.json`, and the compact records in `results/` from which the pages are made.

All are JSON, written in one step: a file is complete or not there. In memory the rows of a record are dictionaries, such as
`{"task": "sines", "variant": "ndp", "metric": "mse", "mean": 0.0215, "stderr": 0.0007, "seeds": 5}`. In its file they are a
table:

    "rows": {
    "same": {"seeds": 5},                            fields that are equal in all rows
    "columns": ["task", "variant"],                  the other fields, for each line of cells
    "texts": {"task": ["sines", "lines"], …},        texts of a column: its cells are places in this list
    "metrics": ["mse", "crps"],                      rows that differ by metric share a line:
    "measured": ["mean", "stderr"],                  behind its columns, a list of these for each metric
    "cells": [
    [0,1,[0.0215,0.0007],[0.31,0.02]],
    …

So a record is a tenth to a quarter as large. `read_record` returns the dictionaries.
"""

import itertools
import json
import math
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from odeprocess.common.storage import replace_file
from odeprocess.version import __version__

DIGITS = 6  # significant digits in rows. Pages show two to four; with five, rounding twice changed two of their numbers
MEASURED = ("mean", "stderr", "values", "median", "paper_mean", "paper_stderr", "tie")  # fields that differ by metric
RUN = "run.json"


def run_folder(out: Path, key: str) -> Path:
    """Where the run named `key` is kept."""
    return out / "runs" / key


def read_run(out: Path, key: str) -> dict[str, Any] | None:
    """What the run named `key` found, or `None` if it is not finished."""
    return read_json(run_folder(out, key) / RUN)


def write_run(out: Path, key: str, content: dict[str, Any]) -> None:
    """Writes what a run found, which marks it as finished."""
    write_json(run_folder(out, key) / RUN, content)


def write_record(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Writes a record in the compact form, and returns it as it can be read again.

    Arguments:
        path: of the file.
        record: fields, among them `rows`, a list of dictionaries of numbers, texts and lists.
    """
    write_json(path, {**record, "rows": compact_rows(record["rows"])})
    found = read_record(path)
    assert found is not None
    return found


def read_record(path: Path) -> dict[str, Any] | None:
    """A record with its rows as dictionaries, or `None` where there is none; all rows have the same fields."""
    record = read_json(path)
    if record is None or isinstance(record["rows"], list):
        return record
    return {**record, "rows": expand_rows(record["rows"])}


def compact_rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows as the table that the module describes."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_round(row.get(name)) for row in rows] for name in names}
    same = {name: values[0] for name, values in columns.items() if all(value == values[0] for value in values)}
    columns = {name: values for name, values in columns.items() if name not in same}
    texts = {name: _distinct(values) for name, values in columns.items() if _is_text(values)}
    for name in texts:
        place = {text: i for i, text in enumerate(texts[name])}
        columns[name] = [place.get(value) for value in columns[name]]
    metric = columns.pop("metric", None)
    measured = [name for name in MEASURED if name in columns] if metric else []
    keys = [name for name in columns if name not in measured]
    table: dict[str, Any] = {"same": same, "columns": keys, "texts": texts}
    if metric is None:
        return {**table, "cells": [[columns[name][i] for name in keys] for i in range(len(rows))]}
    metrics = texts.pop("metric")
    lines: dict[str, list[Any]] = {}
    repeats: Counter[str] = Counter()  # of the same fields with the same metric: they go to another line
    for i, place in enumerate(metric):
        key = [columns[name][i] for name in keys]
        repeats[json.dumps([key, place])] += 1
        line = lines.setdefault(json.dumps([key, repeats[json.dumps([key, place])]]), [*key, *(None for _ in metrics)])
        line[len(keys) + place] = _strip([columns[name][i] for name in measured])
    return {**table, "metrics": metrics, "measured": measured, "cells": [_strip(line) for line in lines.values()]}


def expand_rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries; a field that a row lacked is `None`."""
    columns, texts, rows = table["columns"], table["texts"], []
    metrics, measured = table.get("metrics", ()), table.get("measured", ())
    for cells in table["cells"]:
        row = {name: texts[name][cell] if name in texts and cell is not None else cell for name, cell in _pair(columns, cells)}
        row |= table["same"]
        if not metrics:
            rows.append(row)
        for metric, values in zip(metrics, cells[len(columns) :], strict=False):
            if values is not None:
                rows.append({**row, "metric": metric, **dict(_pair(measured, values))})
    return rows


def _pair(names: Sequence[str], cells: list[Any]) -> Iterator[tuple[str, Any]]:
    """Names with their cells; missing cells at the end are `None`."""
    return itertools.zip_longest(names, cells[: len(names)])


def _is_text(values: list[Any]) -> bool:
    return all(isinstance(value, str) or value is None for value in values)


def _distinct(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value is not None))


def _strip(cells: list[Any]) -> list[Any]:
    """Without the `None`s at the end."""
    while cells and cells[-1] is None:
        cells = cells[:-1]
    return cells


def _round(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, (list, tuple)):
        return [_round(x) for x in value]
    return {key: _round(x) for key, x in value.items()} if isinstance(value, dict) else value


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes a JSON file in one step, with a line for each field and each row; numbers that are not finite become null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [f"{_dump(key)}: {_dump_rows(value)}" for key, value in _replace_non_finite(content).items()]
    replace_file(path, ("{\n" + ",\n".join(fields) + "\n}\n").encode())


def _dump_rows(value: Any) -> str:
    """Dictionaries of a list, and the cells of a table, a line each."""
    if isinstance(value, dict) and "cells" in value:
        return "{\n" + ",\n".join(f"{_dump(key)}: {_dump_rows(part)}" for key, part in value.items()) + "\n}"
    if not isinstance(value, list) or not value or not isinstance(value[0], (dict, list)):
        return _dump(value)
    separators = (",", ":") if isinstance(value[0], list) else (", ", ": ")
    return "[\n" + ",\n".join(_dump(row, separators) for row in value) + "\n]"


def _dump(value: Any, separators: tuple[str, str] = (", ", ": ")) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=separators)


def read_json(path: Path) -> Any | None:
    """A JSON file's content, or `None` where there is none or it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_non_finite(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replace_non_finite(x) for x in value]
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
        "commit": _find_commit(),
        "versions": {**versions, "jaxlib": jaxlib.version.__version__, "numpy": numpy.__version__},
    }


def _find_commit() -> str | None:
    """The commit of the checkout this package runs from; `ODEPROCESS_COMMIT` where there is none."""
    try:
        here = Path(__file__).parent
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        return found.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("ODEPROCESS_COMMIT")
