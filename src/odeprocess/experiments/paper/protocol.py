"""How the paper trains and tests on each task, read from `paper.toml`."""

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
from odeprocess.training.options import FitOptions
from odeprocess.training.fit_result import Fit

DIGITS = {source.name: source for source in (rotating, variable_rotating)}


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How one task is trained and tested: by default RMSprop at 1e-3, no scaling, the first point always in the context.

    Attributes:
        name: of the task and of its data source.
        train: number of training series.
        test: number of test series.
        batch_size: series in a step.
        context: least and most context points in training.
        test_context: context points of a test series.
        epochs: passes over the training series.
        extra: least and most extra target points in training; `None` for all points.
        validation: series that choose the epoch; without any the last epoch counts.
        patience: epochs without a better validation score after which training stops.
        evaluate_every: epochs between two points of the curve of test errors.
        optimiser: `"rmsprop"` or `"adam"`.
        learning_rate: of it.
        schedule: of the learning rate.
        copies: turns of every training digit (images only).
        restarts: of how many of its first frames each training series makes a beginning (images only).
        start: how weights begin.
        noise_start: where a learned σ begins.
        scaled_times: whether times are scaled to [−2, 2] instead of taken as they are.
        fresh: series drawn anew to test on, where the source can draw them.
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
        """How training tasks are drawn."""
        return TaskSampler(context=self.context, extra=self.extra, first_point=True, empty=0.0)

    @property
    def options(self) -> FitOptions:
        """How the paper optimises; validation series are given as many observations as test series."""
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
        """Fresh series of a task whose source can draw them."""
        checks.choice("name", self.name, tuple(SOURCES))
        return SOURCES[self.name].sample(num_series, key=key, noise=noise)

    def spec(self, name: str, **changes: Any) -> Spec:
        """A variant, started where and as the paper starts it and with the noise floor of its released code."""
        started = {"t0": SOURCES[self.name].t0} if self.name in SOURCES else {}
        begun = {"start": self.start, "noise_start": self.noise_start}
        return variant(name, **{**started, "noise_floor": 0.1, **begun, **changes})

    def test_tasks(self, series: Series, *, key: Any, first_point: bool = True) -> Task:
        """Test tasks: a fixed number of context points, all points as targets."""
        size = (self.test_context, self.test_context)
        return TaskSampler(context=size, extra=None, first_point=first_point, empty=0.0).draw(series, key=key)

    def fit(self, spec: Spec | str, series: Series, **arguments: Any) -> Fit:
        """Trains as the paper does; `arguments` go to `fit`."""
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
        """So small that it only shows that everything runs."""
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
def paper() -> dict[str, Any]:
    """The whole of `paper.toml`."""
    return tomllib.loads(resources.files("odeprocess.experiments.paper").joinpath("paper.toml").read_text(encoding="utf-8"))


def protocol(name: str) -> Protocol:
    """The protocol of a task.

    Examples:
        >>> import odeprocess as odp
        >>> odp.experiments.protocol("lotka-volterra").test_context
        90
    """
    table = paper()["task"]
    checks.choice("protocol", name, tuple(table))
    row: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table[name].items()}
    return Protocol(name, **row)
