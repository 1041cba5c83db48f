"""The paper's protocols: how models are trained and tested on each task, read from `protocols.toml`."""

import dataclasses
import functools
import tomllib
from importlib import resources
from typing import Any, Literal

from odeprocess.common import checks
from odeprocess.data import SOURCES, rotating, variable_rotating
from odeprocess.data.scaling import Scaling
from odeprocess.data.series import Series
from odeprocess.data.tasks import Task, TaskSampler
from odeprocess.process import Spec, variant
from odeprocess.training.fit import fit
from odeprocess.training.fit_result import Fit
from odeprocess.training.options import FitOptions

DIGITS = {source.name: source for source in (rotating, variable_rotating)}


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How models are trained and tested on a task: by default RMSprop at 1e-3, no scaling, the first point always in the context.

    Attributes:
        name: of the task and of its data source.
        train: number of training series.
        test: number of test series.
        batch_size: series in a gradient step.
        context: smallest and largest number of context points in training.
        test_context: context points of a test series.
        epochs: passes over the training series.
        extra: smallest and largest number of additional target points in training; `None` for all points.
        validation: number of validation series, which select the epoch; with 0 the last epoch is kept.
        patience: epochs without a better validation score after which training stops; `None` to train to the end.
        evaluate_every: epochs between two points of the curve of test errors.
        optimiser: `"rmsprop"` or `"adam"`.
        learning_rate: of the optimiser.
        schedule: of the learning rate.
        copies: random rotations of every training digit (images only).
        restarts: how many of its first frames serve as the beginning of a training series (images only).
        start: initialisation of the weights.
        noise_start: initial value of a learned σ, before its softplus.
        scaled_times: whether times are scaled to [−2, 2] instead of taken as they are.
        fresh: number of additional test series, where the source can simulate them.
        draws: latent draws behind the error of the mean.
    """

    name: str
    train: int
    test: int
    batch_size: int
    context: tuple[int, int]
    test_context: int
    epochs: int
    extra: tuple[int, int] | None = None
    validation: int = 0
    patience: int | None = None
    evaluate_every: int = 1
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    learning_rate: float = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    copies: int = 1
    restarts: int = 1
    start: Literal["wide", "pytorch"] = "wide"
    noise_start: float = 0.0
    scaled_times: bool = False
    fresh: int = 1000
    draws: int = 64

    @property
    def sampler(self) -> TaskSampler:
        """Draws the training tasks."""
        return TaskSampler(context=self.context, extra=self.extra, first_point=True, empty=0.0)

    @property
    def options(self) -> FitOptions:
        """The options of training; validation series have as many context points as test series."""
        return FitOptions(
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimiser=self.optimiser,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            patience=self.patience,
            evaluate_every=min(self.evaluate_every, self.epochs),
            validation_context=self.test_context,
            validation_draws=1,
            validation_context_scored=True,
            keep="best" if self.validation else "last",
        )

    def series(self, num_series: int, *, key: Any, noise: float = 0.0) -> Series:
        """Simulates series of the task."""
        checks.choice("name", self.name, tuple(SOURCES))
        return SOURCES[self.name].sample(num_series, key=key, noise=noise)

    def spec(self, name: str, **changes: Any) -> Spec:
        """A variant with the paper's initialisation and initial time, and the noise floor of the released code."""
        time = {"t0": SOURCES[self.name].t0} if self.name in SOURCES else {}
        defaults = {**time, "noise_floor": 0.1, "start": self.start, "noise_start": self.noise_start}
        return variant(name, **{**defaults, **changes})

    def test_tasks(self, series: Series, *, key: Any, first_point: bool = True) -> Task:
        """Makes test tasks: a fixed number of context points, all points as targets."""
        size = (self.test_context, self.test_context)
        return TaskSampler(context=size, extra=None, first_point=first_point, empty=0.0).draw(series, key=key)

    def fit(self, spec: Spec | str, series: Series, **arguments: Any) -> Fit:
        """Trains by the protocol; `arguments` are passed to `odeprocess.fit`."""
        spec = self.spec(spec) if isinstance(spec, str) else spec
        scaling = Scaling.identity(series.channels, series.static.shape[-1])
        if self.scaled_times:
            scaling = Scaling.fit(series, values=False)
        defaults = {"sampler": self.sampler, "options": self.options, "scaling": scaling}
        return fit(series, spec, **{**defaults, **arguments})

    def replace(self, **changes: Any) -> "Protocol":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def quick(self) -> "Protocol":
        """A rehearsal: a few series and two epochs, to see that everything runs."""
        batch = min(self.batch_size, 5)
        return self.replace(
            batch_size=batch,
            train=min(self.train, 2 * batch),
            validation=min(self.validation, 4),
            test=min(self.test, 4),
            epochs=2,
            evaluate_every=1,
            copies=1,
            restarts=min(self.restarts, 2),
            patience=None,
            fresh=8,
            draws=4,
        )


@functools.cache
def _read_protocols() -> dict[str, Any]:
    file = resources.files("odeprocess.experiments.paper").joinpath("protocols.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))["task"]


def protocol(name: str) -> Protocol:
    """The paper's protocol for a task.

    Examples:
        >>> import odeprocess as odp
        >>> odp.experiments.protocol("lotka-volterra").test_context
        90
    """
    table = _read_protocols()
    checks.choice("protocol", name, tuple(table))
    row: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table[name].items()}
    return Protocol(name, **row)
