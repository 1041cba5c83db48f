"""The paper's protocols, read from `paper.toml`."""

import dataclasses
import tomllib
from importlib import resources
from typing import Any

from .. import checks
from ..data import SOURCES
from ..optimise import FitOptions
from ..process import Spec, variant
from ..scaling import Scaling
from ..series import Series
from ..tasks import Task, TaskSampler
from ..train import Fit, fit


@dataclasses.dataclass(frozen=True)
class Protocol:
    """How the paper trains and tests on one task: RMSprop at 1e-3, no scaling, the first point always in the context.

    Attributes:
        name: of the task and of its data source.
        train: number of training series.
        test: number of test series.
        batch_size: series in a step.
        context: least and most context points in training.
        extra: least and most extra target points in training.
        test_context: context points of a test series.
        epochs: passes over the training series.
    """

    name: str
    train: int
    test: int
    batch_size: int
    context: tuple[int, int]
    extra: tuple[int, int]
    test_context: int
    epochs: int

    @property
    def sampler(self) -> TaskSampler:
        """How training tasks are drawn."""
        return TaskSampler(context=self.context, extra=self.extra, first_point=True, empty=0.0)

    @property
    def options(self) -> FitOptions:
        """How the paper optimises."""
        return FitOptions(epochs=self.epochs, batch_size=self.batch_size, optimiser="rmsprop", learning_rate=1e-3)

    def series(self, num_series: int, *, key: Any, noise: float = 0.0) -> Series:
        """Fresh series of the task."""
        return SOURCES[self.name].sample(num_series, key=key, noise=noise)

    def spec(self, name: str, **changes: Any) -> Spec:
        """A variant, started where the paper starts it and with the noise floor of its released code."""
        return variant(name, **{"t0": SOURCES[self.name].t0, "noise_floor": 0.1, **changes})

    def test_tasks(self, series: Series, *, key: Any, first_point: bool = True) -> Task:
        """Test tasks: a fixed number of context points, all points as targets."""
        size = (self.test_context, self.test_context)
        return TaskSampler(context=size, extra=None, first_point=first_point, empty=0.0).draw(series, key=key)

    def fit(self, spec: Spec | str, series: Series, **arguments: Any) -> Fit:
        """Trains as the paper does; `arguments` go to `fit`."""
        spec = self.spec(spec) if isinstance(spec, str) else spec
        defaults = {
            "sampler": self.sampler,
            "options": self.options,
            "scaling": Scaling.identity(series.channels, series.static.shape[-1]),
        }
        return fit(spec, series, **{**defaults, **arguments})


def protocol(name: str) -> Protocol:
    """The protocol of a task.

    Example:
        >>> import odeprocess as odp
        >>> odp.experiments.protocol("lotka-volterra").test_context
        90
    """
    table = tomllib.loads(resources.files("odeprocess.experiments").joinpath("paper.toml").read_text(encoding="utf-8"))
    checks.choice("protocol", name, tuple(table))
    row = table[name]
    return Protocol(name, **{**row, "context": tuple(row["context"]), "extra": tuple(row["extra"])})
