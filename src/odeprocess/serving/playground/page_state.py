"""What one page shows, without the page: the chosen model, its observations, the settings, and the predictions."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.posterior.posterior import Of

from .csv_upload import read_csv
from .figure_download import draw_figure, to_png
from .model_view import GAUSSIAN_PROCESS, ModelView
from .observations import Observations
from .predictions import Prediction, Question, predict, predict_gaussian_process, suggest_time, time_grid
from .script_download import write_script


@dataclasses.dataclass
class Settings:
    """The values of the page's controls.

    Attributes:
        level: the probability that the band holds.
        of: whether the band is of the curve or of new measurements.
        draws: how many draws are shown.
        noise: standard deviation of the noise added to the observations, in standard deviations of the training values.
        exact: whether the model's own kind of inference, where it is exact, takes over when the user pauses.
        beside: titles of the models shown beside the chosen one.
    """

    level: float = 0.9
    of: Of = "function"
    draws: int = 20
    noise: float = 0.0
    exact: bool = False
    beside: tuple[str, ...] = ()


class PageState:
    """The state of one page and the actions that change it. Each model keeps its own observations."""

    def __init__(self, views: dict[str, ModelView]):
        """Starts with the first view."""
        self.views, self.settings = views, Settings()
        self._observations: dict[str, Observations] = {}
        self._statics: dict[str, np.ndarray] = {}
        self.choose_model(next(iter(views)))

    def choose_model(self, title: str) -> None:
        """Shows another model."""
        self.title, self.view = title, self.views[title]
        self.observations = self._observations.setdefault(title, Observations(self.view.channels))
        self.settings.exact = self._is_exact_by_default(self.view)
        self.settings.beside = tuple(x for x in self.settings.beside if x in (*self.view.beside, GAUSSIAN_PROCESS))

    @property
    def static(self) -> np.ndarray:
        """The covariates of the shown series."""
        return self._statics.setdefault(self.title, self.view.typical_static)

    def snapshot(self) -> Any:
        """What the user has entered for the shown model."""
        return self.observations.rows, self.static.copy()

    def restore(self, snapshot: Any) -> None:
        """Goes back to a snapshot."""
        self.observations.rows, self.static[:] = snapshot

    def columns(self) -> dict[str, ModelView | None]:
        """The shown models by title, the chosen one first; `None` stands for the Gaussian process."""
        taken = {*self.view.beside, GAUSSIAN_PROCESS}
        options = (self.view.kind, self.view.title, *(f"{self.view.kind} ({i})" for i in range(1, len(taken) + 2)))
        first = next(title for title in options if title not in taken)
        beside = {title: self.view.beside.get(title) for title in self.settings.beside}
        return {first: self.view, **beside}

    def add_click(self, channel: int, t: float, value: float) -> None:
        """Adds an observation of one channel; models that need all channels get the predicted means of the others."""
        y = np.full(self.view.channels, np.nan)
        if not self.view.model.spec.missing and self.view.channels > 1:
            y = predict(self.view, self.question(), times=np.array([t])).mean[0]
        y[channel] = value
        self.view.check_values(y)
        self.observations.add(t, y.tolist())

    def drag(self, place: int, t: float, channel: int, value: float) -> None:
        """Moves an observation, as a step of a drag, to where the shown value with its noise is `value`."""
        self.observations.move(place, t, channel, self._without_noise(place, channel, value))

    def set_row(self, place: int, t: float, y: list[float]) -> None:
        """Sets all shown values of an observation; place −1 adds one."""
        values = np.array(y, np.float64)
        self.view.check_values(values)
        self._check_complete(values)
        if place < 0:
            self.observations.add(t, y)
            return
        self.observations.start_drag()
        for k in np.argsort(np.isnan(values)):  # values before gaps, so that the row is never empty
            self.observations.move(place, t, int(k), self._without_noise(place, int(k), y[k]))

    def load_csv(self, content: bytes) -> str:
        """Replaces the observations by those of a CSV file, and returns a message about what was loaded."""
        rows, message = read_csv(content, self.view)
        for _, y in rows:
            self.view.check_values(np.array(y))
            self._check_complete(np.array(y))
        self.observations.load(rows)
        return message

    def shown_observations(self) -> tuple[np.ndarray, np.ndarray]:
        """Times and values of the observations, with noise, as the page shows them and the models get them."""
        t, y, error = self.observations.arrays()
        return t, self.view.add_noise(y, self.settings.noise * error) if self.settings.noise else y

    def question(self) -> Question:
        """The observations and settings, for the models."""
        return Question(*self.shown_observations(), self.static, self.settings.level, self.settings.of)

    def predict(self, *, exact: bool = False) -> dict[str, Prediction]:
        """The models' predictions by title, by exact inference on request; without the Gaussian process."""
        question, times = self.question(), time_grid(self.view)
        models = {title: each for title, each in self.columns().items() if each is not None}

        def predict_one(view: ModelView) -> Prediction:
            return predict(view, question, times=times, exact=exact and self.uses_exact_inference(view))

        return {title: predict_one(each) for title, each in models.items()}

    def uses_exact_inference(self, view: ModelView) -> bool:
        """Whether inference is exact in the end: of the chosen model if the user asks for it, of others by default."""
        return self.settings.exact and (view is self.view or self._is_exact_by_default(view))

    def predict_gaussian_process(self) -> Prediction:
        """The prediction of the Gaussian process."""
        return predict_gaussian_process(self.view, self.question())

    def suggest_time(self) -> float:
        """The time to measure at next."""
        return suggest_time(self.view, self.question(), exact=self.settings.exact)

    def figure_png(self, ranges: Any) -> bytes:
        """The shown predictions, by exact inference if the user asks for it, as a PNG file."""
        settings, view, question = self.settings, self.view, self.question()
        found = self.predict(exact=True)
        predictions = {
            title: self.predict_gaussian_process() if each is None else found[title] for title, each in self.columns().items()
        }
        figure = draw_figure(
            question.t,
            question.y,
            predictions,
            names=view.values,
            time=view.time,
            ranges=ranges,
            level=question.level,
            num_draws=settings.draws,
        )
        return to_png(figure)

    def script(self, ranges: Any) -> str:
        """A Python program that draws the same figure."""
        columns = self.columns()
        exact = [title for title, each in columns.items() if each is not None and self.uses_exact_inference(each)]
        return write_script(columns, self.question(), ranges=ranges, num_draws=self.settings.draws, exact=exact)

    @staticmethod
    def _is_exact_by_default(view: ModelView) -> bool:
        """Whether `inference="auto"` is exact for this model."""
        return view.model.spec.prior == "learned"

    def _without_noise(self, place: int, channel: int, value: float) -> float:
        """The value that is shown as `value` when its noise is added."""
        if not self.settings.noise or np.isnan(value):
            self.view.check_values(np.where(np.arange(self.view.channels) == channel, value, np.nan))
            return value
        row = np.full(self.view.channels, value)
        self.view.check_values(row)
        errors = np.array(self.observations.rows[place].error)
        return float(self.view.add_noise(row, -self.settings.noise * errors)[channel])

    def _check_complete(self, y: np.ndarray) -> None:
        missing = np.isnan(y)
        if not self.view.model.spec.missing and missing.any() and not missing.all():
            raise ValueError(f"This model takes observations that have all of {', '.join(self.view.values)}. Fill in the rest.")
