"""A model as the server offers it: under a name, in the units of whoever fitted it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common.display_names import readable
from odeprocess.forecasting.covariates import Covariate
from odeprocess.forecasting.prediction_tables import moments
from odeprocess.forecasting.table_layout import Layout
from odeprocess.forecasting.transforms import Transform
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import damaged
from odeprocess.posterior.posterior import Posterior

from .errors import conflict


@dataclasses.dataclass(frozen=True, eq=False)
class ServedModel:
    """A model, and how its channels and covariates are called and read.

    Attributes:
        name: of the model.
        model: the model.
        channels: names of the channels.
        transforms: of each channel, from the user's values to the model's.
        covariates: of a series.
    """

    name: str
    model: Model
    channels: tuple[str, ...]
    transforms: tuple[Transform, ...]
    covariates: tuple[Covariate, ...]

    @classmethod
    def of(cls, name: str, model: Model) -> "ServedModel":
        """A model as it is, or with the columns and transforms of the forecaster that it was saved by."""
        layout = Layout.of_model(model)
        if layout is not None:
            return cls(name, model, layout.columns.values, layout.transforms, layout.covariates)
        channels, static = model.spec.channels or 1, model.spec.static_dim or 0
        names = tuple(f"y{i + 1}" for i in range(channels)) if channels > 1 else ("y",)
        return cls(name, model, names, (Transform(),) * channels, tuple(Covariate(f"x{i + 1}") for i in range(static)))

    @classmethod
    def load(cls, folder: str | Path) -> "ServedModel":
        """Reads a model folder; the model is called as the folder is."""
        path = Path(folder)
        model = Model.load(path)
        with damaged(path):
            return cls.of(readable(path.resolve().name), model)

    @property
    def span(self) -> tuple[float, float]:
        """The training times, in the user's units, from the origin of a series."""
        spec, scaling = self.model.spec, self.model.scaling
        assert spec.t0 is not None and spec.horizon is not None
        start, end = (float(x * scaling.t_scale + scaling.t_shift) for x in (spec.t0, spec.t0 + spec.horizon))
        return start, end

    def notes(self, posterior: Posterior, times: np.ndarray) -> list[str]:
        """What is to be said where a series, or what is asked about it, lies outside what the model was trained on."""
        reach, record = self.model.scaling.training_range, posterior.record
        if reach is None:
            return []
        origin = record.origins[0]
        (t, y), *_ = record.observations()
        late = reach.times_note(np.concatenate([t, times]) - origin)
        odd = "Values were observed that lie far outside those of the training series: the model has not learned what such do."
        return [*([] if late is None else [late]), *([odd] if reach.beyond_values(y).any() else [])]

    def read_values(self, rows: list[list[float | None]]) -> np.ndarray:
        """Values as the model takes them, `[n, channels]`, NaN where missing."""
        wanted = len(self.channels)
        for i, row in enumerate(rows):
            if len(row) != wanted:
                message = (
                    f"There are {len(row)} value(s) at a time; model {self.name!r} has {wanted}: {', '.join(self.channels[:8])}."
                )
                raise conflict("channels", message, f"body.observations.{i}.y")
        y = np.array(rows, np.float64).reshape(len(rows), wanted)
        for j, transform in enumerate(self.transforms):
            bad = np.flatnonzero(y[:, j] <= 0 if transform.name == "log" else y[:, j] < 0) if transform.name != "identity" else ()
            for i in bad:
                least = "above 0" if transform.name == "log" else "of at least 0"
                message = f"`{self.channels[j]}` is {y[i, j]:g}; the model was fitted on values {least}."
                raise conflict("value", message, f"body.observations.{i}.y.{j}")
            y[:, j] = transform.forward(y[:, j])
        return y

    def read_static(self, values: list[float | str] | None) -> np.ndarray | None:
        """Covariates as the model takes them."""
        given, names = values or [], [each.column for each in self.covariates]
        if len(given) != len(names):
            listed = f": {', '.join(names)}" if names else ""
            message = f"There are {len(given)} covariate(s); model {self.name!r} needs {len(names)}{listed}."
            raise conflict("covariates", message, "body.static")
        if not names:
            return None
        return np.concatenate([_encoded(*pair) for pair in zip(self.covariates, given, strict=True)])

    def predict(self, posterior: Posterior, times: np.ndarray, level: float, of: Any) -> dict[str, np.ndarray]:
        """Mean, standard deviation and interval `[m, channels]` and draws `[n, m, channels]` of a batch of one series."""
        asked = times[None]
        low, high = (self._inverse(np.asarray(x)[0]) for x in posterior.interval(asked, level, of=of))
        draws = self._inverse(np.asarray(posterior.sample(asked, of="function"))[0])
        if of == "function":
            mean, std = draws.mean(0), draws.std(0)
        else:
            mean, std = (x[0] for x in moments(posterior, asked, self.transforms))
        return {"mean": mean, "std": std, "low": low, "high": high, "draws": draws}

    def _inverse(self, x: np.ndarray) -> np.ndarray:
        return np.stack([transform.inverse(x[..., j]) for j, transform in enumerate(self.transforms)], -1)


def _encoded(covariate: Covariate, value: float | str) -> np.ndarray:
    known = covariate.categories
    if known is None:
        if isinstance(value, str):
            raise conflict("covariates", f"Covariate `{covariate.column}` is {value!r}; expected a number.", "body.static")
        return np.array([value], np.float64)
    if value not in known:
        listed = ", ".join(map(repr, known[:8]))
        raise conflict("covariates", f"Covariate `{covariate.column}` is {value!r}; the model knows {listed}.", "body.static")
    return np.array([value == each for each in known], np.float64)
