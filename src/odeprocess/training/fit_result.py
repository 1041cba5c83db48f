"""`Fit`: the result of training, with a model for each seed and the history."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.data.scaling import Scaling
from odeprocess.posterior.model import Model
from odeprocess.process import Spec

from .recipes import Recipe
from .training_state import History, TrainingState


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """The result of `fit`.

    Attributes:
        models: one for each seed; `None` for a seed whose training broke down.
        history: losses and scores by epoch and seed.
        best: the seed with the best validation score; without validation, with the lowest loss over the last tenth of epochs.
        skipped: the number of steps that were skipped because they were not finite, by seed.
        compile_seconds: the time until the end of the first epoch, less the median time of the others.
        train_seconds: the time of all epochs, less `compile_seconds`.
        recipe: how the model was trained, where `fit` chose it.
        scores: of the candidates, where there were several: held-out log predictive density, in nats a value of standardised
            data; −∞ for one whose training broke down.
    """

    models: tuple[Model | None, ...]
    history: History
    best: int
    skipped: np.ndarray
    compile_seconds: float
    train_seconds: float
    recipe: Recipe | None = None
    scores: dict[str, float] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Fit({self.models[self.best]!r}, best of {len(self.models)} seed(s), {len(self.history.seconds)} epochs)"

    @property
    def notes(self) -> list[str]:
        """What was chosen and why, in sentences."""
        notes = [] if self.recipe is None else list(self.recipe.notes)
        if self.scores:
            listed = ", ".join(
                f"{name} {score:.2f}" if np.isfinite(score) else f"{name} broke down" for name, score in self.scores.items()
            )
            notes.append(f"{self.model.spec.variant} was kept, by held-out log predictive density (nats a value): {listed}.")
        return notes

    @property
    def model(self) -> Model:
        """The model of the best seed."""
        found = self.models[self.best]
        assert found is not None
        return found


def collect_result(
    state: TrainingState, spec: Spec, scaling: Scaling, seeds: np.ndarray, *, max_bad_steps: int, validated: bool
) -> Fit:
    """The `Fit` of a training run that has ended."""
    history, broken, first_phase, em = state.history(), state.broken(max_bad_steps), state.first_phase, state.em
    kept, last, skipped = first_phase.best, first_phase.process, first_phase.skipped
    if em is not None:
        kept, last, skipped = em.process, em.process, skipped + em.skipped
    kept, last, skipped = jax.device_get((kept, last, skipped))
    best_score, best_epoch = jax.device_get((first_phase.best_score, first_phase.best_epoch))
    keep_best = validated & np.isfinite(best_score)
    models = []
    for i, seed in enumerate(seeds):
        process = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), kept if keep_best[i] else last)
        info = {
            "seed": int(seed),
            "epochs": state.epochs,
            "epoch": int(best_epoch[i]) if keep_best[i] else state.epochs,
            "em_epochs": state.num_em_epochs,
            "skipped_steps": int(skipped[i]),
        }
        models.append(None if broken[i] else Model(process, spec, scaling, info))
    if broken.any():
        warnings.warn(
            f"Training broke down for seed(s) {seeds[broken].tolist()}; their models are None. The other seeds were trained.",
            stacklevel=checks.depth_of_user(),
        )
    late = max(1, state.epochs // 10)  # the loss of a single epoch is noisy
    quality = np.where(keep_best, best_score, history.loss[-late:].mean(0))
    quality = np.where(broken | np.isnan(quality), np.inf, quality)
    seconds = history.seconds
    ordinary = float(np.median(seconds[1:])) if len(seconds) > 1 else 0.0
    return Fit(
        tuple(models),
        history,
        int(np.argmin(quality)),
        np.asarray(skipped),
        compile_seconds=float(seconds[0]) - ordinary,
        train_seconds=ordinary + float(seconds[1:].sum()),
    )
