"""Options of a fit, and the optimiser they describe."""

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
import optax

from odeprocess.common import checks

from .objectives import OBJECTIVES, WITH_KL

EM_PER_EPOCH = 3  # epochs of expectation–maximisation for each one before, by default; as on the scoreboard of docs/accuracy.md


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """How to train.

    Attributes:
        epochs: passes over the series.
        batch_size: series in a step, about: an epoch is cut into steps of equal size.
        optimiser: `"adam"`, or `"rmsprop"` with the meaning that PyTorch gives it, as in the paper.
        learning_rate: at its highest.
        schedule: `"constant"`, or `"cosine"`: a short warm-up, then down to zero at the last epoch.
        objective: what is maximised: `"elbo"` (the paper's), `"generative"` (for a process with a learned prior), `"importance"`
            weighted, `"renyi"` of order 1/2 or maximum `"likelihood"` (each with several `samples`). By default the second for
            a process with a learned prior and the first for others.
        kl_warm_up: the share of `epochs` in which the weight of the KL rises from 0 to 1, for the first two objectives: against
            latents that are given up before they are of use.
        horizon_growth: the share of `epochs` in which the time that tasks are taken from grows from a tenth of the horizon to
            all of it: for series with many ups and downs, which a flow learns from their beginning on.
        em_epochs: epochs of a second half in which a process with a learned prior learns from posteriors that are kept and made
            exact (expectation–maximisation). By default three times as many as `epochs` for such a process, and none for others.
        clip: the largest norm of a gradient, or `None` for no limit.
        samples: latent samples in the objective.
        patience: epochs without a better validation score after which training stops, or `None`.
        evaluate_every: epochs between evaluations on the validation series.
        validation_context: how many observations of a validation series are given, at random; the rest are scored. By
            default as many as in training: each series draws a number from the task sampler's range, once and for all.
        validation_draws: latent draws in an evaluation.
        validation_context_scored: whether the given observations are scored too, as the paper does.
        keep: the `"best"` epoch by the validation series' log density, or the `"last"`: they are then only watched.
        bucketed: whether the series are padded to one of few numbers of series and points, so that trainings on other numbers
            share their compiled programs. An epoch then has up to a quarter more steps, in which some series come twice.
        max_bad_steps: steps in a row with a loss or gradient that is not finite after which a seed is given up.
    """

    epochs: int = 200
    batch_size: int = 32
    optimiser: Literal["adam", "rmsprop"] = "adam"
    learning_rate: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    objective: Literal["elbo", "generative", "importance", "renyi", "likelihood"] | None = None
    kl_warm_up: float = 0.0
    horizon_growth: float = 0.0
    em_epochs: int | None = None
    clip: float | None = None
    samples: int = 1
    patience: int | None = None
    evaluate_every: int = 1
    validation_context: int | None = None
    validation_draws: int = 16
    validation_context_scored: bool = False
    keep: Literal["best", "last"] = "best"
    bucketed: bool = False
    max_bad_steps: int = 50

    def __post_init__(self):
        whole = ("epochs", "batch_size", "samples", "evaluate_every", "validation_draws", "max_bad_steps")
        for name in whole:
            checks.positive(name, getattr(self, name), integer=True)
        for name in ("learning_rate", "clip", "patience", "validation_context"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name), integer=name in ("patience", "validation_context"))
        checks.choice("optimiser", self.optimiser, ("adam", "rmsprop"))
        checks.choice("objective", self.objective, (None, *OBJECTIVES))
        checks.require(
            self.em_epochs is None or (isinstance(self.em_epochs, int) and self.em_epochs >= 0),
            f"`em_epochs` is {checks.shown(self.em_epochs)}; expected a number of epochs, 0 or more.",
        )
        for name in ("kl_warm_up", "horizon_growth"):
            value = getattr(self, name)
            good = checks.is_number(value) and 0.0 <= value <= 1.0
            checks.require(good, f"`{name}` is {checks.shown(value)}; expected a share of the epochs, from 0 to 1.")
        checks.choice("keep", self.keep, ("best", "last"))
        checks.choice("schedule", self.schedule, ("constant", "cosine"))

    def resolved(self, *, learned_prior: bool) -> "FitOptions":
        """These options with everything that was left open decided for a kind of process."""
        checks.require(
            learned_prior or (self.objective != "generative" and not self.em_epochs),
            "objective='generative' and `em_epochs` need a process with a learned prior: use variant(…, prior='learned').",
        )
        objective = self.objective or ("generative" if learned_prior else "elbo")
        checks.require(
            not self.kl_warm_up or objective in WITH_KL,
            f"`kl_warm_up` is {self.kl_warm_up}, but objective={objective!r} has no KL to warm up: use one of {list(WITH_KL)}.",
        )
        em_epochs = (EM_PER_EPOCH * self.epochs if learned_prior else 0) if self.em_epochs is None else self.em_epochs
        return dataclasses.replace(self, objective=objective, em_epochs=em_epochs)

    @property
    def num_em_epochs(self) -> int:
        """Epochs of the second half."""
        return self.em_epochs or 0

    def transformation(self, total: Any) -> optax.GradientTransformation:
        """The optimiser as Optax knows it, for `total` steps."""
        rate = cosine(self.learning_rate, total) if self.schedule == "cosine" else self.learning_rate
        if self.optimiser == "rmsprop":
            optimiser = optax.rmsprop(rate, decay=0.99, eps=1e-8, eps_in_sqrt=False)
        else:
            optimiser = optax.adam(rate)
        return optimiser if self.clip is None else optax.chain(optax.clip_by_global_norm(self.clip), optimiser)


def cosine(highest: float, total: Any) -> optax.Schedule:
    """Up in a twentieth of `total` steps, then down to zero along half a wave.

    As Optax's, which wants to know `total` when it is compiled: so training twice as long would compile anew.
    """
    total = jnp.maximum(jnp.asarray(total, jnp.float32), 2.0)
    warm = jnp.maximum(jnp.floor(total / 20.0), 1.0)

    def rate(count: Any) -> Any:
        count = jnp.asarray(count, jnp.float32)
        down = jnp.clip((count - warm) / (total - warm), 0.0, 1.0)
        return highest * jnp.where(count < warm, count / warm, 0.5 * (1.0 + jnp.cos(jnp.pi * down)))

    return rate
