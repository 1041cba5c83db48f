"""a view: a model with what a page needs to know of it, in the units of its user."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_fields
from odeprocess.common.display_names import distinct, readable
from odeprocess.forecasting.covariates import Covariate
from odeprocess.forecasting.table_layout import Layout
from odeprocess.forecasting.transforms import Transform
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import damaged

GAUSSIAN = "Gaussian process"  # what stands beside any model, so no model is called so
NOTES = "playground"  # where `Model.info` keeps what a page should say of a model
KINDS = {"none": "Neural process", "first": "Neural ODE process", "second": "Second-order neural ODE process"}
MOST_CHANNELS = 4
MARGIN = 0.03  # of the span of times, shown on both sides
SPREADS = 3.0  # standard deviations of the training values that are shown
WIDEST = 1e300  # of what can be shown, so that a width of it is finite
LONGEST_TEXT = 2000  # characters about a model
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
    """A model on show.

    Attributes:
        name: what the page and the code call it.
        model: the model.
        folder: where it was read from; `None` if that is not known, and then no code can be saved.
        title: a line about it.
        about: what it was trained on, in a sentence or two.
        time: what times are.
        values: what the channels are.
        span: the first and the last time of training.
        ranges: lowest and highest value shown, for each channel.
        transforms: between the user's values and the model's.
        covariates: the static columns, for a model of a `Forecaster`.
        static: what the covariates are.
        beside: names and models to show beside it.
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
    transforms: tuple[Transform, ...]
    covariates: tuple[Covariate, ...] = ()
    static: tuple[str, ...] = ()
    beside: dict[str, "ModelView"] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> "ModelView":
        """From a model folder, written by `Model.save` or `Forecaster.save`.

        Raises:
            ValueError: where a page cannot show it.
        """
        shown = cls._alone(Path(folder))
        with damaged(folder):
            beside = _notes(shown.model).get("beside", {})
            for name in beside.values():
                good = name not in ("", ".", "..") and Path(name).name == name and "\0" not in name
                checks.require(good, f"`info.{NOTES}.beside` names {name[:60]!r}; expected the name of a folder inside this one.")
        titles = zip(_titles(beside), beside.values(), strict=True)
        return dataclasses.replace(shown, beside={title: cls._alone(Path(folder) / name) for title, name in titles})

    @classmethod
    def _alone(cls, folder: Path) -> "ModelView":
        model = Model.load(folder)
        with damaged(folder):
            return dataclasses.replace(cls.of(folder.resolve().name, model), folder=folder)

    @classmethod
    def of(cls, name: str, model: Model) -> "ModelView":
        """From a model that is at hand."""
        notes, layout, channels = _notes(model), Layout.of_model(model), model.spec.channels or 1
        checks.require(
            channels <= MOST_CHANNELS,
            f"{name} is a model of {channels} channels; the playground shows {MOST_CHANNELS} at most.",
        )
        scaling, spec = model.scaling, model.spec
        transforms = layout.transforms if layout else (Transform(),) * channels
        start = (spec.t0 or 0.0) * scaling.t_scale + scaling.t_shift
        stop = start + (spec.horizon or 1.0) * scaling.t_scale
        ends = scaling.y_shift + SPREADS * scaling.y_scale * np.array([[-1.0], [1.0]])
        seen = [np.clip(each.inverse(ends[:, k]), -WIDEST, WIDEST) for k, each in enumerate(transforms)]
        columns = layout.columns if layout else None
        own = {
            "title": name,
            "about": f"Your model {name}: {spec.variant}, {model.num_parameters} parameters.",
            "time": columns.time if columns else "time",
            "values": columns.values if columns else tuple(f"y{k + 1}" for k in range(channels)) if channels > 1 else ("y",),
            "span": layout.horizon if layout else (start, stop),
            "static": columns.static if columns else tuple(f"static {k + 1}" for k in range(spec.static_dim or 0)),
            "ranges": [(float(low), float(high)) for low, high in seen],
        }
        said: dict[str, Any] = {**own, **{k: v for k, v in notes.items() if k in own}}
        for field in ("values", "static"):
            expected = len(own[field])
            good = len(said[field]) == expected
            checks.require(good, f"`info.{NOTES}.{field}` has {len(said[field])} entries; expected {expected}.")
            said[field] = tuple(map(readable, said[field]))
        said |= {"title": readable(said["title"]), "about": readable(said["about"], LONGEST_TEXT), "time": readable(said["time"])}
        said["span"], said["ranges"] = _ends("span", [said["span"]], 1)[0], _ends("ranges", said["ranges"], channels)
        covariates = layout.covariates if layout else ()
        return cls(name, model, None, **said, transforms=transforms, covariates=covariates)

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return len(self.values)

    @property
    def kind(self) -> str:
        """What the model is, in words."""
        return KINDS.get(self.model.spec.dynamics, self.model.spec.variant)

    @property
    def window(self) -> tuple[float, float]:
        """The times that are shown."""
        low, high = self.span
        return low - MARGIN * (high - low), high + MARGIN * (high - low)

    @property
    def usual(self) -> np.ndarray:
        """Covariates of a series like those in training, `[k]`: about their means, and of categories the first."""
        usual, place = np.array([float(f"{mean:.3g}") for mean in self.model.scaling.static_shift]), 0
        for each in self.covariates:
            if each.categories:
                usual[place : place + each.width] = np.arange(each.width) == 0
            place += each.width
        return usual

    def into_model(self, y: np.ndarray) -> np.ndarray:
        """The model's values of the user's, `[..., channels]`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.stack([each.forward(y[..., k]) for k, each in enumerate(self.transforms)], -1)

    def from_model(self, x: np.ndarray) -> np.ndarray:
        """The user's values of the model's, `[..., channels]`."""
        return np.stack([each.inverse(x[..., k]) for k, each in enumerate(self.transforms)], -1)

    def shaken(self, y: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Values with errors `by`, in standard deviations of the training data; what is positive stays so."""
        return self.from_model(self.into_model(y) + by * self.model.scaling.y_scale)

    def check(self, y: np.ndarray) -> None:
        """Raises where a value is none that the model can have."""
        for k, transform in enumerate(self.transforms):
            if transform.name == "identity":
                continue
            bad = y[..., k] <= 0 if transform.name == "log" else y[..., k] < 0
            if bad.any():
                least = "above" if transform.name == "log" else "of at least"
                raise ValueError(f"A value of {self.values[k]} is {y[..., k][bad][0]:g}; expected values {least} 0.")


def _titles(names: Iterable[str]) -> list[str]:
    """Readable titles, no two alike."""
    return list(distinct([GAUSSIAN, *names]))[1:]


def _notes(model: Model) -> dict[str, Any]:
    """What a page should say of a model, as it was written down, each field checked; fields that nobody knows are left alone."""
    notes = model.info.get(NOTES, {})
    checks.require(isinstance(notes, dict), f"`info.{NOTES}` is a {type(notes).__name__}; expected fields by name.")
    return read_fields(FIELDS, {k: v for k, v in notes.items() if k in FIELDS}, f"info.{NOTES}")


def _ends(field: str, pairs: Any, count: int) -> tuple[tuple[float, float], ...]:
    good = len(pairs) == count and all(-WIDEST <= low < high <= WIDEST for low, high in pairs)
    checks.require(good, f"`info.{NOTES}.{field}` is {str(pairs)[:100]}; expected {count} pair(s) of a number and a larger one.")
    return tuple((float(low), float(high)) for low, high in pairs)


def load_views(folders: list[Path]) -> dict[str, ModelView]:
    """Exhibits by the names they are chosen by; models of the same variables are shown beside each other."""
    views, titles = [ModelView.load(folder) for folder in folders], []
    for view, folder in zip(views, folders, strict=True):
        titles.append(view.title if view.title not in titles else str(folder))
    found = {title: dataclasses.replace(x, title=title) for title, x in zip(_titles(titles), views, strict=True)}
    return {
        title: dataclasses.replace(each, beside={**each.beside, **{k: x for k, x in found.items() if _comparable(each, x)}})
        for title, each in found.items()
    }


def _comparable(one: ModelView, other: ModelView) -> bool:
    if one is other:
        return False
    same = (one.values, one.covariates, one.transforms) == (other.values, other.covariates, other.transforms)
    widths = len(one.model.scaling.static_scale) == len(other.model.scaling.static_scale)
    return same and widths and max(one.span[0], other.span[0]) < min(one.span[1], other.span[1])
