"""The application: models, store, worker and routes, put together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from odeprocess.version import __version__

from . import errors
from .access_control import Guard
from .limits import Limits
from .metrics import Metrics
from .allowed_origins import Origins
from .request_bodies import Bodies
from .routes import PREFIX, make_routes
from .schemas import Covariate, ModelCard
from .served_model import ServedModel
from .service import Service
from .sqlite_store import Store
from .subscriptions import Subscriptions
from .authentication import Token
from .worker import Worker


def create_app(
    models: Sequence[ServedModel],
    *,
    state: str | Path | None = None,
    limits: Limits = Limits(),
    token: str | None = None,
    public: str | None = None,
    warm: bool = True,
    extend: Callable[[FastAPI], Any] | None = None,
    tell: Callable[[str], None] = lambda note: None,
) -> FastAPI:
    """An ASGI application that serves models.

    Arguments:
        models: what to serve; the first is used where a request names none.
        state: the SQLite file that series are kept in; without it they end with the server.
        limits: on bodies, series, points, and so on.
        token: that every request must bear, if given.
        public: the address that a proxy with TLS serves this under, such as https://models.example.org; it takes a token.
        warm: whether to compile, before the first request, what every client will ask for.
        extend: adds pages to the application, such as the playground's.
        tell: is told how starting goes.
    """
    named = {each.name: each for each in models}
    if not models or len(named) != len(models):
        raise ValueError(f"Models are called {[each.name for each in models]}; expected one or more, with different names.")
    if public is not None and token is None:
        raise ValueError("Behind a public address a token is needed, or everyone there could use this server.")
    metrics, subscriptions, store = Metrics(), Subscriptions(limits.listeners), Store(state)

    def make_desk() -> Service:
        service = Service(named, store, limits)
        if warm:
            service.warm_up(tell)
        return service

    worker = Worker(make_desk, limits.waiting)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await worker.start()
        sweeper = asyncio.create_task(_sweep(worker, subscriptions, limits.idle))
        yield
        sweeper.cancel()
        await worker.stop()

    app = FastAPI(
        title="odeprocess",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # its page would be fetched from elsewhere
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        redirect_slashes=False,
    )
    app.state.stopping = lambda: False
    errors.install(app)
    app.include_router(make_routes({each.name: _card(each) for each in models}, worker, subscriptions, metrics))
    origins = Origins(() if token is None else None, public)
    app.add_middleware(
        Guard,  # type: ignore[arg-type]
        origins=origins,
        token=None if token is None else Token(token, secure=origins.secure),
        bodies=Bodies(limits.body, limits.bodies, limits.patience),
        metrics=metrics,
    )
    if extend is not None:
        extend(app)
    if token is not None:
        _declare_token(app)
    return app


async def _sweep(worker: Worker, subscriptions: Subscriptions, idle: float) -> None:
    """Every now and then, drops the series that nobody asks about."""
    while True:
        await asyncio.sleep(min(60.0, idle / 4))
        with contextlib.suppress(errors.Refused):
            for name in await worker.do(lambda service: service.expire(), frees=True):
                subscriptions.ring(name)


def _declare_token(app: FastAPI) -> None:
    """Says in the OpenAPI document that requests bear a token."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        document.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, methods in document["paths"].items():
            for operation in methods.values():
                operation["security"] = [] if path == "/health" else [{"token": []}]
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _card(served_model: ServedModel) -> ModelCard:
    model = served_model.model
    covariates = [
        Covariate(name=x.column, categories=None if x.categories is None else list(x.categories)) for x in served_model.covariates
    ]
    return ModelCard(
        name=served_model.name,
        variant=model.spec.variant,
        channels=list(served_model.channels),
        covariates=covariates,
        times=served_model.span,
        origin=model.scaling.origin,
        missing=bool(model.spec.missing),
        parameters=model.num_parameters,
    )
