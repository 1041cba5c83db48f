"""The layout: how tables are read for one model, learned from the training table and kept with the model."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_dataclass, read_value
from odeprocess.posterior.model import Model

from .check_table import LARGEST, CellPlaces, numbers, sensible_times, sensible_values
from .clock import UNITS, Clock, is_zone
from .column_roles import Columns
from .covariates import Covariate
from .exact_times import Instants
from .message_text import cut, listed
from .read_table import Table
from .rows import NamesByRow, TableRows, series_of
from .transforms import NAMES, Transform, choose

FORECASTER = "forecaster"  # where `Model.info` keeps what a forecaster knows beyond its model
TIES = ("refuse", "keep")


@dataclasses.dataclass(frozen=True)
class Layout:
    """How tables are read.

    Attributes:
        columns: which column is what.
        clock: how times are read.
        transforms: of each value column.
        covariates: how static columns become numbers.
        ties: whether two rows of one series may have the same time: `"refuse"` or `"keep"`.
        horizon: the first and the last time of training, from the origins.
    """

    columns: Columns
    clock: Clock
    transforms: tuple[Transform, ...]
    covariates: tuple[Covariate, ...]
    ties: str = "refuse"
    horizon: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def learn(
        cls,
        table: Table,
        columns: Columns,
        *,
        transform: Any = None,
        categories: Any = (),
        ties: str = "refuse",
        min_points: int = 2,
    ) -> tuple["Layout", TableRows, list[str]]:
        """From a training table: the layout, its rows, and what was chosen, in sentences."""
        columns.check(table)
        unknown = set(categories) - set(columns.static)
        checks.require(
            not unknown, f"`categories` names {listed(sorted(unknown, key=str))}, which are not among the static columns."
        )
        checks.choice("ties", ties, TIES)
        covariates = tuple(Covariate.learn(table, name, category=name in categories) for name in columns.static)
        plain = (Transform(),) * len(columns.values)
        long = cls(columns, Clock.of(table, columns.time), plain, covariates, ties).read(table)
        for j, name in enumerate(columns.values):
            sensible_values(long.table_rows(long.values[:, j]), name, long.places)
        _refuse_thin_series(long, columns, min_points)
        _check_transforms(transform, columns)
        transforms, said = [], []
        for j, name in enumerate(columns.values):
            found, why = choose(long.values[:, j], _transform_of(transform, name, columns))
            transforms.append(found)
            said.append(f"`{cut(name)}` {why}: {_spoken(found)}.")
        clock = Clock.of(table, columns.time).settled(long.t, long.starts, long.when)
        if clock.unit:
            said.append(f"Time is counted in {clock.unit}.")
        layout = cls(columns, clock, tuple(transforms), covariates, ties)
        long = layout.read(table)
        sensible_times(long.table_rows(long.t), columns.time, long.places)
        return dataclasses.replace(layout, horizon=(float(long.t.min()), float(long.t.max()))), long, said

    def read(self, table: Table) -> TableRows:
        """The rows of a table that holds observations."""
        columns = self.columns
        columns.check(table)
        names, codes = series_of(table, columns.series)
        places = CellPlaces(table, NamesByRow(names, codes))
        raw = self.clock.read(table, columns.time, places)
        y = np.stack([numbers(table, name, places) for name in columns.values], -1)
        order = np.lexsort((raw.rank, codes))
        starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        if self.ties == "refuse":
            _refuse_ties(codes[order], raw.rank[order], order, columns.time, places)
        first = order[starts[:-1]]
        origins = self._origins(table, raw, first, codes, places)
        static = [each.encode(table, first, codes, places) for each in self.covariates]
        unit = "Use a larger unit: divide the column first."
        for j, name in enumerate(columns.values):
            places.refuse(np.abs(y[:, j]) > LARGEST, name, f"the value is beyond ±{LARGEST:g}. {unit}")
        x = np.stack([self._forward(j, y[:, j], places) for j in range(len(columns.values))], -1)
        t = self.clock.relative(raw, origins[codes])
        far = f"the time lies more than {LARGEST:g} from the first one of its series. {unit}"
        places.refuse(np.logical_not(np.abs(t) <= LARGEST), columns.time, far)
        joined = np.concatenate(static, 1) if static else np.zeros((len(names), 0))
        return TableRows(table, order, names, codes, starts, t[order], raw[order], x[order], y[order], joined, origins)

    def read_times(self, table: Table, long: TableRows) -> tuple[list[np.ndarray], Instants]:
        """The times that a table asks about, for each series of `long`: counted from its origin, and as the table has them.

        Raises:
            ValueError: where it names a series that `long` does not have.
        """
        dataclasses.replace(self.columns, values=(), static=(), origin="first").check(table)
        names, codes = series_of(table, self.columns.series)
        places = CellPlaces(table, NamesByRow(names, codes))
        raw = self.clock.read(table, self.columns.time, places)
        known = {name: i for i, name in enumerate(long.names.to_pylist())}
        spoken = {str(name): i for name, i in known.items()}  # a file may have numbers where a data frame has their text
        found = [known.get(name, spoken.get(str(name), -1)) for name in names.to_pylist()]
        place = np.array(found, np.int64)[codes]
        message = "the series is not in the table of observations. To predict without any, add a row with empty values."
        places.refuse(place < 0, self.columns.series, message)
        order = np.argsort(place, kind="stable")
        relative = self.clock.relative(raw, long.origins[place])[order]
        return np.split(relative, np.searchsorted(place[order], np.arange(1, len(long)))), raw[order]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: Any, channels: int, static_dim: int, name: str = "layout") -> "Layout":
        """The inverse of `to_json`, for a model of so many channels and covariates; messages say `name`.

        Raises:
            ValueError: where a field is missing, unknown, of another type, or does not fit the model or another field.
        """
        layout = read_dataclass(cls, fields, name)
        columns, clock, (first, last) = layout.columns, layout.clock, layout.horizon
        for field, good in {
            "columns.values": len(set(columns.values)) == len(columns.values) == channels,
            "columns.static": columns.static == tuple(each.column for each in layout.covariates),
            "transforms": len(layout.transforms) == channels and all(each.unit > 0 for each in layout.transforms),
            "covariates": sum(each.width for each in layout.covariates) == static_dim,
            "ties": layout.ties in TIES,
            "horizon": first <= last,
            "clock.unit": (clock.unit in UNITS) if clock.kind == "date" else clock.unit is None,
            "clock.zone": clock.zone is None or (clock.kind == "date" and is_zone(clock.zone)),
        }.items():
            checks.require(good, f"`{name}.{field}` does not fit the model or the other fields.")
        return layout

    @classmethod
    def kept_with(cls, model: Model) -> "Layout | None":
        """The layout of the forecaster that saved a model, or `None` where none did."""
        if FORECASTER not in model.info:
            return None
        name, spec = f"info.{FORECASTER}", model.spec
        fields = read_value(dict[str, Any], model.info[FORECASTER], name)
        return cls.from_json(fields.get("layout"), spec.channels or 0, spec.static_dim or 0, f"{name}.layout")

    def _origins(self, table: Table, raw: Instants, first: np.ndarray, codes: np.ndarray, places: CellPlaces) -> Instants:
        origin = self.columns.origin
        if origin == "first":
            return raw[first]
        if origin == "absolute":
            return self.clock.since_zero(len(first))
        found = self.clock.read(table, origin, places)
        message = "the origin changes within the series; expected one for each series."
        places.refuse(found.rank != found.rank[first][codes], origin, message)
        return found[first]

    def _forward(self, j: int, y: np.ndarray, places: CellPlaces) -> np.ndarray:
        transform = self.transforms[j]
        message = f"the model was fitted on {transform.allowed}. Fit it with transform='identity' if others can be."
        places.refuse(transform.is_invalid(y), self.columns.values[j], message)
        return transform.forward(y)


def _refuse_ties(codes: np.ndarray, rank: np.ndarray, order: np.ndarray, column: str, places: CellPlaces) -> None:
    same = np.flatnonzero((np.diff(codes) == 0) & (rank[1:] == rank[:-1]))
    if len(same):
        one, other = sorted((order[same[0]], order[same[0] + 1]))
        raise ValueError(
            f"{places.at(column, other)}: the series has this time already in {places.table.row(one)}"
            + (f" ({len(same)} such rows in all)" if len(same) > 1 else "")
            + ". Drop one or average them; true repeats are kept with ties='keep' (--ties keep)."
        )


def _refuse_thin_series(long: TableRows, columns: Columns, min_points: int) -> None:
    """Series that nothing can be learned from, and tables that hold one series only."""
    counts, firsts = np.array([len(rows) for rows in long.observed]), long.rows[long.starts[:-1]]
    what = "` or `".join(columns.values[:3])
    for i in np.flatnonzero(counts == 0)[:1]:
        raise ValueError(f"{long.places.at(what, firsts[i])}: the series has no value at all. Leave it out.")
    for i in np.flatnonzero(counts < min_points)[:1]:
        raise ValueError(
            f"{long.places.at(what, firsts[i])}: the series has {counts[i]} row(s) with a value; expected "
            f"{min_points} or more ({np.sum(counts < min_points):,} such series). Leave them out, or set "
            f"min_points={counts.min()} (--min-points {counts.min()})."
        )
    if len(long) < 2:
        raise ValueError(
            f"{long.places.at(columns.series, firsts[0])}: this is the only series. Many teach what one may do: expected two or "
            "more, and five are better."
        )


def _check_transforms(transform: Any, columns: Columns) -> None:
    unknown = set(transform) - set(columns.values) if isinstance(transform, dict) else set()
    values = listed(columns.values)
    checks.require(not unknown, f"`transform` names {listed(sorted(unknown, key=str))}, which are not among the values {values}.")


def _transform_of(transform: Any, column: str, columns: Columns) -> Any:
    """The user's word for one column: `None`, a name for all, or names by column."""
    if not isinstance(transform, dict):
        checks.choice("transform", transform, (None, *NAMES))
        return transform
    return transform.get(column)


def _spoken(transform: Transform) -> str:
    if transform.name == "identity":
        return "taken as it is"
    return f"logarithms{' of 1 + it' if transform.name == 'log1p' else ''}, so that intervals stay above zero"
