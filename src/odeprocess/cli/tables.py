"""`fit`, `predict`, `evaluate`, `plot` and `info`: a `Forecaster` from the command line."""

import json
import time as clock
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .common import Config, Json, Separator, Times, parse_names, parse_numbers, parse_times, prepare, say, user_errors

Folder = Annotated[Path, typer.Argument(help="The folder that `odeprocess fit` wrote.")]
NewData = Annotated[Path, typer.Argument(help="A CSV or Parquet file with the columns of training.")]
How = Literal["auto", "amortised", "exact"]
Inference = Annotated[
    How | None, typer.Option(help="One pass of the encoder (amortised), or draws fitted to the observations (exact).")
]
Device = Annotated[Literal["auto", "cpu", "gpu"], typer.Option(help="Where to run; auto: a GPU if there is one.")]


def fit(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file: a row for each time of each series.")],
    out: Annotated[Path, typer.Option(help="The folder that the model is written to.")],
    series: Annotated[str | None, typer.Option(help="The column that says which series a row belongs to.")] = None,
    time: Annotated[str | None, typer.Option(help="The column of times, numbers or dates.")] = None,
    values: Annotated[str | None, typer.Option(help="The columns of measurements: y1,y2.")] = None,
    static: Annotated[str | None, typer.Option(help="Columns that do not change within a series: dose,sex.")] = None,
    categories: Annotated[str | None, typer.Option(help="Static columns that are categories although they are numbers.")] = None,
    origin: Annotated[str, typer.Option(help="Where a series' time begins: first, absolute, or a column.")] = "first",
    model: Annotated[str, typer.Option(help="auto, or the name of a variant: ndp-skip, ndp-linear, ndp-state, ndp, …")] = "auto",
    effort: Annotated[
        Literal["quick", "default", "best"], typer.Option(help="How long to train, and how many candidates.")
    ] = "default",
    transform: Annotated[str | None, typer.Option(help="identity, log or log1p; or by column: y1=log,y2=identity.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Sizes of the process: l_dim=4,z_dim=8,h_dim=48,r_dim=64.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the series before expectation–maximisation.")] = None,
    em_epochs: Annotated[
        int | None, typer.Option(help="Epochs of expectation–maximisation; three times as many by default.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Series in a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At its highest.")] = None,
    held_out: Annotated[int | None, typer.Option(help="Series kept from training, to check intervals on.")] = None,
    patience: Annotated[int | None, typer.Option(help="Epochs without gain on held-out series that end the first half.")] = None,
    ties: Annotated[str, typer.Option(help="Two rows of a series at the same time: refuse or keep.")] = "refuse",
    min_points: Annotated[int, typer.Option(help="Rows with a value that each series must have.")] = 2,
    draws: Annotated[int, typer.Option(help="Draws that describe each posterior.")] = 64,
    separator: Separator = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run with the same options was killed.")] = False,
    device: Device = "auto",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Train on a table and write a model folder. Columns and options are chosen from the data, and printed."""
    with user_errors():
        _check_free(out)
        checkpoint = out.with_name(f"{out.name}.checkpoint")
        if checkpoint.exists() and not resume:
            raise ValueError(
                f"{checkpoint} holds a run that was stopped. Go on with --resume and its options, or remove it to begin anew."
            )
        prepare(device)
        from odeprocess.forecasting.forecaster import Forecaster
        from odeprocess.training.checkpoints import discard
        from odeprocess.training.train import TrainingError

        began = clock.perf_counter()
        training = {"epochs": epochs, "em_epochs": em_epochs, "batch_size": batch_size}
        training |= {"learning_rate": learning_rate, "patience": patience}
        forecaster = Forecaster(
            transform=_pairs(transform, "--transform"),
            sizes=_whole(_pairs(sizes, "--sizes")),
            model=model,
            effort=effort,
            options={name: value for name, value in training.items() if value is not None} or None,
            held_out=held_out,
            ties=ties,
            min_points=min_points,
            draws=draws,
            separator=separator or ",",
            seed=seed,
        )
        try:
            forecaster.fit(
                data,
                series,
                time,
                parse_names(values),
                static=parse_names(static),
                categories=parse_names(categories) or (),
                origin=origin,
                checkpoint=checkpoint,
                resume=True,
            )
        except TrainingError as error:
            raise ValueError(str(error)) from None
        forecaster.save(out)
        discard(checkpoint)
        seconds = clock.perf_counter() - began
        if as_json:
            _print_json({"out": str(out), "notes": forecaster.notes_, "choices": forecaster.choices_, "seconds": seconds})
        else:
            say(*forecaster.notes_, f"Wrote {out} after {seconds:.0f} s.")


def predict(
    model: Folder,
    data: NewData,
    times: Times = None,
    quantiles: Annotated[str, typer.Option(help="Which, each a column.")] = "0.05,0.5,0.95",
    out: Annotated[Path | None, typer.Option(help="A CSV or Parquet file for the predictions; printed by default.")] = None,
    draws: Annotated[int | None, typer.Option(help="Draws that describe each posterior.")] = None,
    inference: Inference = None,
    separator: Separator = None,
    device: Device = "auto",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Predict the series of a table, given its rows: mean, standard deviation and quantiles, measurement noise included."""
    with user_errors():
        forecaster = _loaded(model, device, separator, draws=draws)
        from odeprocess.forecasting.write_table import check_suffix, write

        if out is not None:
            check_suffix(out)
        found = forecaster.predict(
            data, parse_times(times), quantiles=parse_numbers(quantiles, "--quantiles"), inference=inference
        )
        if out is not None:
            write(out, found)
            said = {"out": str(out), "rows": len(found)}
            _print_json(said) if as_json else say(f"Wrote {len(found)} rows to {out}.")
        else:
            typer.echo(_records(found) if as_json else found.to_csv(index=False), nl=as_json)


def evaluate(
    model: Folder,
    data: NewData,
    context: Annotated[int, typer.Option(help="How many rows of each series are given.")],
    split: Annotated[Literal["interpolation", "forecast"] | None, typer.Option(help="Rows anywhere, or the first ones.")] = None,
    by: Annotated[Literal["variable", "series"], typer.Option(help="A line for each variable, or for each series.")] = "variable",
    out: Annotated[Path | None, typer.Option(help="A CSV or Parquet file for the scores; printed by default.")] = None,
    inference: Inference = None,
    separator: Separator = None,
    device: Device = "auto",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Score the model on series it was not trained on: errors, log density, CRPS and coverage of 90 % intervals."""
    with user_errors():
        forecaster = _loaded(model, device, separator)
        from odeprocess.forecasting.write_table import check_suffix, write

        if out is not None:
            check_suffix(out)
        found = forecaster.evaluate(data, context, split, by=by, inference=inference)
        if out is not None:
            write(out, found)
        typer.echo(_records(found)) if as_json else say(*found.to_string(index=False).split("\n"))


def plot(
    model: Folder,
    data: NewData,
    out: Annotated[Path, typer.Option(help="The picture: a PNG, PDF or SVG file.")],
    series: Annotated[str | None, typer.Option(help="Which series: a,b. The first six by default.")] = None,
    times: Times = None,
    separator: Separator = None,
    device: Device = "auto",
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Draw predictions and rows of some series."""
    with user_errors():
        if out.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise ValueError(f"{out} has the ending {out.suffix!r}; expected .png, .pdf or .svg.")
        forecaster = _loaded(model, device, separator)
        import matplotlib

        matplotlib.use("Agg")
        forecaster.plot(data, parse_times(times), series=parse_names(series), path=out)
        _print_json({"out": str(out)}) if as_json else say(f"Wrote {out}.")


def info(model: Folder, as_json: Json = False) -> None:
    """Say what a model folder holds: columns, units, choices, sizes."""
    with user_errors():
        forecaster = _loaded(model, "cpu", None)
        from odeprocess.forecasting.message_text import join_names as shown

        inner = forecaster.model_
        if as_json:
            known = {"layout": forecaster.layout_.to_json(), "choices": forecaster.choices_, "notes": forecaster.notes_}
            _print_json({**known, "spec": inner.spec.to_json(), "parameters": inner.num_parameters, "info": inner.info})
            return
        columns = forecaster.layout_.columns
        listed = [
            f"series {columns.series}, time {columns.time} (from {columns.origin}), values {shown(columns.values, '', 100)}"
        ]
        listed += [f"static {shown(columns.static, '', 100)}"] if columns.static else []
        say(f"{inner!r}", *listed, *forecaster.notes_)


def _loaded(folder: Path, device: str, separator: str | None, draws: int | None = None) -> Any:
    prepare(device)
    from odeprocess.forecasting.forecaster import Forecaster

    forecaster = Forecaster.load(folder)
    changes = {"separator": separator, "draws": draws}
    return forecaster.set_params(**{name: value for name, value in changes.items() if value is not None})


def _check_free(out: Path) -> None:
    """Before minutes of training: may the model be written there?"""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; expected a folder, or a name that is free.")
    if out.is_dir() and any(out.iterdir()) and not (out / "model.json").exists():
        raise ValueError(f"{out} holds other files and no model; expected a folder of its own for the model.")


def _pairs(text: str | None, option: str) -> Any:
    """`a=x,b=y` as a dictionary; a single word stays as it is."""
    if text is None or "=" not in text:
        return text
    parts = [part.split("=") for part in text.split(",")]
    if any(len(part) != 2 for part in parts):
        raise ValueError(f"{option} is {text!r}; expected one word, or name=value,name=value.")
    return {name.strip(): value.strip() for name, value in parts}


def _whole(sizes: Any) -> dict[str, int] | None:
    if sizes is None:
        return None
    if not isinstance(sizes, dict) or not all(value.isdecimal() and len(value) < 7 for value in sizes.values()):
        raise ValueError(f"--sizes is {sizes!r}; expected whole numbers by name, such as l_dim=4,z_dim=8.")
    return {name: int(value) for name, value in sizes.items()}


def _records(table: Any) -> str:
    """A data frame as JSON, a row each; numbers have all their digits, of which pandas would write ten decimals."""
    rows = json.loads(table.to_json(orient="records"))
    for name in table.columns[[kind.kind == "f" for kind in table.dtypes]]:
        for row, value in zip(rows, table[name].tolist(), strict=True):
            row[name] = None if value != value else value
    return json.dumps(rows, allow_nan=False)


def _print_json(result: Any) -> None:
    typer.echo(json.dumps(result, indent=2))
