"""A model on the page: its title, labels, shown ranges and units, and the models beside it.

Models can bring these texts and ranges in `Model.info["playground"]`; the fields are listed in `FIELDS`.
"""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_fields
from odeprocess.common.display_names import distinct, readable
from odeprocess.forecasting.table_layout import Layout
from odeprocess.forecasting.user_units import UserUnits
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import damaged

GAUSSIAN_PROCESS = "Gaussian process"  # the title of the comparison that every model has; no model gets this title
INFO_KEY = "playground"  # where `Model.info` keeps the fields below
KINDS = {"none": "Neural process", "first": "Neural ODE process", "second": "Second-order neural ODE process"}
MAX_CHANNELS = 4  # the plots of more do not fit on a screen
TIME_MARGIN = 0.03  # of the span of times, shown on both sides; chosen by hand
SHOWN_STDS = 3.0  # standard deviations of the training values, shown on both sides of their mean
LARGEST_END = 1e300  # of a range, so that its width is a finite number
MAX_ABOUT = 2000  # characters of the text about a model; chosen by hand
FIELDS = {
    "title": str,
    "about": str,
    "time": str,
    "values": list[str],
    "static": list[str],
    "span": tuple[float, float],
    "ranges": list[tuple[float, float]],
    "beside": dict[str, str],
}


@dataclasses.dataclass(frozen=True, eq=False)
class ModelView:
    """A model with the texts and ranges that the page needs.

    Attributes:
        name: of the model, in downloads.
        model: the model.
        folder: where it was read from; `None` if unknown, and then no code can be downloaded.
        title: the model's line in the menu.
        about: what it was trained on, in a sentence or two.
        time: the label of times.
        values: the labels of the channels.
        span: the first and the last training time.
        ranges: lowest and highest value shown, for each channel.
        units: the user's units.
        static: the labels of the covariates.
        beside: models that can be shown beside it, by title.
    """

    name: str
    model: Model
    folder: Path | None
    title: str
    about: str
    time: str
    values: tuple[str, ...]
    span: tuple[float, float]
    ranges: tuple[tuple[float, float], ...]
    units: UserUnits
    static: tuple[str, ...] = ()
    beside: dict[str, "ModelView"] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> "ModelView":
        """Reads a folder that `Model.save` or `Forecaster.save` wrote, and the models beside it.

        Raises:
            ValueError: if the page cannot show it.
        """
        view = cls._load_one(Path(folder))
        with damaged(folder):
            beside = _read_info(view.model).get("beside", {})
            for name in beside.values():
                good = name not in ("", ".", "..") and Path(name).name == name and "\0" not in name
                checks.require(
                    good, f"`info.{INFO_KEY}.beside` names {name[:60]!r}; expected the name of a folder inside this one."
                )
        titles = zip(_distinct_titles(beside), beside.values(), strict=True)
        return dataclasses.replace(view, beside={title: cls._load_one(Path(folder) / name) for title, name in titles})

    @classmethod
    def _load_one(cls, folder: Path) -> "ModelView":
        model = Model.load(folder)
        with damaged(folder):
            return dataclasses.replace(cls.of(folder.resolve().name, model), folder=folder)

    @classmethod
    def of(cls, name: str, model: Model) -> "ModelView":
        """Makes a view of a model in memory."""
        channels, scaling, spec = model.spec.channels or 1, model.scaling, model.spec
        checks.require(
            channels <= MAX_CHANNELS,
            f"{name} is a model of {channels} channels; the playground shows {MAX_CHANNELS} at most.",
        )
        info, layout, units = _read_info(model), Layout.of_model(model), UserUnits.of_model(model)
        start = (spec.t0 or 0.0) * scaling.t_scale + scaling.t_shift
        stop = start + (spec.horizon or 1.0) * scaling.t_scale
        ends = units.to_user(scaling.y_shift + SHOWN_STDS * scaling.y_scale * np.array([[-1.0], [1.0]]))
        columns = layout.columns if layout else None
        defaults = {
            "title": name,
            "about": f"Your model {name}: {spec.variant}, {model.num_parameters} parameters.",
            "time": columns.time if columns else "time",
            "values": units.channels,
            "span": layout.horizon if layout else (start, stop),
            "static": columns.static if columns else tuple(f"static {k + 1}" for k in range(spec.static_dim or 0)),
            "ranges": np.clip(ends, -LARGEST_END, LARGEST_END).T.tolist(),
        }
        fields: dict[str, Any] = {**defaults, **{k: v for k, v in info.items() if k in defaults}}
        for field in ("values", "static"):
            expected = len(defaults[field])
            good = len(fields[field]) == expected
            checks.require(good, f"`info.{INFO_KEY}.{field}` has {len(fields[field])} entries; expected {expected}.")
            fields[field] = tuple(map(readable, fields[field]))
        fields |= {"title": readable(fields["title"]), "about": readable(fields["about"], MAX_ABOUT)}
        fields |= {"time": readable(fields["time"]), "span": _check_ranges("span", [fields["span"]], 1)[0]}
        fields["ranges"] = _check_ranges("ranges", fields["ranges"], channels)
        return cls(name, model, None, **fields, units=units)

    @property
    def channels(self) -> int:
        """The number of channels."""
        return len(self.values)

    @property
    def kind(self) -> str:
        """The kind of the model, in words."""
        return KINDS.get(self.model.spec.dynamics, self.model.spec.variant)

    @property
    def window(self) -> tuple[float, float]:
        """The first and the last time shown."""
        low, high = self.span
        return low - TIME_MARGIN * (high - low), high + TIME_MARGIN * (high - low)

    @property
    def typical_static(self) -> np.ndarray:
        """Covariates of a typical training series, `[k]`."""
        return self.units.typical_covariates(self.model.scaling)

    def add_noise(self, y: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """Adds errors, in standard deviations of training, to the model's values, so that positive values stay positive."""
        return self.units.to_user(self.units.to_model(y) + errors * self.model.scaling.y_scale)

    def check_values(self, y: np.ndarray) -> None:
        """Raises if a value `[…, channels]` is outside the domain of the model's transform."""
        invalid = self.units.find_invalid(y)
        if invalid is not None:
            k = invalid[-1]
            raise ValueError(f"A value of {self.values[k]} is {y[invalid]:g}; expected values {self.units.transforms[k].domain}.")


def load_views(folders: list[Path]) -> dict[str, ModelView]:
    """Loads models, by title; models of the same variables can be shown beside each other."""
    views, titles = [ModelView.load(folder) for folder in folders], []
    for view, folder in zip(views, folders, strict=True):
        titles.append(view.title if view.title not in titles else str(folder))
    found = {title: dataclasses.replace(x, title=title) for title, x in zip(_distinct_titles(titles), views, strict=True)}
    return {
        title: dataclasses.replace(each, beside={**each.beside, **{k: x for k, x in found.items() if _comparable(each, x)}})
        for title, each in found.items()
    }


def _comparable(one: ModelView, other: ModelView) -> bool:
    """Whether two models have the same variables and units, and training times in common."""
    if one is other:
        return False
    same_values = (one.values, one.units.transforms) == (other.values, other.units.transforms)
    same_static = one.units.covariates == other.units.covariates
    widths = len(one.model.scaling.static_scale) == len(other.model.scaling.static_scale)
    return same_values and same_static and widths and max(one.span[0], other.span[0]) < min(one.span[1], other.span[1])


def _distinct_titles(names: Iterable[str]) -> list[str]:
    """Readable titles, no two alike."""
    return list(distinct([GAUSSIAN_PROCESS, *names]))[1:]


def _read_info(model: Model) -> dict[str, Any]:
    """Reads and checks the fields about the page in a model's info; ignores unknown ones."""
    info = model.info.get(INFO_KEY, {})
    checks.require(isinstance(info, dict), f"`info.{INFO_KEY}` is a {type(info).__name__}; expected fields by name.")
    return read_fields(FIELDS, {k: v for k, v in info.items() if k in FIELDS}, f"info.{INFO_KEY}")


def _check_ranges(field: str, pairs: Any, count: int) -> tuple[tuple[float, float], ...]:
    good = len(pairs) == count and all(-LARGEST_END <= low < high <= LARGEST_END for low, high in pairs)
    checks.require(
        good, f"`info.{INFO_KEY}.{field}` is {str(pairs)[:100]}; expected {count} pair(s) of a number and a larger one."
    )
    return tuple((float(low), float(high)) for low, high in pairs)
