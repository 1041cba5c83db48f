"""`odeprocess play`: the playground on this machine."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import prepare, user_errors

HOST = "127.0.0.1"  # the page is for this machine only
BROWSER_DELAY = 0.5  # seconds from the start of the server until the browser opens the page; chosen by hand


def play(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Model folders; without any, small demo models, which the first start trains and caches."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of the page; 0 for any free port.")] = 8017,
    browser: Annotated[bool, typer.Option(help="Whether to open the page in a browser.")] = True,
) -> None:
    """Open a page on which you add observations and see a model's predictions change.

    The first start trains a small model in about a minute; others are trained while the page is open.
    """
    with user_errors():
        prepare("auto")
        from rich.console import Console

        console = Console(stderr=True)
        listening = _bind(port)
        try:
            from odeprocess.serving.http.run import run
            from odeprocess.serving.playground import create_app
        except ImportError:
            raise ImportError("The playground needs more packages: pip install 'odeprocess[play]'.") from None

        def on_ready(url: str) -> None:
            console.print(f"The playground is at {url}/ (stop it with Ctrl-C).", soft_wrap=True)
            if browser:
                threading.Timer(BROWSER_DELAY, webbrowser.open, [f"{url}/"]).start()

        run(create_app(_load_menu(folders or [], console)), listening, on_ready, stop_timeout=1)


def _bind(port: int) -> Any:
    """Returns a socket that only this machine can reach. It is bound before training, so that a taken port is found early."""
    import socket

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError:
        raise OSError(f"Port {port} is taken. Choose another with --port, or any free one with --port 0.") from None
    return listening


def _load_menu(folders: list[Path], console: Any) -> Any:
    """Loads the models of some folders; without folders the demo models, of which the first is trained if it is missing."""
    from odeprocess.serving.playground import ModelMenu, demo_models, load_views

    if folders:
        with console.status("Compiling"):
            menu = ModelMenu(load_views(folders))
        menu.prepare()
        return menu
    root, names = demo_models.cache_folder(), demo_models.available()
    if not demo_models.is_trained(names[0], root):
        from rich.progress import Progress

        with Progress(console=console) as bar:
            task = bar.add_task(f"Training a first model ({names[0]})", total=1.0)
            demo_models.train(names[0], root, lambda part: bar.update(task, completed=part))
    trained = [name for name in names if demo_models.is_trained(name, root)]
    with console.status("Compiling"):
        menu = ModelMenu(load_views([root / name for name in trained]))
    menu.prepare([name for name in names if name not in trained], root)
    return menu
