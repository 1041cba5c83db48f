"""One command for each of the paper's experiments: run what is missing, then write the record."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odeprocess.common import checks

from .paper.plan import NAMES, Experiment, experiment
from .paper.result_rows import rows
from .paper.runner import Advance, collect, jobs, run
from .result_files import provenance, write_json


def chosen(name: str, *, num_seeds: int | None = None, quick: bool = False) -> list[Experiment]:
    """The experiments that a name stands for."""
    return [experiment(each, num_seeds=num_seeds, quick=quick) for each in (NAMES if name == "all" else (name,))]


def only(whole: Experiment, variants: Sequence[str]) -> Experiment:
    """The part of an experiment that is about some of its variants."""
    board = whole.kind == "accuracy"  # whose jobs are not cells
    known = tuple(whole.settings["variants"] if board else dict.fromkeys(cell.variant for cell in whole.cells))
    for variant in variants:
        checks.choice("only", variant, known)
    settings = {**whole.settings, "variants": list(variants)} if board else whole.settings
    return dataclasses.replace(whole, cells=tuple(cell for cell in whole.cells if cell.variant in variants), settings=settings)


def total_work(parts: list[Experiment], out: Path) -> float:
    """The work of everything, done or not, in the runner's units."""
    return sum(work for each in parts for _, work, _ in jobs(each, out))


def reproduce(
    whole: Experiment, out: Path, advance: Advance = lambda work, note: None, *, variants: Sequence[str] = ()
) -> dict[str, Any]:
    """Runs what an experiment lacks and writes `NAME.json` into `out`, with everything that is there by then.

    Arguments:
        whole: the experiment.
        out: where runs and records are kept.
        advance: told of work done.
        variants: run only these.
    """
    run(only(whole, variants) if variants else whole, out, advance)
    return write_record(whole, out)


def write_record(whole: Experiment, out: Path) -> dict[str, Any]:
    """Writes `NAME.json` from the runs that are there."""
    results = collect(whole, out)
    record = {
        "experiment": whole.name,
        "title": whole.title,
        "unit": whole.unit,
        "quick": whole.quick,
        "rows": rows(whole, results),
        "runs": {key: [found["task"], found.get("variant")] for key, found in results.items()},
        "made_by": {key: [found.get("machine"), found.get("commit")] for key, found in results.items()},
        "written_by": provenance(),
    }
    write_json(out / f"{whole.name}.json", record)
    return record
