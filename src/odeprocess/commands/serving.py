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
        from ..server import Hosted, Limits, create_app
        from ..server.run import bound, check_host, run

        if token is not None and not token.strip():
            raise ValueError("The token is empty; leave it out to do without one.")
        check_host(host, token)
        hosted = [Hosted.load(folder) for folder in models]
        limits = Limits(idle=idle, series=max_series, points=max_points)
        extend = (lambda app: _playground(app, models, token)) if playground else None
        kept = state or models[0] / "series.sqlite"
        app = create_app(hosted, state=kept, limits=limits, token=token, warm=warm, extend=extend, tell=_say)
        run(
            app, bound(host, port), lambda url: _say(f"Serving {', '.join(each.name for each in hosted)} at {url}; Ctrl+C stops.")
        )


def _playground(app: Any, folders: list[Path], token: str | None) -> None:
    """Adds the playground, where it can be had."""
    if token is not None:
        return _say("No playground: a browser cannot send the token.")
    try:
        from ..playground import mount

        mount(app, folders).prepare()
    except (ImportError, ValueError) as error:
        _say(f"No playground: {error}")
    else:
        _say("The playground is at /play.")


def _say(note: str) -> None:
    say(note, err=True)
