"""`play`: the playground, alone on this machine."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import prepare, user_errors

HOST = "127.0.0.1"


def play(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Model folders; without any, small models are trained on first use and kept in a cache."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is served; 0 for any free port.")] = 8017,
    browser: Annotated[bool, typer.Option(help="Whether to open the page in a browser.")] = True,
) -> None:
    """Open a page on which you add observations and watch what a model believes.

    The first start trains a small model in about a minute; others join while the page is open.
    """
    with user_errors():
        prepare("auto")
        from rich.console import Console

        console = Console(stderr=True)
        listening = _listen(port)
        try:
            from odeprocess.serving.http.run import run
            from odeprocess.serving.playground import alone
        except ImportError:
            raise ImportError("The playground needs more packages: pip install 'odeprocess[play]'.") from None

        def tell(url: str) -> None:
            console.print(f"The playground is at {url}/ (stop it with Ctrl-C).", soft_wrap=True)
            if browser:
                threading.Timer(0.5, webbrowser.open, [f"{url}/"]).start()

        run(alone(_gallery(folders or [], console)), listening, tell, grace=1)


def _listen(port: int) -> Any:
    """A socket on this machine alone, had before anything is trained."""
    import socket

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError:
        raise OSError(f"Port {port} is taken. Choose another with --port, or any free one with --port 0.") from None
    return listening


def _gallery(folders: list[Path], console: Any) -> Any:
    from odeprocess.serving.playground import ModelMenu, demo_models, load_views

    if folders:
        with console.status("Compiling"):
            gallery = ModelMenu(load_views(folders))
        gallery.prepare()
        return gallery
    root, names = demo_models.cache(), demo_models.available()
    if not demo_models.ready(names[0], root):
        from rich.progress import Progress

        with Progress(console=console) as bar:
            task = bar.add_task(f"Training a first model ({names[0]})", total=1.0)
            demo_models.train(names[0], root, lambda part: bar.update(task, completed=part))
    there = [name for name in names if demo_models.ready(name, root)]
    with console.status("Compiling"):
        gallery = ModelMenu(load_views([root / name for name in there]))
    gallery.prepare([name for name in names if name not in there], root)
    return gallery
