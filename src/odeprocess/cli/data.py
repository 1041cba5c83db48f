"""`odeprocess data`: lists the built-in data sets, and writes them as tables."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Json, prepare, user_errors

DATA_SETS = {
    "sines": "a·sin(t − b), 100 points",
    "lines": "a·t + b, 100 points",
    "exponentials": "a/60·exp(t − b), 100 points",
    "oscillators": "damped a·sin(t − b), 100 points",
    "lotka-volterra": "predators and prey, two channels, 100 points",
    "handwriting": "2858 letters, two channels, 60 to 205 points (public data: downloaded, or from ODEPROCESS_DATA)",
}


def data(
    name: Annotated[str | None, typer.Argument(help="The data set; without a name, all are listed.")] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV or Parquet file to write.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many series.")] = 60,
    points: Annotated[int | None, typer.Option(min=1, help="Points of each series, chosen at random; all by default.")] = None,
    noise: Annotated[float, typer.Option(min=0.0, help="Standard deviation of the noise added to every value.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """List the built-in data sets, or write one as a table with columns id, t and y (or x, y)."""
    import json

    with user_errors():
        if name is None:
            listed = json.dumps(DATA_SETS, indent=2, ensure_ascii=False)
            typer.echo(listed if as_json else "\n".join(f"{key:16s}{text}" for key, text in DATA_SETS.items()))
            return
        if name not in DATA_SETS:
            raise ValueError(f"There is no data set {name!r}; expected one of {', '.join(DATA_SETS)}.")
        if out is None:
            raise ValueError(f"--out is missing: name a file for the table, such as --out {name}.csv")
        prepare("cpu")
        from odeprocess.forecasting.write_table import check_suffix, write

        check_suffix(out)
        table = _table(_sample(name, count, noise, seed), points, seed)
        write(out, table)
        result = {"out": str(out), "rows": table.num_rows}
        typer.echo(json.dumps(result) if as_json else f"Wrote {table.num_rows} rows to {out}.")


def _sample(name: str, count: int, noise: float, seed: int) -> Any:
    import jax
    import jax.random as jr

    from odeprocess.data import SOURCES, load_characters

    if name != "handwriting":
        return jax.device_get(SOURCES[name].sample(count, key=jr.key(seed), noise=noise))
    return load_characters().series[:count]


def _table(series: Any, points: int | None, seed: int) -> Any:
    import numpy as np
    import pyarrow as pa

    rng, observed = np.random.default_rng(seed), np.asarray(series.observed)
    if points is not None:
        rank = np.argsort(np.argsort(np.where(observed, rng.random(observed.shape), 2.0), 1), 1)
        observed = observed & (rank < points)
    index, place = np.nonzero(observed)
    values = ["y"] if series.channels == 1 else ["x", "y"]
    columns = {"id": index, "t": np.asarray(series.t, np.float64)[index, place]}
    columns |= {name: np.asarray(series.y, np.float64)[index, place, j] for j, name in enumerate(values)}
    return pa.table(columns)
