"""The JSON of requests and responses, as pydantic models: they check requests and make the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from .limits import Limits


def _to_whole(value: Any) -> Any:
    """1.0 as 1, since JSON has one type of numbers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_to_whole)
Number = Annotated[float, Field(ge=-Limits.MAX_NUMBER, le=Limits.MAX_NUMBER, allow_inf_nan=False)]
SeriesId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Letters, digits, - and _.")]
Times = Annotated[list[Number], Field(min_length=1, max_length=Limits.MAX_TIMES)]
Level = Annotated[float, Field(gt=0, lt=1, description="The probability that a value lies between low and high.")]
Costs = Annotated[list[Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]], Field(max_length=Limits.MAX_TIMES)]

Span = Annotated[list[Number], Field(min_length=2, max_length=2, description="Start and end, both included.")]


class Request(BaseModel):
    """A request: values of another type and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


Values = Annotated[
    list[Number | None], Field(min_length=1, max_length=Limits.MAX_CHANNELS, description="By channel; null: missing.")
]


class Observation(Request):
    """Values measured at one time."""

    t: Number
    y: Values


Observations = Annotated[list[Observation], Field(max_length=Limits.MAX_OBSERVATIONS)]


class NewSeries(Request):
    """A series to open."""

    id: SeriesId | None = Field(None, description="The server chooses one, if left out.")
    model: Annotated[str, Field(max_length=200)] | None = Field(None, description="The first one, if left out.")
    static: Annotated[list[Number | Annotated[str, Field(max_length=200)]], Field(max_length=Limits.MAX_CHANNELS)] | None = Field(
        None, description="Covariates, in the model's order: numbers, or names of categories."
    )
    origin: Number | None = Field(None, description="The time that counts as 0, for models that count from a series' start.")
    observations: Observations = []


class NewObservations(Request):
    """Observations to add, in any order."""

    observations: Annotated[Observations, Field(min_length=1)]


class PredictionRequest(Request):
    """What to predict."""

    times: Times
    level: Level = 0.9
    of: Literal["observations", "function"] = Field(
        "observations", description="New measurements, or the curve without measurement noise."
    )
    draws: Annotated[int, Field(ge=0, le=Limits.MAX_DRAWS, description="Trajectories to return as well."), Whole] = 0


class SuggestionRequest(Request):
    """Which times to choose the next measurements from."""

    candidates: Times
    by: Literal["spread", "information"] = "information"
    count: Annotated[int, Field(ge=1, le=Limits.MAX_SUGGESTIONS), Whole] = 1
    about: Annotated[list[Number], Field(min_length=1, max_length=Limits.MAX_ABOUT)] | None = Field(
        None, description="With by=information: the times whose values the measurements are to reveal."
    )
    costs: Costs | None = Field(None, description="One for each candidate.")
    forbidden: Annotated[list[Span], Field(max_length=Limits.MAX_TIMES)] = []


class CovariateCard(BaseModel):
    """A covariate of a model's series."""

    name: str
    categories: list[str] | None


class ModelCard(BaseModel):
    """A model of this server."""

    name: str
    variant: str
    channels: list[str]
    covariates: list[CovariateCard]
    times: tuple[float, float] = Field(description="The first and last training time.")
    origin: Literal["absolute", "first"] = Field(
        description="absolute: all series share one clock; first: each counts from its first observation."
    )
    missing: bool = Field(description="Whether single channels of an observation may be missing.")
    parameters: int


class SeriesCard(BaseModel):
    """An open series."""

    id: str
    model: str
    count: int = Field(description="Number of observations.")


class SeriesList(BaseModel):
    """Open series in the order of their ids."""

    series: list[SeriesCard]
    next: str | None = Field(description="Pass it as `after` for the next page; null on the last page.")


class SeriesWithObservations(SeriesCard):
    """A series and its observations, in the order in which they were added."""

    static: list[float | str] | None
    origin: float | None
    observations: list[Observation]


class Prediction(BaseModel):
    """A prediction, by time and channel."""

    count: int = Field(description="Number of observations that the prediction is based on.")
    times: list[float]
    mean: list[list[float]]
    std: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]
    draws: list[list[list[float]]] = Field(description="By draw, time and channel.")
    notes: list[str] = Field(description="Warnings about times and values outside the training ranges; usually empty.")


class Suggestion(BaseModel):
    """Times to measure at, the best first."""

    times: list[float]
    scores: list[float]


class Health(BaseModel):
    """The state of the server."""

    status: Literal["ok"]
    version: str
    models: int
    series: int
