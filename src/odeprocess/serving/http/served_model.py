"""A model as the server offers it: with a name, in the units of the user who fitted it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common.display_names import readable
from odeprocess.forecasting.covariates import Covariate
from odeprocess.forecasting.user_units import UserUnits
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import damaged
from odeprocess.posterior.posterior import Posterior

from .errors import conflict


@dataclasses.dataclass(frozen=True, eq=False)
class ServedModel:
    """A model with a name and its user's units.

    Attributes:
        name: by which clients choose it.
        model: the model.
        units: names of channels and covariates, and the transforms of values.
    """

    name: str
    model: Model
    units: UserUnits

    @classmethod
    def of(cls, name: str, model: Model) -> "ServedModel":
        """Names a model; its units are those of the forecaster that saved it, if one did."""
        return cls(name, model, UserUnits.of_model(model))

    @classmethod
    def load(cls, folder: str | Path) -> "ServedModel":
        """Reads a model folder, whose name becomes the model's."""
        path = Path(folder)
        model = Model.load(path)
        with damaged(path):
            return cls.of(readable(path.resolve().name), model)

    @property
    def span(self) -> tuple[float, float]:
        """The first and last training time, in the user's units, from the origin of a series."""
        spec, scaling = self.model.spec, self.model.scaling
        assert spec.t0 is not None and spec.horizon is not None
        start, end = (float(x * scaling.t_scale + scaling.t_shift) for x in (spec.t0, spec.t0 + spec.horizon))
        return start, end

    def notes(self, posterior: Posterior, times: np.ndarray) -> list[str]:
        """Warnings about observations, or times of a question, that lie outside the training ranges."""
        training_range, record = self.model.scaling.training_range, posterior.record
        if training_range is None:
            return []
        origin = record.origins[0]
        (t, y), *_ = record.observations()
        notes = [training_range.times_note(np.concatenate([t, times]) - origin)]
        if training_range.beyond_values(y).any():
            notes.append("Observed values lie far outside the range of the training series; predictions for them are unreliable.")
        return [note for note in notes if note is not None]

    def read_values(self, rows: list[list[float | None]]) -> np.ndarray:
        """Converts values of observations to the model's, `[n, channels]`, NaN where missing."""
        channels = self.units.channels
        for i, row in enumerate(rows):
            if len(row) != len(channels):
                names = ", ".join(channels[:8])
                message = f"There are {len(row)} value(s) at a time; model {self.name!r} has {len(channels)}: {names}."
                raise conflict("channels", message, f"body.observations.{i}.y")
        y = np.array(rows, np.float64).reshape(len(rows), len(channels))
        invalid = self.units.find_invalid(y)
        if invalid is not None:
            i, j = invalid
            message = f"`{channels[j]}` is {y[i, j]:g}; the model was fitted on values {self.units.transforms[j].domain}."
            raise conflict("value", message, f"body.observations.{i}.y.{j}")
        return self.units.to_model(y)

    def read_static(self, values: list[float | str] | None) -> np.ndarray | None:
        """Converts covariates to the model's, `[k]`, or `None` if the model has none."""
        given, covariates = values or [], self.units.covariates
        if len(given) != len(covariates):
            names = ", ".join(each.column for each in covariates)
            message = (
                f"There are {len(given)} covariate(s); model {self.name!r} needs {len(covariates)}{': ' if names else ''}{names}."
            )
            raise conflict("covariates", message, "body.static")
        if not covariates:
            return None
        return np.concatenate([_encode(*pair) for pair in zip(covariates, given, strict=True)])

    def predict(self, posterior: Posterior, times: np.ndarray, level: float, of: Any) -> dict[str, np.ndarray]:
        """Mean, standard deviation and interval `[m, channels]`, and draws `[n, m, channels]`, of a batch of one series."""
        times = times[None]
        low, high = (end[0] for end in self.units.interval(posterior, times, level, of))
        draws = self.units.sample(posterior, times, of="function")[0]
        if of == "function":
            mean, std = draws.mean(0), draws.std(0)
        else:
            mean, std = (x[0] for x in self.units.moments(posterior, times))
        return {"mean": mean, "std": std, "low": low, "high": high, "draws": draws}


def _encode(covariate: Covariate, value: float | str) -> np.ndarray:
    name, categories = covariate.column, covariate.categories
    if categories is None:
        if isinstance(value, str):
            raise conflict("covariates", f"Covariate `{name}` is {value!r}; expected a number.", "body.static")
        return np.array([value], np.float64)
    if value not in categories:
        listed = ", ".join(map(repr, categories[:8]))
        raise conflict("covariates", f"Covariate `{name}` is {value!r}; the model's categories are {listed}.", "body.static")
    return np.array([value == each for each in categories], np.float64)
