"""The conversion between a user's units and a model's: channel names, transforms of values, covariates.

Tables, the server and the playground all convert here.
"""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.data.scaling import Scaling
from odeprocess.posterior.model import Model
from odeprocess.posterior.posterior import Of, Posterior

from .covariates import Covariate
from .table_layout import Layout
from .transforms import Transform


@dataclasses.dataclass(frozen=True)
class UserUnits:
    """How a user names and measures the channels and covariates of a model.

    Attributes:
        channels: names of the channels.
        transforms: of each channel, from the user's values to the model's.
        covariates: of a series.
    """

    channels: tuple[str, ...]
    transforms: tuple[Transform, ...]
    covariates: tuple[Covariate, ...] = ()

    @classmethod
    def of_layout(cls, layout: Layout) -> "UserUnits":
        """The units of the tables that a layout describes."""
        return cls(layout.columns.values, layout.transforms, layout.covariates)

    @classmethod
    def of_model(cls, model: Model) -> "UserUnits":
        """The units of the forecaster that saved a model; those of the training series where no forecaster did."""
        layout = Layout.of_model(model)
        if layout is not None:
            return cls.of_layout(layout)
        channels, static_dim = model.spec.channels or 1, model.spec.static_dim or 0
        names = tuple(f"y{k + 1}" for k in range(channels)) if channels > 1 else ("y",)
        return cls(names, (Transform(),) * channels, tuple(Covariate(f"x{k + 1}") for k in range(static_dim)))

    def to_model(self, y: np.ndarray) -> np.ndarray:
        """The model's values of the user's, `[…, channels]`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.stack([each.forward(y[..., k]) for k, each in enumerate(self.transforms)], -1)

    def to_user(self, x: Any) -> np.ndarray:
        """The user's values of the model's, `[…, channels]`, in float64."""
        x = np.asarray(x, np.float64)
        return np.stack([each.inverse(x[..., k]) for k, each in enumerate(self.transforms)], -1)

    def find_invalid(self, y: np.ndarray) -> tuple[int, ...] | None:
        """The index of the first value `[…, channels]`, channel by channel, that its transform cannot take, or `None`."""
        for k, transform in enumerate(self.transforms):
            invalid = np.argwhere(transform.is_outside(y[..., k]))
            if len(invalid):
                return (*map(int, invalid[0]), k)
        return None

    def typical_covariates(self, scaling: Scaling) -> np.ndarray:
        """Covariates of a typical series, `[k]`: the training means, to three digits, and the first category of each column."""
        typical, start = np.array([float(f"{mean:.3g}") for mean in scaling.static_shift]), 0
        for each in self.covariates:
            if each.categories:
                typical[start : start + each.width] = np.arange(each.width) == 0
            start += each.width
        return typical

    def moments(self, posterior: Posterior, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of new measurements, `[series, m, channels]` each."""
        curves = np.asarray(posterior.sample(times, of="function"), np.float64)
        inside, whole = (np.asarray(posterior.std(times, of=of), np.float64) for of in ("function", "observations"))
        noise = np.sqrt(np.maximum(whole**2 - inside**2, 0.0))
        pairs = [each.moments(np.moveaxis(curves[..., k], 1, 0), noise[None, ..., k]) for k, each in enumerate(self.transforms)]
        mean, std = (np.stack(x, -1) for x in zip(*pairs, strict=True))
        return mean, std

    def interval(self, posterior: Posterior, times: np.ndarray, level: float, of: Of = "observations") -> list[np.ndarray]:
        """The ends of an interval, `[series, m, channels]` each, or `[m, channels]` of a single series."""
        return [self.to_user(end) for end in posterior.interval(times, level, of=of)]

    def quantiles(self, posterior: Posterior, times: np.ndarray, levels: list[float]) -> np.ndarray:
        """Quantiles of new measurements, `[levels, series, m, channels]`."""
        if not levels:
            return np.zeros((0, *times.shape, len(self.transforms)))
        return self.to_user(posterior.quantile(times, levels))

    def sample(self, posterior: Posterior, times: np.ndarray, n: int | None = None, of: Of = "observations") -> np.ndarray:
        """Draws, `[series, n, m, channels]`, or `[n, m, channels]` of a single series."""
        return self.to_user(posterior.sample(times, n, of=of))

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """What to add to the log density of the model's values to get that of the user's, `[…, channels]`."""
        return np.stack([each.log_slope(y[..., k]) for k, each in enumerate(self.transforms)], -1)
