"""`serve`: models over HTTP."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import prepare, say, user_errors
from .tables import Device


def serve(
    models: Annotated[list[Path], typer.Argument(help="Model folders; each model is called as its folder is.")],
    host: Annotated[str, typer.Option(help="Where to listen; elsewhere than on this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token: Annotated[str | None, typer.Option(envvar="ODEPROCESS_TOKEN", help="What every request must bear.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="The address of a proxy with TLS in front of this, such as https://models.example.org.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="The SQLite file of series; by default in the first model's folder.")] = None,
    idle: Annotated[float, typer.Option(min=1.0, help="Seconds after which an unused series is dropped.")] = 24 * 3600.0,
    max_series: Annotated[int, typer.Option(min=1, help="Series that may be open at once.")] = 10_000,
    max_points: Annotated[int, typer.Option(min=1, help="Observations that a series may have.")] = 10_000,
    warm: Annotated[bool, typer.Option(help="Whether to compile before the first request what all will ask for.")] = True,
    playground: Annotated[bool, typer.Option(help="Whether to offer the playground, where it is installed.")] = True,
    device: Device = "auto",
) -> None:
    """Serve models over HTTP: open series, add observations, predict, and ask where to measure next."""
    with user_errors():
        prepare(device)
        from odeprocess.serving.http import Limits, ServedModel, create_app
        from odeprocess.serving.http.run import bound, check_host, run
        from odeprocess.serving.http.authentication import link

        if token is not None and not token.strip():
            raise ValueError("The token is empty; leave it out to do without one.")
        check_host(host, token)
        served_models = [ServedModel.load(folder) for folder in models]
        limits = Limits(idle=idle, series=max_series, points=max_points)
        extend = (lambda app: _playground(app, models, limits)) if playground else None
        kept = state or models[0] / "series.sqlite"
        app = create_app(
            served_models, state=kept, limits=limits, token=token, public=public_url, warm=warm, extend=extend, tell=_say
        )

        def tell(url: str) -> None:
            pages = getattr(app.state, "pages", None)
            if pages is not None:
                _say(f"The playground is at {link(public_url or url, pages.home, token)}")
            _say(f"Serving {', '.join(each.name for each in served_models)} at {url}; Ctrl+C stops.")

        run(app, bound(host, port), tell, limits=limits)


def _playground(app: Any, folders: list[Path], limits: Any) -> None:
    """Adds the playground, where it can be had."""
    try:
        from odeprocess.serving.playground import mount

        mount(app, folders, visitors=limits.visitors).prepare()
    except (ImportError, ValueError) as error:
        _say(f"No playground: {error}")


def _say(note: str) -> None:
    say(note, err=True)
