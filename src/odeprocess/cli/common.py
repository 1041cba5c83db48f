"""What all commands share: the device, errors a user can mend, options from a file, and what is printed."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from odeprocess.common.display_names import one_line

MOST_TIMES = 1_000_000  # that start:stop:count may stand for


def prepare(device: str) -> None:
    """Before JAX is imported: which device it uses, and where it keeps what it compiled."""
    if device != "auto":
        os.environ["JAX_PLATFORMS"] = {"cpu": "cpu", "gpu": "cuda"}[device]
    cache = Path(os.environ.get("ODEPROCESS_CACHE") or Path.home() / ".cache" / "odeprocess") / "jax"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
    import jax

    try:
        jax.devices()
    except (RuntimeError, AssertionError):  # JAX asserts where no platform is left
        raise ValueError(
            f"No {device.upper()} can be used: JAX found none. Use --device auto; for GPUs install 'odeprocess[cuda]'."
        ) from None


@contextmanager
def user_errors() -> Iterator[None]:
    """What a user can mend is one message and exit code 2; anything else keeps its traceback. Warnings are messages too."""

    def told(message, category, *rest, **more):
        if issubclass(category, UserWarning):  # whoever types a command has no line of code to point at
            say(f"Warning: {message}", err=True)
        else:
            shown(message, category, *rest, **more)

    with warnings.catch_warnings():
        shown, warnings.showwarning = warnings.showwarning, told
        try:
            yield
        except (ValueError, OSError, ImportError) as error:
            say(f"Error: {error}", err=True)
            raise typer.Exit(2) from None


def say(*lines: str, err: bool = False) -> None:
    """Prints lines that may hold names which somebody chose: whatever is in them, each stays a line."""
    typer.echo("\n".join(map(one_line, lines)), err=err)


def _load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Options from a TOML file become defaults, so that whatever is on the command line wins."""
    if path is None or context.resilient_parsing:
        return path
    import tomllib

    with user_errors():
        if not path.is_file():
            raise FileNotFoundError(f"{path} is not there. Expected a TOML file of options, such as: epochs = 100")
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML: {error}. Expected lines such as: epochs = 100") from None
        options = {key.replace("-", "_"): value for key, value in found.items()}
        known = {parameter.name for parameter in context.command.params} - {"config", "help"}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ValueError(f"{path} has unknown option(s) {unknown}; {context.info_name} knows: {', '.join(sorted(known))}.")
        context.default_map = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in options.items()}
    return path


Config = Annotated[
    Path | None,
    typer.Option("--config", callback=_load_config, is_eager=True, help="A TOML file of options; the command line wins."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Separator = Annotated[str | None, typer.Option(help="Between the cells of a CSV file; by default a comma.")]
Times = Annotated[
    str | None,
    typer.Option(help="From each series' beginning: 0,1,2.5 or start:stop:count. Or a file with columns of series and time."),
]


def names(text: str | None) -> list[str] | None:
    """`a,b` as a list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def numbers(text: str, option: str) -> list[float]:
    """`0,1,2.5` or `start:stop:count` as numbers."""
    import numpy as np

    try:
        if ":" in text:
            start, stop, count = text.split(":")
            if not 0 < int(count) <= MOST_TIMES:
                raise ValueError
            with np.errstate(over="ignore", invalid="ignore"):
                found = np.linspace(float(start), float(stop), int(count)).tolist()
        else:
            found = [int(number) if number.strip().isdigit() else float(number) for number in text.split(",")]
        if not all(abs(number) < float("inf") for number in found):
            raise ValueError
        return found
    except ValueError:
        raise ValueError(
            f"{option} is {text[:80]!r}; expected numbers such as 0,1,2.5 or start:stop:count such as 0:24:49."
        ) from None


def times(text: str | None) -> Any:
    """What --times says: numbers, or the name of a table."""
    if text is None or text.lower().endswith((".csv", ".csv.gz", ".tsv", ".parquet")):
        return text
    return numbers(text, "--times")
