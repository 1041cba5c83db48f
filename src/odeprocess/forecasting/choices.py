"""What is chosen from the data: sizes, context ranges, epochs, batches and what is held out; each can be said instead."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler
from odeprocess.process import Spec
from odeprocess.training.options import FitOptions
from odeprocess.training.plan import padded_size
from odeprocess.training.recipes import recipe_for

FEW = 40  # series: with fewer, none is kept from training, and intervals are checked by models that each leave some out
FOLDS, LEAST_FOLDS = 4, 3
HELD_OUT = 60
SMALL = 1_000  # values: with fewer, networks are smaller and training is shorter
SMALL_STEPS, STEPS = 100, 800
SMALL_WIDTH = 24


@dataclasses.dataclass(frozen=True)
class Choices:
    """How a model is trained.

    Attributes:
        spec: what is built.
        sampler: how tasks are drawn.
        options: of the optimisation.
        held_out: how many series are kept from training, to check intervals on.
        folds: how many models are trained for that instead, each without some of the series.
    """

    spec: Spec
    sampler: TaskSampler
    options: FitOptions
    held_out: int
    folds: int

    def to_json(self) -> dict[str, Any]:
        """Plain data; the spec is kept with the model."""
        plain = {"held_out": self.held_out, "folds": self.folds}
        return {**plain, "sampler": dataclasses.asdict(self.sampler), "options": dataclasses.asdict(self.options)}


def choose(
    series: Series,
    *,
    sizes: dict[str, int] | None = None,
    epochs: int | None = None,
    em_epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    context: tuple[int, int] | None = None,
    held_out: int | None = None,
    patience: int | None = None,
) -> tuple[Choices, list[str]]:
    """The choices for training series, and what was chosen, in sentences; whatever is given stays as it is."""
    count, mask = len(series), np.asarray(series.mask)
    small = int(mask.sum()) < SMALL
    said = []

    folds = min(FOLDS, count) if held_out is None and LEAST_FOLDS <= count < FEW else 0
    if held_out is None:
        held_out = 0 if count < FEW else min(HELD_OUT, count // 5)
    checks.require(
        isinstance(held_out, int) and 0 <= held_out < count - 1,
        f"`held_out` is {checks.shown(held_out)}; expected a whole number of series, and two or more of the {count} left "
        "to train on.",
    )
    checks.require(
        patience is None or held_out > 0,
        f"`patience` is {checks.shown(patience)}, but no series is held out to tell when to stop. Pass `held_out` as well.",
    )
    said.append(_checked(count, held_out, folds))
    kept = count - held_out
    steps = round((SMALL_STEPS if small else STEPS) * kept / count)
    base = recipe_for(*padded_size(kept, series.t.shape[1]), series.channels, steps=steps)

    options = {"batch_size": batch_size, "learning_rate": learning_rate, "epochs": epochs, "patience": patience}
    if epochs is not None:
        checks.positive("epochs", epochs, integer=True)
        options["em_epochs"] = 2 * epochs
    options["em_epochs"] = em_epochs if em_epochs is not None else options.get("em_epochs")
    given = {k: v for k, v in options.items() if v is not None}
    chosen = dataclasses.replace(base["options"], bucketed=True, **given)  # tables come in many sizes
    batch = min(chosen.batch_size, kept)
    sooner = "" if patience is None else f" (fewer, when {patience} of them make held-out series no likelier)"
    said.append(
        f"Training: {chosen.epochs} epochs{sooner}, then {chosen.num_em_epochs} on exact posteriors, {batch} series a step."
    )

    sampler = base["sampler"] if context is None else dataclasses.replace(base["sampler"], context=context)
    said.append(f"It sees {sampler.context[0]} to {sampler.context[1]} rows of a series at a time and predicts others.")

    states = 2 if small and series.channels == 1 else max(4, series.channels + 2)
    width = {"h_dim": SMALL_WIDTH, "r_dim": SMALL_WIDTH} if small else {}
    changes = {"l_dim": states, "z_dim": 2 * states, **width, **(sizes or {})}
    spec = base["spec"].replace(missing=series.channels > 1 or None, **changes)
    said.append(f"Networks of width {spec.h_dim}; {spec.l_dim} moving latents, {spec.z_dim - spec.l_dim} still ones.")
    return Choices(spec, sampler, chosen, held_out, folds), said


def _checked(count: int, held_out: int, folds: int) -> str:
    if held_out:
        return f"{held_out} of {count} series are kept from training, to check intervals on."
    if folds:
        return f"All {count} series are trained on; intervals are checked by {folds} models that each leave some of them out."
    return f"All {count} series are trained on, and none is left to check intervals on."
