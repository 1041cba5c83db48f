"""The FastAPI application: routes, middleware, worker and store, put together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from odeprocess.version import __version__

from .access_control import AccessControl
from .allowed_origins import AllowedOrigins
from .authentication import OPEN_PATH, TokenAuthentication
from .errors import ApiError, add_error_handlers
from .limits import Limits
from .metrics import Metrics
from .request_bodies import RequestBodies
from .routes import PREFIX, make_routes
from .schemas import CovariateCard, ModelCard
from .served_model import ServedModel
from .service import Service
from .sqlite_store import SeriesStore
from .subscriptions import Subscriptions
from .worker import Worker

MAX_IDLE_CHECK_INTERVAL = 60.0  # seconds between deletions of idle series; four checks in the idle time if that is shorter


def create_app(
    models: Sequence[ServedModel],
    *,
    state: str | Path | None = None,
    limits: Limits = Limits(),
    token: str | None = None,
    public: str | None = None,
    warm: bool = True,
    extend: Callable[[FastAPI], Any] | None = None,
    report: Callable[[str], None] = lambda note: None,
) -> FastAPI:
    """Returns an ASGI application that serves models.

    Arguments:
        models: the models; the first is used where a request names none.
        state: the SQLite file in which series are stored; without it they are lost when the server stops.
        limits: on bodies, series, observations, and so on.
        token: which every request must have, if given.
        public: the address at which a TLS proxy serves this server, such as https://models.example.org; it needs a token.
        warm: whether to compile what most requests need before the first one.
        extend: adds pages to the application, such as the playground's.
        report: called with a line of text for each step of the start.
    """
    by_name = {each.name: each for each in models}
    if not models or len(by_name) != len(models):
        raise ValueError(f"The models' names are {[each.name for each in models]}; expected one or more, with different names.")
    if public is not None and token is None:
        raise ValueError("Behind a public address a token is needed, or everyone there could use this server.")
    metrics, subscriptions, store = Metrics(), Subscriptions(limits.max_event_streams), SeriesStore(state)

    def make_service() -> Service:
        service = Service(by_name, store, limits)
        if warm:
            service.warm_up(report)
        return service

    worker = Worker(make_service, limits.max_queued_requests)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await worker.start()
        idle_task = asyncio.create_task(_delete_idle_series(worker, subscriptions, limits.idle_seconds))
        yield
        idle_task.cancel()
        await worker.stop()

    app = FastAPI(
        title="odeprocess",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        redirect_slashes=False,
    )
    app.state.stopping = lambda: False
    add_error_handlers(app)
    app.include_router(make_routes({each.name: _card(each) for each in models}, worker, subscriptions, metrics))
    origins = AllowedOrigins(() if token is None else None, public)
    app.add_middleware(
        AccessControl,  # type: ignore[arg-type]
        origins=origins,
        authentication=None if token is None else TokenAuthentication(token, secure=origins.secure),
        bodies=RequestBodies(limits.max_body_bytes, limits.max_total_body_bytes, limits.request_timeout),
        metrics=metrics,
    )
    if extend is not None:
        extend(app)
    if token is not None:
        _document_token(app)
    return app


async def _delete_idle_series(worker: Worker, subscriptions: Subscriptions, idle_seconds: float) -> None:
    """Deletes idle series, again and again."""
    while True:
        await asyncio.sleep(min(MAX_IDLE_CHECK_INTERVAL, idle_seconds / 4))
        with contextlib.suppress(ApiError):
            for name in await worker.run(lambda service: service.delete_idle(), frees_space=True):
                subscriptions.notify(name)


def _document_token(app: FastAPI) -> None:
    """Adds the token to the OpenAPI document."""
    make_document = app.openapi

    def openapi() -> dict[str, Any]:
        document = make_document()
        document.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in document["paths"].items():
            for operation in methods.values():
                operation["security"] = [] if path == OPEN_PATH else [{"token": []}]
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _card(served_model: ServedModel) -> ModelCard:
    model, units = served_model.model, served_model.units
    covariates = [
        CovariateCard(name=x.column, categories=None if x.categories is None else list(x.categories)) for x in units.covariates
    ]
    return ModelCard(
        name=served_model.name,
        variant=model.spec.variant,
        channels=list(units.channels),
        covariates=covariates,
        times=served_model.span,
        origin=model.scaling.origin,
        missing=bool(model.spec.missing),
        parameters=model.num_parameters,
    )
