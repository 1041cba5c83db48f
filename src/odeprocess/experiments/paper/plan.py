"""What an experiment runs: cells, each one variant on one task, all seeds at once."""

import dataclasses
import hashlib
import json
from typing import Any

from odeprocess.common import checks
from odeprocess.process import Spec

from .protocol import Protocol, paper, protocol

FORMAT = 1  # raise it when what a run measures changes: older runs are then done again
SEEDS = 5
NAMES = tuple(paper()["experiment"])
_PROTOCOL_FIELDS = {field.name for field in dataclasses.fields(Protocol)}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One variant, trained on one task.

    Attributes:
        task: the name of the task.
        variant: what the row is called; the variant's name is its first word.
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
        """Names everything that decides about the outcome, so that what exists is found again."""
        content = {"format": FORMAT, "seeds": self.seeds, "classify": self.classify}
        content |= {"protocol": _said(self.protocol), "spec": {**_said(self.spec), "solver": repr(self.spec.solver)}}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        label = "".join(c if c.isalnum() else "-" for c in f"{self.task}-{self.variant}").replace("--", "-").strip("-")
        return f"{label}-{digest[:10]}"

    @property
    def work(self) -> float:
        """About how long it takes, in steps of a plain neural process."""
        steps = (
            self.protocol.epochs * self.protocol.train * self.protocol.copies * self.protocol.restarts / self.protocol.batch_size
        )
        return steps * (1.0 if self.spec.dynamics == "none" else 3.0)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments.

    Attributes:
        name: what the command calls it.
        title: what it shows.
        kind: `"train"`, `"timing"`, `"active"` or `"accuracy"`.
        cells: what is trained for it.
        unit: results are shown in multiples of it.
        paper: the paper's means and standard errors, by metric, task and variant, in units of 1.
        settings: everything else that `paper.toml` says.
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


def _said(options: Any) -> dict[str, Any]:
    """The fields that are not at their defaults, so that a new option does not make old runs strangers."""
    fields = dataclasses.fields(options)
    return {field.name: value for field in fields if (value := getattr(options, field.name)) != field.default}


def experiment(name: str, *, num_seeds: int | None = None, quick: bool = False) -> Experiment:
    """Reads one experiment, with as many seeds as it says unless told otherwise.

    Examples:
        >>> from odeprocess.experiments import experiment
        >>> len(experiment("table1").cells)
        24
    """
    checks.choice("experiment", name, NAMES)
    table = paper()["experiment"][name]
    seeds: int = table.get("seeds", SEEDS) if num_seeds is None else num_seeds
    checks.positive("seeds", seeds, integer=True)
    rehearsal = table["quick"] if quick else {}
    cells = []
    for task in rehearsal.get("tasks", table["tasks"]) if table["kind"] != "accuracy" else ():
        for row in rehearsal.get("variants", table["variants"]):
            cells.append(_cell(task, row, table.get("changes", {}).get(row, {}), seeds, table.get("classify", False), quick))
    scaled = {
        metric: {
            task: {row: [x * (table["unit"] if metric == "mse" else 1.0) for x in pair] for row, pair in rows.items()}
            for task, rows in tasks.items()
        }
        for metric, tasks in table.get("paper", {}).items()
    }
    return Experiment(name, table["title"], table["kind"], tuple(cells), table["unit"], scaled, table, quick, seeds)


def _cell(task: str, row: str, changes: dict[str, Any], num_seeds: int, classify: bool, quick: bool) -> Cell:
    steps = protocol(task)
    steps = steps.replace(**{name: value for name, value in changes.items() if name in _PROTOCOL_FIELDS})
    steps = steps.quick() if quick else steps
    spec = steps.spec(row.split()[0], **{name: value for name, value in changes.items() if name not in _PROTOCOL_FIELDS})
    return Cell(task, row, steps, spec, tuple(range(min(num_seeds, 2) if quick else num_seeds)), classify)
