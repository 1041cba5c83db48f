"""The command: `odeprocess`. It parses, calls and prints; the work is done elsewhere, and imported when it is needed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from odeprocess.version import __version__

from .common import prepare, user_errors
from .data import data
from .play import play
from .serve import serve
from .tables import evaluate, fit, info, plot, predict

app = typer.Typer(
    help="Neural ODE processes: distributions over trajectories, from many short, sparse, irregular series.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Name = Literal[
    "table1",
    "table2",
    "table3",
    "active-learning",
    "lotka-volterra",
    "handwriting",
    "rotating-mnist",
    "variable-rotating-mnist",
    "accuracy",
    "all",
]


def _show_version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say the version and stop.")
    ] = False,
) -> None:
    """Options of every command."""


for command in (fit, predict, evaluate, plot, info, data, play, serve):
    app.command()(command)


@app.command()
def reproduce(
    name: Annotated[Name, typer.Argument(help="Which of the paper's experiments.")],
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds, trained at once; by default 5, 3 for images.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A rehearsal: everything runs, nothing is learned.")] = False,
    device: Annotated[Literal["auto", "cpu", "gpu"], typer.Option(help="Where to run; auto: a GPU if there is one.")] = "auto",
    out: Annotated[Path, typer.Option(help="Where runs, records, pictures and the page go.")] = Path("reproduction"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file too.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run only this variant (may be given again).")] = None,
) -> None:
    """Reproduce a table or figure of the paper, or all of them.

    Runs that are there already are not done again, so a run that was stopped goes on where it was. Handwriting and the
    rotating digits download public data sets, or read them from the folder that ODEPROCESS_DATA names.
    """
    with user_errors():
        prepare(device)
        from odeprocess.experiments.paper.report import write_page
        from odeprocess.experiments.reproduce import count_work, find_experiments, reproduce, select_variants
        from odeprocess.experiments.result_files import write_json
        from odeprocess.experiments.scoreboard.report import write_scoreboard

        whole = find_experiments(name, num_seeds=seeds, quick=quick)
        parts = [select_variants(each, only) if only else each for each in whole]
        rows: list[dict[str, Any]] = []
        with _whole_plan(count_work(parts, out)) as advance:
            for each in whole:
                rows += reproduce(each, out, advance, variants=only or ())["rows"]
        if json_file is not None:
            write_json(json_file, {"experiment": name, "rows": rows})
        write_scoreboard(out, out)
        page = write_page(out, out)
        typer.echo(f"Wrote {', '.join(str(out / (each.name + '.json')) for each in whole)} and {page}.")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="What `reproduce --out` wrote.")] = Path("reproduction"),
    to: Annotated[Path | None, typer.Option(help="Where the page and its pictures go; by default there.")] = None,
) -> None:
    """Write the page and draw the pictures from what has been run."""
    with user_errors():
        prepare("cpu")
        from odeprocess.experiments.paper.report import write_page
        from odeprocess.experiments.scoreboard.report import write_scoreboard

        written = [write_page(folder, to or folder), write_scoreboard(folder, to or folder)]
        typer.echo(f"Wrote {' and '.join(str(page) for page in written if page)}.")


@contextmanager
def _whole_plan(total: float) -> Iterator[Any]:
    """A bar over the whole plan with the time left on a terminal; elsewhere a line now and then."""
    if not sys.stderr.isatty():
        done, said = [0.0], [0]

        def tell(work: float, note: str) -> None:
            done[0] += work
            percent = int(100 * done[0] / total)
            if percent >= said[0] + 5:
                said[0] = percent
                typer.echo(f"{percent:3d} %  {note}", err=True)

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), speed_estimate_period=600) as bar:
        task = bar.add_task("", total=total)
        yield lambda work, note: bar.update(task, advance=work, description=note)


def main() -> None:
    """The entry point."""
    app()
