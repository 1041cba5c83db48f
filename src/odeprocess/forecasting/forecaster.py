"""`Forecaster`: from a long table to a trained model, and from the rows of new series to predictions with intervals."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_fields
from odeprocess.common.progress import progress_bar
from odeprocess.common.storage import replacing
from odeprocess.posterior.latent_posterior import choose_inference
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import damaged
from odeprocess.posterior.posterior import DRAWS, Of, Posterior
from odeprocess.process import Spec
from odeprocess.training.fit import fit

from . import evaluate
from .column_roles import resolve
from .estimator import AbstractEstimator
from .predict import AskedTimes, Predictor, asked_times
from .prediction_tables import draws as drawn, observations, predictions
from .read_table import read
from .rows import TableRows
from .table_layout import FORECASTER, Layout
from .write_table import to_data_frame

QUANTILES = (0.05, 0.5, 0.95)
FIELDS = {"params": dict[str, Any], "layout": dict[str, Any], "choices": dict[str, Any], "notes": list[str]}  # in a folder


class Forecaster(AbstractEstimator):
    """Learns from a long table of many series; predicts any series at any time, with intervals.

    A row is one time of one series: a column says which series, one says when, the others hold what was measured, empty
    where it was not. Tables are data frames (pandas, polars, pyarrow) or names of CSV and Parquet files; results are of the
    kind that came in (pandas, for files). Everything is chosen from the data; every option left at `None` can be said instead.

    Arguments:
        model, effort, options, sizes, held_out: as in `odeprocess.fit`, which trains.
        context: least and most rows of a series that are given in training.
        transform: `"identity"`, `"log"` or `"log1p"`, for all values or a dictionary by column. By default positive values
            get a logarithm, so that intervals stay above zero.
        ties: whether two rows of a series may have the same time: `"refuse"` or `"keep"`.
        min_points: rows with a value that a training series must have.
        draws: that describe a posterior.
        inference: `"auto"`, `"amortised"` or `"exact"`; see `Model.condition`.
        separator: between the cells of a CSV file.
        seed: of everything random.
        verbose: whether choices are printed and progress is shown; by default progress is, on a terminal.

    Attributes:
        model_: the trained `Model`, in units of its own: transformed values, times from each series' origin.
        layout_: which column is what, and how it is read.
        choices_: how the model was trained, plain data.
        notes_: what was chosen and why, in sentences.

    Example: see the README.
    """

    model_: Model
    layout_: Layout
    choices_: dict[str, Any]
    notes_: list[str]

    def __init__(
        self,
        *,
        model: Any = "auto",
        effort: str = "default",
        options: dict[str, Any] | None = None,
        sizes: dict[str, int] | None = None,
        context: tuple[int, int] | None = None,
        held_out: int | None = None,
        transform: Any = None,
        ties: str = "refuse",
        min_points: int = 2,
        draws: int = DRAWS,
        inference: str = "auto",
        separator: str = ",",
        seed: int = 0,
        verbose: bool | None = None,
    ):
        self.model, self.effort, self.options, self.sizes = model, effort, options, sizes
        self.context, self.held_out, self.transform, self.ties, self.min_points = context, held_out, transform, ties, min_points
        self.draws, self.inference, self.separator, self.seed, self.verbose = draws, inference, separator, seed, verbose

    def fit(
        self,
        table: Any,
        series: str | None = None,
        time: str | None = None,
        values: str | Sequence[str] | None = None,
        *,
        static: str | Sequence[str] | None = None,
        categories: Sequence[str] = (),
        origin: str = "first",
        progress: Any = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> "Forecaster":
        """Trains on a table; columns that are not named are guessed where that is obvious.

        Arguments:
            table: a data frame, or the name of a CSV or Parquet file.
            series: the column that says which series a row belongs to.
            time: the column of times, numbers or dates.
            values: the columns of measurements.
            static: columns that do not change within a series: numbers, or text for categories.
            categories: those of them that are categories although they are numbers.
            origin: where a series' time begins: at its `"first"` row; nowhere, `"absolute"`; or in a column.
            progress: as in `odeprocess.fit`.
            checkpoint: as in `odeprocess.fit`.
            resume: as in `odeprocess.fit`.
        """
        checks.whole("draws", self.draws, 1, checks.MOST_DRAWS)
        checks.positive("min_points", self.min_points, integer=True)
        came = read(table, separator=self.separator)
        columns, notes = resolve(came, series, time, values, static, origin)
        layout, long, said = Layout.learn(
            came, columns, transform=self.transform, categories=categories, ties=self.ties, min_points=self.min_points
        )
        told = [*notes, *said]
        if self.verbose:
            print("\n".join(told))
        found = fit(
            long.series(np.arange(len(long))),
            self.model,
            effort=self.effort,  # pyright: ignore[reportArgumentType]
            options=self.options,
            sampler=None if self.context is None else {"context": self.context},
            sizes=self.sizes,
            held_out=self.held_out,
            seeds=None if self.seed == 0 else self.seed,
            draws=self.draws,
            progress=self.verbose if progress is None else progress,
            checkpoint=checkpoint,
            resume=resume,
        )
        assert found.recipe is not None
        if self.verbose:
            print("\n".join(found.notes))
        self.model_, self.layout_ = found.model, layout
        scores = {name: score if np.isfinite(score) else None for name, score in found.scores.items()}  # as JSON has it
        self.choices_, self.notes_ = found.recipe.to_json() | {"scores": scores}, [*told, *found.notes]
        return self

    def predict(
        self, table: Any, times: Any = None, *, quantiles: Sequence[float] = QUANTILES, inference: str | None = None
    ) -> Any:
        """What new measurements would show, for every series of a table, given its rows.

        Arguments:
            table: rows of new series, with the columns of training; a series without any value needs one row still.
            times: when. Numbers count from each series' origin (in the model's unit of time, for dates; see `notes_`);
                another table with the columns of series and time says it for each series; dates are for
                `origin="absolute"`. By default an even grid over the times of training.
            quantiles: which, each a column.
            inference: overrides the option.

        Returns:
            A long table: series, time, `variable`, `mean`, `std` and quantiles such as `q0.05`, measurement noise included.
        """
        array = np.atleast_1d(np.asarray(checks.as_array("quantiles", quantiles), np.float64))
        levels = list(dict.fromkeys(array.ravel().tolist()))
        checks.require(
            array.ndim == 1 and all(0 < q < 1 for q in levels),
            f"`quantiles` is {checks.shown(quantiles)}; expected numbers between 0 and 1 (both excluded).",
        )
        long = self._read(table)
        asked = self._times(times, long)
        with progress_bar(len(long), "predicting", show=self.verbose) as step:
            found = predictions(
                self._predictor(inference), self.layout_, long, asked, levels, lambda n: [step("") for _ in range(n)]
            )
        return to_data_frame(found, long.table.backend)

    def sample(self, table: Any, times: Any = None, n: int = 20, *, of: Of = "observations", inference: str | None = None) -> Any:
        """Draws: new measurements, or the trajectories beneath (`of="function"`); as `predict`, with `draw` and `value`."""
        checks.whole("n", n, 1, checks.MOST_DRAWS)
        long = self._read(table)
        predictor = dataclasses.replace(self._predictor(inference), draws=n)
        return to_data_frame(drawn(predictor, self.layout_, long, self._times(times, long), n, of), long.table.backend)

    def evaluate(
        self, table: Any, context: int, split: str | None = None, *, by: str = "variable", inference: str | None = None
    ) -> Any:
        """Scores on series that were not trained on: some rows of each are given, the others are predicted.

        Arguments:
            table: whole series.
            context: how many rows of each are given; series that have no more are left out.
            split: `"interpolation"`, given rows anywhere; `"forecast"`, the first ones; both by default.
            by: a row for each `"variable"`, or for each `"series"`.
            inference: overrides the option.

        Returns:
            A table: mean squared error of the mean, absolute error of the median, negative log density and CRPS, each a
            value, the share of values inside the 90 % interval (noise included), and how many values were scored.
        """
        checks.choice("by", by, ("variable", "series"))
        long, layout = self._read(table), self.layout_
        splits = evaluate.SPLITS if split is None else (split,)
        found = {s: evaluate.scores(self._predictor(inference), layout, long, context, s, self.seed) for s in splits}
        result = evaluate.summary(layout, found) if by == "variable" else evaluate.by_series(layout, long, found)
        return to_data_frame(result, long.table.backend)

    def posterior(self, table: Any, *, inference: str | None = None) -> dict[Any, Posterior]:
        """The posterior of each series by its name.

        They speak the model's units: times count from each series' origin, values are transformed (see `layout_`).
        """
        predictor, long = self._predictor(inference), self._read(table)
        return {long.name(i): predictor.posterior(long, np.array([i]), [long.observed[i]])[0] for i in long.appearance}

    def plot(self, table: Any, times: Any = None, *, series: Sequence[Any] | None = None, path: str | Path | None = None) -> Any:
        """Draws mean, 90 % interval and rows of some `series`, by default the first six; `table` and `times` as in `predict`.

        Returns the Matplotlib figure; `path` is where it is written, if anywhere.
        """
        from odeprocess.posterior.plots import plot_table

        long = self._read(table)
        part = long.part(long.appearance[:6] if series is None else long.find(series))
        asked = self._times(times, part, points=200)
        found = predictions(self._predictor(None), self.layout_, part, asked, list(QUANTILES), lambda n: None)
        columns = self.layout_.columns
        figure = plot_table(found, observations(self.layout_, part), columns.series, columns.time, columns.values)
        if path is not None:
            with replacing(Path(path)) as temporary:
                figure.savefig(temporary, dpi=150, format=Path(path).suffix[1:] or "png")
        return figure

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _read(self, table: Any) -> TableRows:
        self._check_fitted()
        return self.layout_.read(read(table, separator=self.separator))

    def _times(self, times: Any, long: TableRows, points: int = 50) -> AskedTimes:
        asked = long.grid(*self.layout_.horizon, points) if times is None else times
        return asked_times(asked, long, self.layout_, self.separator)

    def _predictor(self, inference: str | None) -> Predictor:
        self._check_fitted()
        chosen = self.inference if inference is None else inference
        choose_inference(self.model_.process, chosen)  # pyright: ignore[reportArgumentType]
        return Predictor(self.model_, self.draws, chosen, self.seed)  # pyright: ignore[reportArgumentType]

    def save(self, folder: str | Path) -> None:
        """Writes the forecaster to a folder: a model folder, whose `model.json` holds the rest; see `Model.save`."""
        self._check_fitted()
        learned = {"layout": self.layout_.to_json(), "choices": self.choices_, "notes": self.notes_}
        params = self.get_params()
        if isinstance(self.model, Spec):
            params["model"] = self.model.to_json()
        card = {"params": params, **learned}
        dataclasses.replace(self.model_, info={**self.model_.info, FORECASTER: card}).save(folder)

    @classmethod
    def load(cls, folder: str | Path, parts: Iterable[Callable[..., Any]] = ()) -> "Forecaster":
        """Reads what `save` wrote; its predictions are the same bit by bit. `parts` are as in `odeprocess.load`."""
        model = Model.load(folder, parts)
        if FORECASTER not in model.info:
            raise ValueError(f"{folder} holds a model, but no forecaster: it knows no columns. Load it with odeprocess.load.")
        with damaged(folder):
            card = read_fields(FIELDS, model.info[FORECASTER], f"info.{FORECASTER}", needed=tuple(FIELDS))
            hints = {name: hint for name, hint in get_type_hints(cls.__init__).items() if name != "return"}
            params = read_fields(hints, card["params"], f"info.{FORECASTER}.params")
            if isinstance(params.get("model"), dict):
                params["model"] = Spec.from_json(params["model"])
            forecaster = cls(**params)
            checks.whole("draws", forecaster.draws, 1, checks.MOST_DRAWS)
            layout = Layout.of_model(model)
        assert layout is not None  # there is a forecaster
        forecaster.model_ = dataclasses.replace(model, info={k: v for k, v in model.info.items() if k != FORECASTER})
        forecaster.layout_, forecaster.choices_, forecaster.notes_ = layout, card["choices"], card["notes"]
        return forecaster
