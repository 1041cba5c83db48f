"""What goes in and out, as pydantic models: they check requests and make the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from .limits import Limits


def _whole(value: Any) -> Any:
    """1.0 is a whole number to JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = BeforeValidator(_whole)
Number = Annotated[float, Field(ge=-Limits.LARGEST, le=Limits.LARGEST, allow_inf_nan=False)]
SeriesId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Letters, digits, - and _.")]
Times = Annotated[list[Number], Field(min_length=1, max_length=Limits.TIMES)]
Level = Annotated[float, Field(gt=0, lt=1, description="The share of the probability that lies between low and high.")]

Span = Annotated[list[Number], Field(min_length=2, max_length=2, description="Start and end, both included.")]


class Request(BaseModel):
    """Types are taken at their word, and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Observation(Request):
    """Values measured at one time."""

    t: Number
    y: Annotated[list[Number | None], Field(min_length=1, max_length=Limits.CHANNELS, description="By channel; null: missing.")]


Observations = Annotated[list[Observation], Field(max_length=Limits.POINTS)]


class NewSeries(Request):
    """A series to open."""

    id: SeriesId | None = Field(None, description="Chosen by the server, if left out.")
    model: Annotated[str, Field(max_length=200)] | None = Field(None, description="The first one, if left out.")
    static: Annotated[list[Number | Annotated[str, Field(max_length=200)]], Field(max_length=Limits.CHANNELS)] | None = Field(
        None, description="Covariates, in the model's order: numbers, or names of categories."
    )
    origin: Number | None = Field(None, description="Where time begins, for models that count from the first observation.")
    observations: Observations = []


class NewObservations(Request):
    """Observations to add, in any order."""

    observations: Annotated[Observations, Field(min_length=1)]


class Question(Request):
    """What to predict."""

    times: Times
    level: Level = 0.9
    of: Literal["observations", "function"] = Field("observations", description="Of new measurements, or of the curve beneath.")
    draws: Annotated[int, Field(ge=0, le=Limits.DRAWS, description="Whole trajectories to return as well."), Whole] = 0


class Wish(Request):
    """What to suggest."""

    candidates: Times
    by: Literal["spread", "information"] = "information"
    count: Annotated[int, Field(ge=1, le=Limits.SUGGESTIONS), Whole] = 1
    about: Annotated[list[Number], Field(min_length=1, max_length=Limits.ABOUT)] | None = Field(
        None, description="Times; with by=information, what measurements there would show."
    )
    costs: (
        Annotated[list[Annotated[float, Field(ge=1e-6, le=1e6, allow_inf_nan=False)]], Field(max_length=Limits.TIMES)] | None
    ) = Field(None, description="One for each candidate.")
    forbidden: Annotated[list[Span], Field(max_length=Limits.TIMES)] = []


class Covariate(BaseModel):
    """A covariate that a series of this model needs."""

    name: str
    categories: list[str] | None


class ModelCard(BaseModel):
    """A model that is served."""

    name: str
    variant: str
    channels: list[str]
    covariates: list[Covariate]
    times: tuple[float, float] = Field(description="The span of the training times.")
    origin: Literal["absolute", "first"] = Field(description="Whether all series share one clock.")
    missing: bool = Field(description="Whether single channels of an observation may be missing.")
    parameters: int


class SeriesCard(BaseModel):
    """A series that is open."""

    id: str
    model: str
    count: int = Field(description="Observations so far.")


class SeriesList(BaseModel):
    """Series in the order of their ids."""

    series: list[SeriesCard]
    next: str | None = Field(description="Pass it as `after` to go on; null at the end.")


class SeriesWhole(SeriesCard):
    """A series and its observations, in the order in which they came."""

    static: list[float | str] | None
    origin: float | None
    observations: list[Observation]


class Prediction(BaseModel):
    """By time and channel."""

    count: int = Field(description="Observations that this is given.")
    times: list[float]
    mean: list[list[float]]
    std: list[list[float]]
    low: list[list[float]]
    high: list[list[float]]
    draws: list[list[list[float]]] = Field(description="By draw, time and channel.")
    notes: list[str] = Field(description="What lies outside of what the model was trained on; mostly nothing.")


class Suggested(BaseModel):
    """Times to measure at, the best first."""

    times: list[float]
    scores: list[float]


class Health(BaseModel):
    """Whether the server works."""

    status: Literal["ok"]
    version: str
    models: int
    series: int
