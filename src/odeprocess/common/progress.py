"""A progress bar on the terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    total: int, what: str, *, show: bool | Callable[[str], None] | None = None, done: int = 0
) -> Iterator[Callable[[str], None]]:
    """Yields a function that advances the bar by one step, from `done` on, and shows a note.

    There is a bar on terminals, and where `show` is true. A function given as `show` is called with the notes instead of a bar.
    """
    if callable(show):
        yield show
        return
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, completed=done, note="", rate="")

        def advance(note: str) -> None:
            bar.advance(task)
            speed = bar.tasks[task].speed
            bar.update(task, note=note, rate=f"{speed:.1f}/s" if speed else "")

        yield advance
