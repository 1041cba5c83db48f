"""Runs what is missing of an experiment and writes its record: the engine of `odeprocess reproduce`.

Every run has a folder, `runs/KEY`. Its `run.json` is written last and in one step: where it exists, the run is complete and is
not repeated.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odeprocess.common import checks

from .definitions import NAMES, Advance, Experiment, Job, experiment
from .paper import result_rows as paper_rows, train
from .result_files import provenance, read_run, write_record, write_run
from .scoreboard import result_rows as scoreboard_rows, run as scoreboard_run


def find_experiments(name: str, *, num_seeds: int | None = None, quick: bool = False) -> list[Experiment]:
    """The experiment of that name; with `"all"` every one."""
    return [experiment(each, num_seeds=num_seeds, quick=quick) for each in (NAMES if name == "all" else (name,))]


def select_variants(whole: Experiment, variants: Sequence[str]) -> Experiment:
    """The part of an experiment that runs some of its variants only."""
    is_scoreboard = whole.kind == "accuracy"  # which has no cells
    known = tuple(whole.settings["variants"] if is_scoreboard else dict.fromkeys(cell.variant for cell in whole.cells))
    for variant in variants:
        checks.choice("only", variant, known)
    settings = {**whole.settings, "variants": list(variants)} if is_scoreboard else whole.settings
    return dataclasses.replace(whole, cells=tuple(cell for cell in whole.cells if cell.variant in variants), settings=settings)


def list_jobs(whole: Experiment, out: Path) -> list[Job]:
    """Everything that an experiment runs."""
    return (scoreboard_run if whole.kind == "accuracy" else train).list_jobs(whole, out)


def count_work(experiments: list[Experiment], out: Path) -> float:
    """The work of all runs, done or not, in the unit of `Job.work`."""
    return sum(job.work for each in experiments for job in list_jobs(each, out))


def reproduce(
    whole: Experiment, out: Path, advance: Advance = lambda work, note: None, *, variants: Sequence[str] = ()
) -> dict[str, Any]:
    """Runs what an experiment lacks, then writes `NAME.json` into `out` from all runs that are there.

    Arguments:
        whole: the experiment.
        out: folder of runs and records.
        advance: called with the work done and a note.
        variants: run these only; all by default.

    Returns:
        The record.
    """
    for job in list_jobs(select_variants(whole, variants) if variants else whole, out):
        if read_run(out, job.key) is None:
            write_run(out, job.key, {**job.run(advance), **provenance()})
        else:
            advance(job.work, f"{job.key}: already there")
    return write_results(whole, out)


def write_results(whole: Experiment, out: Path) -> dict[str, Any]:
    """Writes `NAME.json` from the runs that are there, and returns it."""
    runs = {job.key: run for job in list_jobs(whole, out) if (run := read_run(out, job.key)) is not None}
    rows = scoreboard_rows.make_rows(runs) if whole.kind == "accuracy" else paper_rows.make_rows(whole, runs)
    record = {
        "experiment": whole.name,
        "title": whole.title,
        "unit": whole.unit,
        "quick": whole.quick,
        "rows": rows,
        "runs": {key: [run["task"], run.get("variant")] for key, run in runs.items()},
        "made_by": {key: [run.get("machine"), run.get("commit")] for key, run in runs.items()},
        "written_by": provenance(),
    }
    return write_record(out / f"{whole.name}.json", record)
