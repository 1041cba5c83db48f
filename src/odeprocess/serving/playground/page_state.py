"""One visitor's session without a page: the chosen model, its observations, the settings, and what the models say."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.posterior.posterior import Of

from .csv_upload import read_csv
from .model_view import GAUSSIAN, ModelView
from .observations import Observations
from .predictions import Prediction, Question, gaussian, grid, predict, suggested
from .figure_download import draw, png
from .script_download import program


@dataclasses.dataclass
class Settings:
    """What the controls say.

    Attributes:
        level: of the band.
        of: whether the band is that of the curve or of new measurements.
        draws: how many are shown.
        noise: of the errors that shake the observations, in standard deviations of the training data.
        refine: whether posteriors are worked out on the observations when a user pauses.
        beside: titles of what is shown beside the model.
    """

    level: float = 0.9
    of: Of = "function"
    draws: int = 20
    noise: float = 0.0
    refine: bool = False
    beside: tuple[str, ...] = ()


class Session:
    """What a page shows, and all that can be done to it; each view keeps its own observations."""

    def __init__(self, views: dict[str, ModelView]):
        """Begins with the first view."""
        self.views, self.settings = views, Settings()
        self._kept: dict[str, Observations] = {}
        self._statics: dict[str, np.ndarray] = {}
        self.choose(next(iter(views)))

    def choose(self, title: str) -> None:
        """Puts another view on show."""
        self.title, self.view = title, self.views[title]
        self.observations = self._kept.setdefault(title, Observations(self.view.channels))
        self.settings.refine = self.view.model.spec.prior == "learned"  # where it pays off
        self.settings.beside = tuple(x for x in self.settings.beside if x in (*self.view.beside, GAUSSIAN))

    @property
    def static(self) -> np.ndarray:
        """The covariates of the series on show."""
        return self._statics.setdefault(self.title, self.view.usual)

    def state(self) -> Any:
        """What a user has entered for the view on show."""
        return self.observations.rows, self.static.copy()

    def restore(self, state: Any) -> None:
        """Goes back to what was entered then."""
        self.observations.rows, self.static[:] = state

    def columns(self) -> dict[str, ModelView | None]:
        """What is shown, by title, the chosen model first; `None` stands for a Gaussian process."""
        taken = {*self.view.beside, GAUSSIAN}
        options = (self.view.kind, self.view.title, *(f"{self.view.kind} ({i})" for i in range(1, len(taken) + 2)))
        first = next(title for title in options if title not in taken)
        beside = {title: self.view.beside.get(title) for title in self.settings.beside}
        return {first: self.view, **beside}

    def add(self, channel: int, t: float, value: float) -> None:
        """A click: an observation of one channel; of a model that must have all, the others begin at their means."""
        y = np.full(self.view.channels, np.nan)
        if not self.view.model.spec.missing and self.view.channels > 1:
            y = predict(self.view, self.question(), times=np.array([t])).mean[0]
        y[channel] = value
        self.view.check(y)
        self.observations.add(t, y.tolist())

    def move(self, place: int, t: float, channel: int, value: float) -> None:
        """A step of a drag: what is shown at `value` has an error of its own, which stays."""
        self.observations.move(place, t, channel, self._unshaken(place, channel, value))

    def put(self, place: int, t: float, y: list[float]) -> None:
        """Sets a whole observation as it is shown; place −1 adds one."""
        values = np.array(y, np.float64)
        self.view.check(values)
        self._check_complete(values)
        if place < 0:
            self.observations.add(t, y)
            return
        self.observations.remember()
        for k in np.argsort(np.isnan(values)):  # values first, so that a row is never empty in between
            self.observations.move(place, t, int(k), self._unshaken(place, int(k), y[k]))

    def load(self, content: bytes) -> str:
        """Takes the observations of a CSV file in place of these; says what was loaded."""
        rows, said = read_csv(content, self.view)
        for _, y in rows:
            self.view.check(np.array(y))
            self._check_complete(np.array(y))
        self.observations.load(rows)
        return said

    def shown(self) -> tuple[np.ndarray, np.ndarray]:
        """The observations as they are shown and given to the models."""
        t, y, error = self.observations.arrays()
        return t, self.view.shaken(y, self.settings.noise * error) if self.settings.noise else y

    def question(self) -> Question:
        """What every model is asked."""
        return Question(*self.shown(), self.static, self.settings.level, self.settings.of)

    def predictions(self, *, refine: bool = False) -> dict[str, Prediction]:
        """What the models say, at once or after more work on those that are to be refined; no Gaussian process among them."""
        question, times = self.question(), grid(self.view)
        found = {title: each for title, each in self.columns().items() if each is not None}
        return {
            title: predict(each, question, times=times, refine=refine and self.refines(each)) for title, each in found.items()
        }

    def refines(self, view: ModelView) -> bool:
        """Whether a view's posterior is refined in the end: where it was asked for, and beside it where it pays off."""
        return self.settings.refine and (view is self.view or view.model.spec.prior == "learned")

    def baseline(self) -> Prediction:
        """What a Gaussian process says."""
        return gaussian(self.view, self.question())

    def suggestion(self) -> float:
        """When to measure next."""
        return suggested(self.view, self.question(), refine=self.settings.refine)

    def picture(self, ranges: Any) -> bytes:
        """What is shown, refined where that was asked for, as a PNG file."""
        settings, view, question = self.settings, self.view, self.question()
        found = self.predictions(refine=True)
        answers = {title: self.baseline() if each is None else found[title] for title, each in self.columns().items()}
        names = {"names": view.values, "time": view.time}
        return png(draw(question.t, question.y, answers, **names, ranges=ranges, level=question.level, shown=settings.draws))

    def program(self, ranges: Any) -> str:
        """A program that draws the same picture."""
        columns = self.columns()
        refined = [title for title, each in columns.items() if each is not None and self.refines(each)]
        return program(columns, self.question(), ranges=ranges, shown=self.settings.draws, refined=refined)

    def _unshaken(self, place: int, channel: int, value: float) -> float:
        """The value that is shown as `value`."""
        if not self.settings.noise or np.isnan(value):
            self.view.check(np.where(np.arange(self.view.channels) == channel, value, np.nan))
            return value
        row = np.full(self.view.channels, value)
        self.view.check(row)
        return float(self.view.shaken(row, -self.settings.noise * np.array(self.observations.rows[place].error))[channel])

    def _check_complete(self, y: np.ndarray) -> None:
        gone = np.isnan(y)
        if not self.view.model.spec.missing and gone.any() and not gone.all():
            raise ValueError(f"This model takes observations that have all of {', '.join(self.view.values)}. Fill in the rest.")
