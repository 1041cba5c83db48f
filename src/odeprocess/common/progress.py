"""A progress bar on the terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    total: int, what: str, *, show: bool | Callable[[str], None] | None = None, done: int = 0
) -> Iterator[Callable[[str], None]]:
    """Yields a function that moves the bar one step on from `done` and shows a note; silent unless on a terminal or asked for.

    A function given as `show` is told instead: the caller has a bar of its own.
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
