"""Shared by all commands: the device, messages for user errors, options from a TOML file, parsing of lists."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from odeprocess.common.display_names import one_line

MAX_TIMES = 1_000_000  # of start:stop:count: more would fill the memory; chosen by hand


def prepare(device: str) -> None:
    """Sets JAX's device and its cache of compiled programs; call it before JAX is imported."""
    if device != "auto":
        os.environ["JAX_PLATFORMS"] = {"cpu": "cpu", "gpu": "cuda"}[device]
    cache = Path(os.environ.get("ODEPROCESS_CACHE") or Path.home() / ".cache" / "odeprocess") / "jax"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "1")
    import jax

    try:
        jax.devices()
    except (RuntimeError, AssertionError):  # JAX asserts where no platform is left
        message = f"JAX found no {device.upper()}. Use --device auto; for GPUs install 'odeprocess[cuda]'."
        raise ValueError(message) from None


@contextmanager
def user_errors() -> Iterator[None]:
    """Prints user errors as one message with exit code 2, and warnings as one line; other errors keep their traceback."""

    def show_warning(message, category, *rest, **more):
        if issubclass(category, UserWarning):  # without the line of code, which is not the user's
            say(f"Warning: {message}", err=True)
        else:
            original(message, category, *rest, **more)

    with warnings.catch_warnings():
        original, warnings.showwarning = warnings.showwarning, show_warning
        try:
            yield
        except (ValueError, OSError, ImportError) as error:
            say(f"Error: {error}", err=True)
            raise typer.Exit(2) from None


def say(*lines: str, err: bool = False) -> None:
    """Prints lines; control characters in them are escaped, so that a name cannot make more lines."""
    typer.echo("\n".join(map(one_line, lines)), err=err)


def _load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Reads options from a TOML file as defaults, which options on the command line override."""
    if path is None or context.resilient_parsing:
        return path
    import tomllib

    with user_errors():
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist. Expected a TOML file of options, such as: epochs = 100")
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML: {error}. Expected lines such as: epochs = 100") from None
        options = {key.replace("-", "_"): value for key, value in found.items()}
        known = {parameter.name for parameter in context.command.params} - {"config", "help"}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ValueError(f"{path} has unknown option(s) {unknown}; expected some of {', '.join(sorted(known))}.")
        context.default_map = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in options.items()}
    return path


Config = Annotated[
    Path | None,
    typer.Option("--config", callback=_load_config, is_eager=True, help="A TOML file of options; the command line overrides it."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Separator = Annotated[str | None, typer.Option(help="The separator of a CSV file's cells; a comma by default.")]
Times = Annotated[
    str | None,
    typer.Option(help="Times from each series' start: 0,1,2.5 or start:stop:count. Or a file with columns of series and time."),
]


def parse_names(text: str | None) -> list[str] | None:
    """Splits `a,b` into a list."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def parse_numbers(text: str, option: str) -> list[float]:
    """Reads `0,1,2.5` or `start:stop:count` as numbers."""
    import numpy as np

    try:
        if ":" in text:
            start, stop, count = text.split(":")
            if not 0 < int(count) <= MAX_TIMES:
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


def parse_times(text: str | None) -> Any:
    """Reads the option --times: numbers, or the name of a table."""
    if text is None or text.lower().endswith((".csv", ".csv.gz", ".tsv", ".parquet")):
        return text
    return parse_numbers(text, "--times")
