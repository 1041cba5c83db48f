"""The experiments as data: what each one runs, read from `paper/experiments.toml` and `scoreboard/scoreboard.toml`."""

import dataclasses
import functools
import hashlib
import json
import tomllib
from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple

from odeprocess.common import checks
from odeprocess.process import Spec

from .paper.protocol import Protocol, protocol

FORMAT = 1  # of a run's content: raise it when what a run measures changes, and older runs are repeated
SEEDS = 5  # trained of each model where an experiment does not say otherwise

Advance = Callable[[float, str], None]  # reports progress: work done, and a note


class Job(NamedTuple):
    """A run of an experiment.

    Attributes:
        key: names its folder; equal settings have equal keys.
        work: about how long it takes, in steps of a plain neural process.
        run: does it, and returns the content of its `run.json`.
    """

    key: str
    work: float
    run: Callable[[Advance], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table: a variant trained on a task, with several seeds.

    Attributes:
        task: the name of the task.
        variant: the name of the table's row; its first word is the name of the variant that is trained.
        protocol: how it is trained and tested.
        spec: what is trained.
        seeds: trained at once.
        classify: whether drawn frames are shown to a classifier.
    """

    task: str
    variant: str
    protocol: Protocol
    spec: Spec
    seeds: tuple[int, ...]
    classify: bool = False

    @property
    def key(self) -> str:
        """Names its run: a readable label and a digest of everything that decides about the result."""
        content = {"format": FORMAT, "seeds": self.seeds, "classify": self.classify}
        content |= {
            "protocol": _changed_fields(self.protocol),
            "spec": {**_changed_fields(self.spec), "solver": repr(self.spec.solver)},
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        label = "".join(c if c.isalnum() else "-" for c in f"{self.task}-{self.variant}").replace("--", "-").strip("-")
        return f"{label}-{digest[:10]}"

    @property
    def work(self) -> float:
        """About how long training takes, in steps of a plain neural process."""
        series = self.protocol.train * self.protocol.copies * self.protocol.restarts
        # A step of a neural ODE process takes two to four times as long (docs/speed.md).
        return self.protocol.epochs * series / self.protocol.batch_size * (1.0 if self.spec.dynamics == "none" else 3.0)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or the scoreboard.

    Attributes:
        name: as in the command `odeprocess reproduce NAME`.
        title: what it shows.
        kind: `"train"`, `"timing"`, `"active"` or `"accuracy"` (the scoreboard).
        cells: what is trained; empty for the scoreboard.
        unit: results are shown in multiples of it.
        paper: the published means and standard errors, by metric, task and variant, in units of 1.
        settings: its whole section of the file.
        quick: whether this is a rehearsal.
        seeds: how many of each model are trained.
    """

    name: str
    title: str
    kind: str
    cells: tuple[Cell, ...]
    unit: float
    paper: dict[str, Any]
    settings: dict[str, Any]
    quick: bool
    seeds: int


def _changed_fields(options: Any) -> dict[str, Any]:
    """The fields that are not at their defaults, so that keys stay the same when an option is added."""
    fields = dataclasses.fields(options)
    return {field.name: value for field in fields if (value := getattr(options, field.name)) != field.default}


@functools.cache
def _read_definitions() -> dict[str, Any]:
    here, files = resources.files("odeprocess.experiments"), ("paper/experiments.toml", "scoreboard/scoreboard.toml")
    tables = [tomllib.loads(here.joinpath(*file.split("/")).read_text(encoding="utf-8"))["experiment"] for file in files]
    return {name: table for each in tables for name, table in each.items()}


NAMES = tuple(_read_definitions())
_PROTOCOL_FIELDS = {field.name for field in dataclasses.fields(Protocol)}


def experiment(name: str, *, num_seeds: int | None = None, quick: bool = False) -> Experiment:
    """The experiment of that name.

    Arguments:
        name: one of `NAMES`.
        num_seeds: how many seeds are trained, instead of the number in its definition.
        quick: a rehearsal: few series and two epochs, to see that everything runs.

    Examples:
        >>> from odeprocess.experiments import experiment
        >>> len(experiment("table1").cells)
        24
    """
    checks.choice("experiment", name, NAMES)
    table = _read_definitions()[name]
    seeds: int = table.get("seeds", SEEDS) if num_seeds is None else num_seeds
    checks.positive("seeds", seeds, integer=True)
    changed = table["quick"] if quick else {}
    cells = []
    for task in changed.get("tasks", table["tasks"]) if table["kind"] != "accuracy" else ():
        for row in changed.get("variants", table["variants"]):
            cells.append(_make_cell(task, row, table.get("changes", {}).get(row, {}), seeds, table.get("classify", False), quick))
    published = {
        metric: {
            task: {row: [x * (table["unit"] if metric == "mse" else 1.0) for x in pair] for row, pair in rows.items()}
            for task, rows in tasks.items()
        }
        for metric, tasks in table.get("paper", {}).items()
    }
    return Experiment(name, table["title"], table["kind"], tuple(cells), table["unit"], published, table, quick, seeds)


def _make_cell(task: str, row: str, changes: dict[str, Any], num_seeds: int, classify: bool, quick: bool) -> Cell:
    steps = protocol(task)
    steps = steps.replace(**{name: value for name, value in changes.items() if name in _PROTOCOL_FIELDS})
    steps = steps.quick() if quick else steps
    spec = steps.spec(row.split()[0], **{name: value for name, value in changes.items() if name not in _PROTOCOL_FIELDS})
    return Cell(task, row, steps, spec, tuple(range(min(num_seeds, 2) if quick else num_seeds)), classify)
