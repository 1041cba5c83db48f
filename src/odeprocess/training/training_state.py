"""The state of a training run between two epochs, and its history."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.posterior.model_folder import filled, named

from .epoch import FirstPhaseState, Report
from .expectation_maximisation import EMState


@dataclasses.dataclass(frozen=True, eq=False)
class History:
    """Losses and scores of every epoch, `[epochs, seeds]` each.

    Attributes:
        loss: mean loss of a step, that is the negative objective of a task, so that larger tasks count for more; over the steps
            that were finite, and NaN after a seed has stopped.
        mse_one: validation error of one latent draw; NaN where not evaluated. All scores are in scaled units.
        mse: validation error of the mean over draws.
        nll: validation negative log density a value.
        em_loss: mean loss of a step in the second phase, expectation–maximisation, if there is one, `[epochs, seeds]`.
        seconds: wall time of each epoch of both phases, `[epochs]`; the first one compiles, also after a resume.
    """

    loss: np.ndarray
    mse_one: np.ndarray
    mse: np.ndarray
    nll: np.ndarray
    em_loss: np.ndarray
    seconds: np.ndarray


@dataclasses.dataclass
class TrainingState:
    """Everything on which further epochs depend, and the history of those that are done.

    Attributes:
        first_phase: the state of the first phase, of all seeds.
        em: the state of the second phase, expectation–maximisation, once it has begun.
        rows: the rows of `History` so far, by field, one for each epoch.
    """

    first_phase: FirstPhaseState
    em: EMState | None = None
    rows: dict[str, list[Any]] = dataclasses.field(
        default_factory=lambda: {field.name: [] for field in dataclasses.fields(History)}
    )

    @property
    def epochs(self) -> int:
        """Epochs done in the first phase."""
        return len(self.rows["loss"])

    @property
    def num_em_epochs(self) -> int:
        """Epochs done in the second phase."""
        return len(self.rows["em_loss"])

    def add(self, report: Report, seconds: float) -> None:
        """Adds an epoch of the first phase to the history."""
        for name, value in {"loss": report.loss, **vars(report.validation), "seconds": seconds}.items():
            self.rows[name].append(value)

    def add_em_epoch(self, loss: Any, seconds: float) -> None:
        """Adds an epoch of the second phase to the history."""
        self.rows["em_loss"].append(loss)
        self.rows["seconds"].append(seconds)

    def broken(self, max_bad_steps: int) -> np.ndarray:
        """Which seeds were given up, because too many steps in a row were not finite."""
        return np.asarray(self.first_phase.bad_in_a_row) >= max_bad_steps

    def stopped(self, max_bad_steps: int) -> bool:
        """Whether the first phase is over for all seeds."""
        return bool((np.asarray(self.first_phase.stopped) | self.broken(max_bad_steps)).all())

    def history(self) -> History:
        """The history so far."""
        seeds = self.first_phase.skipped.shape
        return History(**{name: np.stack(rows) if rows else np.zeros((0, *seeds)) for name, rows in self.rows.items()})

    def arrays(self) -> dict[str, np.ndarray]:
        """The state as named arrays, for a checkpoint; `restored` is the inverse."""
        tree = {"first_phase": self.first_phase, "em": self.em, "history": vars(self.history())}
        return {name: np.asarray(leaf, order="C") for name, leaf in named(tree).items()}

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray], first_phase: Any, em: Any) -> "TrainingState":
        """The state from the arrays of a checkpoint, with the shapes of `first_phase` and `em()`; others raise a `ValueError`."""
        parts: dict[str, dict[str, np.ndarray]] = {"first_phase": {}, "em": {}, "history": {}}
        for name, array in arrays.items():
            part, _, rest = name.partition(".")
            checks.require(part in parts, f"It holds an unknown array `{name[:60]}`.")
            parts[part][rest] = array
        again = "It was written by another version of odeprocess."
        _check_history(parts["history"], first_phase.skipped.shape)
        return cls(
            filled(first_phase, parts["first_phase"], again),
            filled(em(), parts["em"], again) if parts["em"] else None,
            {name: list(rows) for name, rows in parts["history"].items()},
        )


def _check_history(rows: dict[str, np.ndarray], seeds: tuple[int, ...]) -> None:
    """Raises unless these are the rows of a `History`: one for each epoch, of one phase or of both."""
    first, second = (len(rows[name]) if name in rows and rows[name].ndim else 0 for name in ("loss", "em_loss"))
    epochs = {"em_loss": second, "seconds": first + second}
    for field in dataclasses.fields(History):
        shape = (epochs.get(field.name, first), *(() if field.name == "seconds" else seeds))
        found = rows.get(field.name)
        good = found is not None and found.shape == shape and found.dtype.kind == "f"
        checks.require(good, f"`history.{field.name}` is {'missing' if found is None else found.shape}; expected {shape}.")
    unknown = sorted(set(rows) - {field.name for field in dataclasses.fields(History)})
    checks.require(not unknown, f"`history` has the unknown field(s) {', '.join(unknown)[:60]}.")
