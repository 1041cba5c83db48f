"""`odeprocess serve`: models over HTTP."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import prepare, say, user_errors
from .tables import Device


def serve(
    models: Annotated[list[Path], typer.Argument(help="Model folders; the name of a folder is the name of its model.")],
    host: Annotated[
        str, typer.Option(help="The address to listen at; one that other machines can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at; 0 for any free port.")] = 8000,
    token: Annotated[str | None, typer.Option(envvar="ODEPROCESS_TOKEN", help="The token that every request must have.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="The address of a TLS proxy in front of the server, such as https://models.example.org.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The SQLite file that stores the series; by default in the first model's folder.")
    ] = None,
    idle: Annotated[float, typer.Option(min=1.0, help="Seconds after which an unused series is deleted.")] = 24 * 3600.0,
    max_series: Annotated[int, typer.Option(min=1, help="How many series may be open at once.")] = 10_000,
    max_points: Annotated[int, typer.Option(min=1, help="How many observations a series may have.")] = 10_000,
    warm: Annotated[bool, typer.Option(help="Whether to compile for the first requests at the start.")] = True,
    playground: Annotated[bool, typer.Option(help="Whether to serve the playground, if it is installed.")] = True,
    device: Device = "auto",
) -> None:
    """Serve models over HTTP: open series, add observations, predict, and ask where to measure next."""
    with user_errors():
        prepare(device)
        from odeprocess.serving.http import Limits, ServedModel, create_app
        from odeprocess.serving.http.authentication import page_link
        from odeprocess.serving.http.run import bind, check_host, run

        if token is not None and not token.strip():
            raise ValueError("The token is empty; leave it out to do without one.")
        check_host(host, token)
        served_models = [ServedModel.load(folder) for folder in models]
        limits = Limits(idle_seconds=idle, max_series=max_series, max_points=max_points)
        app = create_app(
            served_models,
            state=state or models[0] / "series.sqlite",
            limits=limits,
            token=token,
            public=public_url,
            warm=warm,
            extend=(lambda app: _add_playground(app, models, limits)) if playground else None,
            report=_report,
        )

        def on_ready(url: str) -> None:
            paths = getattr(app.state, "playground_paths", None)
            if paths is not None:
                _report(f"The playground is at {page_link(public_url or url, paths.home, token)}")
            _report(f"Serving {', '.join(each.name for each in served_models)} at {url}; Ctrl+C stops.")

        run(app, bind(host, port), on_ready, limits=limits)


def _add_playground(app: Any, folders: list[Path], limits: Any) -> None:
    """Adds the playground, if it is installed and can show the models."""
    try:
        from odeprocess.serving.playground import mount

        mount(app, folders, max_pages=limits.max_pages).prepare()
    except (ImportError, ValueError) as error:
        _report(f"No playground: {error}")


def _report(note: str) -> None:
    say(note, err=True)
