"""The routes of the HTTP API. Each checks its request and calls `service` on the worker thread."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from odeprocess.version import __version__

from .errors import ApiError, ErrorBody, conflict, not_found
from .limits import Limits
from .metrics import Metrics
from .schemas import (
    Health,
    ModelCard,
    NewObservations,
    NewSeries,
    Number,
    Prediction,
    PredictionRequest,
    SeriesCard,
    SeriesList,
    SeriesWithObservations,
    Suggestion,
    SuggestionRequest,
)
from .subscriptions import Subscriptions
from .worker import Worker

HEARTBEAT = 15.0  # seconds between comments in a quiet event stream, so that proxies keep it open; chosen by hand
STOP_CHECK_INTERVAL = 0.5  # seconds after which an event stream checks whether the server stops; chosen by hand
PREFIX = "/api/v1"
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,64}$",
        description="Chosen by the client for this request. A second request with this key gets the first one's response, and "
        "stores nothing.",
    ),
]
REPLAYED = "Idempotency-Replayed"
CREATED: dict[int | str, dict[str, Any]] = {
    201: {"headers": {REPLAYED: {"description": "`true` if the key was used before.", "schema": {"type": "string"}}}}
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": description}
    for status, description in {
        400: "The request is not valid HTTP",
        401: "The token is missing or wrong",
        403: "The request comes from a page of another site",
        404: "Not found",
        408: "The request did not arrive in time",
        409: "The request does not fit the series, the model, or the state of the server",
        413: "The body is too large",
        422: "The request does not match this document",
        429: "Too many requests are waiting",
        503: "The server cannot answer this now",
        507: "The disk of the server is full",
    }.items()
}


def make_routes(cards: dict[str, ModelCard], worker: Worker, subscriptions: Subscriptions, metrics: Metrics) -> APIRouter:
    """Returns all routes of the API."""
    router = APIRouter(responses=PROBLEMS)

    @router.get("/health", tags=["server"])
    async def health() -> Health:
        """Answers if the server works."""
        series = await worker.run(lambda service: len(service.entries))
        return Health(status="ok", version=__version__, models=len(cards), series=series)

    @router.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def show_metrics() -> PlainTextResponse:
        """Metrics in the text format of Prometheus."""
        counts = await worker.run(lambda service: service.counts())
        text = metrics.text(*counts, len(subscriptions))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get(f"{PREFIX}/models", tags=["models"])
    async def list_models() -> list[ModelCard]:
        """Lists the models; the first is used where a request names none."""
        return list(cards.values())

    @router.get(f"{PREFIX}/models/{{name}}", tags=["models"])
    async def show_model(name: str) -> ModelCard:
        """Describes one model."""
        if name not in cards:
            raise not_found("model", name)
        return cards[name]

    @router.get(f"{PREFIX}/series", tags=["series"])
    async def list_series(
        after: Annotated[str, Query(max_length=64, description="List the ids that come after this one.")] = "",
        limit: Annotated[int, Query(ge=1, le=Limits.MAX_LISTED)] = 100,
    ) -> SeriesList:
        """Lists the open series in the order of their ids."""
        return await worker.run(lambda service: service.list_series(after, limit))

    @router.post(f"{PREFIX}/series", tags=["series"], status_code=201, responses=CREATED)
    async def open_series(body: NewSeries, response: Response, key: Key = None) -> SeriesCard:
        """Opens a series, with or without observations."""
        card, replayed = await worker.run(lambda service: service.store_once(body, key))
        if replayed:
            response.headers[REPLAYED] = "true"
        return card

    @router.get(f"{PREFIX}/series/{{id}}", tags=["series"])
    async def show_series(id: Id) -> SeriesWithObservations:
        """Returns a series and its observations."""
        return await worker.run(lambda service: service.show(id))

    @router.delete(f"{PREFIX}/series/{{id}}", tags=["series"], status_code=204)
    async def delete_series(id: Id) -> Response:
        """Deletes a series and its observations."""
        await worker.run(lambda service: service.delete(id), frees_space=True)
        subscriptions.notify(id)
        return Response(status_code=204)

    @router.post(f"{PREFIX}/series/{{id}}/observations", tags=["series"], status_code=201, responses=CREATED)
    async def add_observations(id: Id, body: NewObservations, response: Response, key: Key = None) -> SeriesCard:
        """Adds observations, in any order. They are on the disk when the response is sent."""
        card, replayed = await worker.run(lambda service: service.store_once(body, key, id))
        if replayed:
            response.headers[REPLAYED] = "true"
        else:
            subscriptions.notify(id)
        return card

    @router.post(f"{PREFIX}/series/{{id}}/predict", tags=["series"])
    async def predict(id: Id, body: PredictionRequest) -> Prediction:
        """Predicts a series from its observations."""
        return await worker.run(lambda service: service.predict(id, body))

    @router.post(f"{PREFIX}/series/{{id}}/suggest", tags=["series"])
    async def suggest(id: Id, body: SuggestionRequest) -> Suggestion:
        """Suggests where to measure next."""
        return await worker.run(lambda service: service.suggest(id, body))

    @router.get(
        f"{PREFIX}/series/{{id}}/events",
        tags=["series"],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "Events `prediction`, and `deleted` at the end"}},
    )
    async def stream_events(
        request: Request,
        id: Id,
        times: Annotated[list[Number], Query(min_length=1, max_length=Limits.MAX_TIMES)],
        level: Annotated[float, Query(gt=0, lt=1)] = 0.9,
    ) -> StreamingResponse:
        """Streams a prediction now and after every change, as server-sent events. Quick changes share one event."""
        question = PredictionRequest(times=times, level=level, of="observations")
        await worker.run(lambda service: service.predict(id, question))  # an invalid request gets an error, not a stream
        if subscriptions.full:
            raise conflict("too_many_listeners", "Too many event streams are open; close some.")
        return StreamingResponse(_predictions(request, id, question), media_type="text/event-stream")

    async def _predictions(request: Request, id: str, question: PredictionRequest) -> AsyncIterator[str]:
        with subscriptions.subscribe(id) as change:
            quiet = 0.0
            while not request.app.state.stopping():
                try:
                    await asyncio.wait_for(change.wait(), STOP_CHECK_INTERVAL)
                except TimeoutError:
                    quiet += STOP_CHECK_INTERVAL
                    if quiet >= HEARTBEAT:
                        quiet = 0.0
                        yield ": still here\n\n"
                    continue
                change.clear()
                try:
                    prediction = await worker.run(lambda service: service.predict(id, question))
                except ApiError as error:
                    yield _event("deleted" if error.status == 404 else "refused", json.dumps({"message": error.message}))
                    return
                yield _event("prediction", prediction.model_dump_json())

    return router


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
