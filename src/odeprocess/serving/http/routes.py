"""The routes: what can be asked, each in a few lines; the desk does the work."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from odeprocess.version import __version__

from .errors import ErrorBody, Refused, conflict, unknown
from .limits import Limits
from .metrics import Metrics
from .schemas import (
    Health,
    ModelCard,
    NewObservations,
    NewSeries,
    Number,
    Prediction,
    Question,
    SeriesCard,
    SeriesList,
    SeriesWhole,
    Suggested,
    Wish,
)
from .subscriptions import Subscriptions
from .worker import Worker

HEARTBEAT = 15.0  # seconds between signs of life of an event stream
LOOK = 0.5  # seconds between looks at whether the server stops
PREFIX = "/api/v1"
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,64}$",
        description="Chosen by the client for this request. If it comes again, it is answered as before and stores nothing.",
    ),
]
REPLAYED = "Idempotency-Replayed"
ONCE: dict[int | str, dict[str, Any]] = {
    201: {"headers": {REPLAYED: {"description": "`true` if this key had been here before.", "schema": {"type": "string"}}}}
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": what}
    for status, what in {
        400: "The request is not HTTP as it should be",
        401: "The token is missing or wrong",
        403: "A page of another site asks",
        404: "There is no such thing",
        408: "The request did not arrive in time",
        409: "It does not fit the series, the model, or what is there",
        413: "The body is too large",
        422: "The request is not as described here",
        429: "Too many requests are waiting",
        503: "The server cannot answer this now",
        507: "The disk of the server is full",
    }.items()
}


def make_routes(cards: dict[str, ModelCard], worker: Worker, subscriptions: Subscriptions, metrics: Metrics) -> APIRouter:
    """All routes of a server."""
    router = APIRouter(responses=PROBLEMS)

    @router.get("/health", tags=["server"])
    async def health() -> Health:
        """Whether the server works."""
        series = await worker.do(lambda service: len(service.entries))
        return Health(status="ok", version=__version__, models=len(cards), series=series)

    @router.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def figures() -> PlainTextResponse:
        """Figures for Prometheus."""
        counts = await worker.do(lambda service: service.counts())
        return PlainTextResponse(
            metrics.text(*counts, subscriptions.listeners), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    @router.get(f"{PREFIX}/models", tags=["models"])
    async def models() -> list[ModelCard]:
        """The models that are served; the first is used where none is named."""
        return list(cards.values())

    @router.get(f"{PREFIX}/models/{{name}}", tags=["models"])
    async def model(name: str) -> ModelCard:
        """One model."""
        if name not in cards:
            raise unknown("model", name)
        return cards[name]

    @router.get(f"{PREFIX}/series", tags=["series"])
    async def listed(
        after: Annotated[str, Query(max_length=64, description="List the ids that come after this one.")] = "",
        limit: Annotated[int, Query(ge=1, le=Limits.LISTED)] = 100,
    ) -> SeriesList:
        """The open series, in the order of their ids."""
        return await worker.do(lambda service: service.listed(after, limit))

    @router.post(f"{PREFIX}/series", tags=["series"], status_code=201, responses=ONCE)
    async def opened(body: NewSeries, response: Response, key: Key = None) -> SeriesCard:
        """Opens a series, with observations if there are some."""
        card, replayed = await worker.do(lambda service: service.once(body, key))
        if replayed:
            response.headers[REPLAYED] = "true"
        return card

    @router.get(f"{PREFIX}/series/{{id}}", tags=["series"])
    async def whole(id: Id) -> SeriesWhole:
        """A series and its observations."""
        return await worker.do(lambda service: service.whole(id))

    @router.delete(f"{PREFIX}/series/{{id}}", tags=["series"], status_code=204)
    async def deleted(id: Id) -> Response:
        """Deletes a series and its observations."""
        await worker.do(lambda service: service.delete(id), frees=True)
        subscriptions.ring(id)
        return Response(status_code=204)

    @router.post(f"{PREFIX}/series/{{id}}/observations", tags=["series"], status_code=201, responses=ONCE)
    async def added(id: Id, body: NewObservations, response: Response, key: Key = None) -> SeriesCard:
        """Adds observations, in any order. Once this is answered, they are on the disk."""
        card, replayed = await worker.do(lambda service: service.once(body, key, id))
        if replayed:
            response.headers[REPLAYED] = "true"
        else:
            subscriptions.ring(id)
        return card

    @router.post(f"{PREFIX}/series/{{id}}/predict", tags=["series"])
    async def predicted(id: Id, body: Question) -> Prediction:
        """What is believed of the series now."""
        return await worker.do(lambda service: service.predict(id, body))

    @router.post(f"{PREFIX}/series/{{id}}/suggest", tags=["series"])
    async def suggested(id: Id, body: Wish) -> Suggested:
        """Where to measure next."""
        return await worker.do(lambda service: service.suggest(id, body))

    @router.get(
        f"{PREFIX}/series/{{id}}/events",
        tags=["series"],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "Events `prediction`, and `deleted` at the end"}},
    )
    async def events(
        request: Request,
        id: Id,
        times: Annotated[list[Number], Query(min_length=1, max_length=Limits.TIMES)],
        level: Annotated[float, Query(gt=0, lt=1)] = 0.9,
    ) -> StreamingResponse:
        """A prediction now and after every change, as server-sent events. Changes in quick succession share one."""
        question = Question(times=times, level=level, of="observations")
        await worker.do(lambda service: service.predict(id, question))  # what is wrong with it is told before the stream begins
        if subscriptions.full:
            raise conflict("too_many_listeners", "Too many event streams are open; close some.")
        return StreamingResponse(_followed(request, id, question), media_type="text/event-stream")

    async def _followed(request: Request, id: str, question: Question) -> AsyncIterator[str]:
        with subscriptions.listening(id) as heard:
            quiet = 0.0
            while not request.app.state.stopping():
                try:
                    await asyncio.wait_for(heard.wait(), LOOK)
                except TimeoutError:
                    quiet += LOOK
                    if quiet >= HEARTBEAT:
                        quiet = 0.0
                        yield ": still here\n\n"
                    continue
                heard.clear()
                try:
                    found = await worker.do(lambda service: service.predict(id, question))
                except Refused as refused:
                    yield _event("deleted" if refused.status == 404 else "refused", json.dumps({"message": refused.message}))
                    return
                yield _event("prediction", found.model_dump_json())

    return router


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
