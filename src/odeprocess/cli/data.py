"""`data`: the built-in data sets, listed and written as tables."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Json, prepare, user_errors

SETS = {
    "sines": "a·sin(t − b), 100 points",
    "lines": "a·t + b, 100 points",
    "exponentials": "a/60·exp(t − b), 100 points",
    "oscillators": "damped a·sin(t − b), 100 points",
    "lotka-volterra": "predators and prey, two channels, 100 points",
    "handwriting": "2858 letters, two channels, 60 to 205 points (public data: downloaded, or from ODEPROCESS_DATA)",
}


def data(
    name: Annotated[str | None, typer.Argument(help="Which set; without a name, all are listed.")] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV or Parquet file to write.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many series.")] = 60,
    points: Annotated[int | None, typer.Option(min=1, help="Points of each, at random; all by default.")] = None,
    noise: Annotated[float, typer.Option(min=0.0, help="Standard deviation of noise on every value.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    as_json: Json = False,
) -> None:
    """List the built-in data sets, or write one as a table with columns id, t and y (or x, y)."""
    import json

    with user_errors():
        if name is None:
            listed = json.dumps(SETS, indent=2, ensure_ascii=False)
            typer.echo(listed if as_json else "\n".join(f"{key:16s}{text}" for key, text in SETS.items()))
            return
        if name not in SETS:
            raise ValueError(f"There is no data set {name!r}; expected one of {', '.join(SETS)}.")
        if out is None:
            raise ValueError(f"Where should {name} go? Name a file: --out {name}.csv")
        prepare("cpu")
        from odeprocess.forecasting.write_table import check_suffix, write

        check_suffix(out)
        table = _table(_drawn(name, count, noise, seed), points, seed)
        write(out, table)
        said = {"out": str(out), "rows": table.num_rows}
        typer.echo(json.dumps(said) if as_json else f"Wrote {table.num_rows} rows to {out}.")


def _drawn(name: str, count: int, noise: float, seed: int) -> Any:
    import jax
    import jax.random as jr

    from odeprocess.data import SOURCES, load_characters

    if name != "handwriting":
        return jax.device_get(SOURCES[name].sample(count, key=jr.key(seed), noise=noise))
    return load_characters().series[:count]


def _table(series: Any, points: int | None, seed: int) -> Any:
    import numpy as np
    import pyarrow as pa

    rng, kept = np.random.default_rng(seed), np.asarray(series.observed)
    if points is not None:
        rank = np.argsort(np.argsort(np.where(kept, rng.random(kept.shape), 2.0), 1), 1)
        kept = kept & (rank < points)
    who, place = np.nonzero(kept)
    values = ["y"] if series.channels == 1 else ["x", "y"]
    columns = {"id": who, "t": np.asarray(series.t, np.float64)[who, place]}
    columns |= {name: np.asarray(series.y, np.float64)[who, place, j] for j, name in enumerate(values)}
    return pa.table(columns)
