"""Neural ODE processes: distributions over trajectories, learned from many short, sparse, irregular series.

>>> import jax, odeprocess as odp
>>> series = odp.data.sines.sample(20, key=jax.random.key(0))
>>> model = odp.fit("ndp", series, options=odp.FitOptions(epochs=1)).model
>>> posterior = model.condition([0.0, 1.0], [0.1, 0.8], key=jax.random.key(1))
>>> posterior.mean([0.0, 0.5, 1.0]).shape
(3, 1)

Names are loaded when they are first used: importing JAX takes seconds, and `--help` should not.
"""

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

_HOMES = {
    "Adaptive": "process",
    "ExtrapolationWarning": "reach",
    "Fit": "outcome",
    "FitOptions": "optimise",
    "Forecaster": "forecaster",
    "Functions": "functions",
    "Grid": "process",
    "History": "course",
    "Model": "model",
    "Posterior": "posterior",
    "Process": "process",
    "Scaling": "scaling",
    "Series": "series",
    "SolverWarning": "functions",
    "Spec": "process",
    "Stream": "stream",
    "Suggestion": "design",
    "Task": "tasks",
    "TaskSampler": "tasks",
    "TrainingError": "train",
    "VARIANTS": "process",
    "elbo": "objectives",
    "fit": "train",
    "learn": "contest",
    "load": "model",
    "make_series": "series",
    "recipe": "recipes",
    "score": "metrics",
    "score_all": "metrics",
    "solver_error": "diagnostics",
    "suggest": "design",
    "variant": "process",
}
_MODULES = {"data", "process", "plots", "experiments"}
__all__ = ["__version__", *sorted(_HOMES), "data", "experiments", "plots", "process"]  # pyright: ignore

if TYPE_CHECKING:
    from . import data as data, experiments as experiments, plots as plots, process as process
    from .contest import learn as learn
    from .course import History as History
    from .design import Suggestion as Suggestion, suggest as suggest
    from .diagnostics import solver_error as solver_error
    from .forecaster import Forecaster as Forecaster
    from .functions import Functions as Functions, SolverWarning as SolverWarning
    from .metrics import score as score, score_all as score_all
    from .model import Model as Model, load as load
    from .objectives import elbo as elbo
    from .optimise import FitOptions as FitOptions
    from .outcome import Fit as Fit
    from .posterior import Posterior as Posterior
    from .process import (
        VARIANTS as VARIANTS,
        Adaptive as Adaptive,
        Grid as Grid,
        Process as Process,
        Spec as Spec,
        variant as variant,
    )
    from .reach import ExtrapolationWarning as ExtrapolationWarning
    from .recipes import recipe as recipe
    from .scaling import Scaling as Scaling
    from .series import Series as Series, make_series as make_series
    from .stream import Stream as Stream
    from .tasks import Task as Task, TaskSampler as TaskSampler
    from .train import TrainingError as TrainingError, fit as fit


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
