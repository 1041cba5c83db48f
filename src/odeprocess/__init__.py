"""Neural ODE processes: distributions over trajectories, learned from many short, sparse, irregular series.

>>> import jax, odeprocess as odp
>>> series = odp.data.sines.sample(20, key=jax.random.key(0))
>>> model = odp.fit(series, "ndp", options=odp.FitOptions(epochs=1)).model
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
    "ExtrapolationWarning": "data.training_range",
    "Fit": "training.fit_result",
    "FitOptions": "training.options",
    "Forecaster": "forecasting.forecaster",
    "Functions": "posterior.functions",
    "Grid": "process",
    "History": "training.training_state",
    "Model": "posterior.model",
    "Posterior": "posterior.posterior",
    "Process": "process",
    "Scaling": "data.scaling",
    "Series": "data.series",
    "SolverWarning": "posterior.functions",
    "Spec": "process",
    "Stream": "streaming.stream",
    "Suggestion": "posterior.next_measurement",
    "Task": "data.tasks",
    "TaskSampler": "data.tasks",
    "TrainingError": "training.train",
    "VARIANTS": "process",
    "elbo": "training.objectives",
    "fit": "training.fit",
    "load": "posterior.model",
    "make_series": "data.series",
    "series_key": "posterior.series_keys",
    "series_keys": "posterior.series_keys",
    "score": "training.validation",
    "score_all": "training.validation",
    "solver_error": "posterior.solver_check",
    "suggest": "posterior.next_measurement",
    "variant": "process",
}
_MODULES = {"data": "data", "process": "process", "plots": "posterior.plots", "experiments": "experiments"}
__all__ = ["__version__", *sorted(_HOMES), *sorted(_MODULES)]  # pyright: ignore

if TYPE_CHECKING:
    from . import data as data, experiments as experiments, process as process
    from .data.scaling import Scaling as Scaling
    from .data.series import Series as Series, make_series as make_series
    from .data.tasks import Task as Task, TaskSampler as TaskSampler
    from .data.training_range import ExtrapolationWarning as ExtrapolationWarning
    from .forecasting.forecaster import Forecaster as Forecaster
    from .posterior import plots as plots
    from .posterior.functions import Functions as Functions, SolverWarning as SolverWarning
    from .posterior.model import Model as Model, load as load
    from .posterior.next_measurement import Suggestion as Suggestion, suggest as suggest
    from .posterior.posterior import Posterior as Posterior
    from .posterior.series_keys import series_key as series_key, series_keys as series_keys
    from .posterior.solver_check import solver_error as solver_error
    from .process import (
        VARIANTS as VARIANTS,
        Adaptive as Adaptive,
        Grid as Grid,
        Process as Process,
        Spec as Spec,
        variant as variant,
    )
    from .streaming.stream import Stream as Stream
    from .training.fit import fit as fit
    from .training.fit_result import Fit as Fit
    from .training.objectives import elbo as elbo
    from .training.options import FitOptions as FitOptions
    from .training.train import TrainingError as TrainingError
    from .training.training_state import History as History
    from .training.validation import score as score, score_all as score_all


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
