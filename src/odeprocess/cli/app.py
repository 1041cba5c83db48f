"""The command `odeprocess`. Commands parse options, call the library and print; they import it late, so that --help is quick."""

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
Experiment = Literal[
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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """The options of `odeprocess` itself."""


for command in (fit, predict, evaluate, plot, info, data, play, serve):
    app.command()(command)


@app.command()
def reproduce(
    name: Annotated[Experiment, typer.Argument(help="The experiment of the paper.")],
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds to train; by default 5, and 3 for images.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run everything on tiny settings, to see that it works.")] = False,
    device: Annotated[Literal["auto", "cpu", "gpu"], typer.Option(help="The device; auto: a GPU if there is one.")] = "auto",
    out: Annotated[Path, typer.Option(help="The folder for runs, results, figures and the report.")] = Path("reproduction"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the rows of results to this file.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run this variant only (may be repeated).")] = None,
) -> None:
    """Reproduce a table or figure of the paper, or all of them.

    Results that exist are not computed again, so a run that was stopped continues. Handwriting and the rotating digits
    download public data sets, or read them from the folder in ODEPROCESS_DATA.
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
        with _progress_bar(count_work(parts, out)) as advance:
            for each in whole:
                rows += reproduce(each, out, advance, variants=only or ())["rows"]
        if json_file is not None:
            write_json(json_file, {"experiment": name, "rows": rows})
        write_scoreboard(out, out)
        page = write_page(out, out)
        typer.echo(f"Wrote {', '.join(str(out / (each.name + '.json')) for each in whole)} and {page}.")


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder that `reproduce --out` wrote.")] = Path("reproduction"),
    to: Annotated[Path | None, typer.Option(help="The folder for the report and its figures; by default the same.")] = None,
) -> None:
    """Write the report and its figures from the results so far."""
    with user_errors():
        prepare("cpu")
        from odeprocess.experiments.paper.report import write_page
        from odeprocess.experiments.scoreboard.report import write_scoreboard

        written = [write_page(folder, to or folder), write_scoreboard(folder, to or folder)]
        typer.echo(f"Wrote {' and '.join(str(page) for page in written if page)}.")


@contextmanager
def _progress_bar(total: float) -> Iterator[Any]:
    """Yields a function that advances a progress bar on a terminal, and elsewhere prints a line for every 5 %."""
    if not sys.stderr.isatty():
        done, printed = [0.0], [0]

        def advance(work: float, note: str) -> None:
            done[0] += work
            percent = int(100 * done[0] / total)
            if percent >= printed[0] + 5:
                printed[0] = percent
                typer.echo(f"{percent:3d} %  {note}", err=True)

        yield advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), speed_estimate_period=600) as bar:
        task = bar.add_task("", total=total)
        yield lambda work, note: bar.update(task, advance=work, description=note)


def main() -> None:
    """Runs the command."""
    app()
