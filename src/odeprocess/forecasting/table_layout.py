"""How tables are read for one model: the roles of columns, clock, transforms and covariates, kept with the model."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_dataclass, read_value
from odeprocess.posterior.model import Model

from .check_table import (
    CellPlaces,
    check_duplicate_times,
    check_magnitude,
    check_series_lengths,
    check_times,
    check_values,
)
from .clock import UNITS, Clock
from .column_roles import Columns
from .covariates import Covariate
from .exact_times import ExactTimes
from .message_text import join_names, shorten
from .number_columns import read_numbers
from .parse_dates import is_known_zone
from .read_table import Table
from .rows import TableRows
from .series_names import read_series_names
from .transforms import NAMES, Transform, choose_transform

FORECASTER = "forecaster"  # the key of `Model.info` under which a forecaster keeps its layout
TIES = ("refuse", "keep")


@dataclasses.dataclass(frozen=True)
class Layout:
    """How tables are read.

    Attributes:
        columns: the role of each column.
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
        """Returns the layout of a training table, its rows, and what was chosen, in sentences.

        Arguments:
            table: the table.
            columns: the role of each column.
            transform: a name for all value columns, or names by column; chosen from the values where there is none.
            categories: static columns that are categories although they are numbers.
            ties: whether two rows of one series may have the same time: `"refuse"` or `"keep"`.
            min_points: rows with a value that each series must have.
        """
        columns.check(table)
        unknown = sorted(set(categories) - set(columns.static), key=str)
        checks.require(not unknown, f"`categories` names {join_names(unknown)}, which are not among the static columns.")
        checks.choice("ties", ties, TIES)
        by_column = transform if isinstance(transform, dict) else dict.fromkeys(columns.values, transform)
        unknown = sorted(set(by_column) - set(columns.values), key=str)
        names = f"{join_names(unknown)}, which are not among the values {join_names(columns.values)}"
        checks.require(not unknown, f"`transform` names {names}.")
        for name in by_column.values():
            checks.choice("transform", name, (None, *NAMES))
        covariates = tuple(Covariate.learn(table, name, category=name in categories) for name in columns.static)
        clock = Clock.of(table, columns.time)
        rows = cls(columns, clock, (Transform(),) * len(columns.values), covariates, ties).read(table)
        for j, name in enumerate(columns.values):
            check_values(rows.in_table_order(rows.values[:, j]), name, rows.places)
        counts, first = np.array([len(observed) for observed in rows.observed]), rows.rows[rows.starts[:-1]]
        check_series_lengths(counts, first, columns.series, columns.values, min_points, rows.places)
        transforms, notes = [], []
        for j, name in enumerate(columns.values):
            chosen, reason = choose_transform(rows.values[:, j], by_column.get(name))
            transforms.append(chosen)
            notes.append(f"`{shorten(name)}` {reason}: {_describe(chosen)}.")
        clock = clock.choose_unit(rows.t, rows.starts, rows.when)
        if clock.unit:
            notes.append(f"Time is counted in {clock.unit}.")
        layout = cls(columns, clock, tuple(transforms), covariates, ties)
        rows = layout.read(table)
        check_times(rows.in_table_order(rows.t), columns.time, rows.places)
        return dataclasses.replace(layout, horizon=(float(rows.t.min()), float(rows.t.max()))), rows, notes

    def read(self, table: Table) -> TableRows:
        """Returns the rows of a table of observations."""
        columns = self.columns
        names, codes, places, when = self._read_index(table, columns)
        values = np.stack([read_numbers(table, name, places) for name in columns.values], -1)
        order = np.lexsort((when.sort_keys, codes))
        starts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        if self.ties == "refuse":
            check_duplicate_times(codes, when.sort_keys, order, columns.time, places)
        first = order[starts[:-1]]
        origins = self._find_origins(table, when, first, codes, places)
        static = [np.zeros((len(names), 0)), *(each.encode(table, first, codes, places) for each in self.covariates)]
        y = np.empty_like(values)
        for j, (name, transform) in enumerate(zip(columns.values, self.transforms, strict=True)):
            check_magnitude(values[:, j], name, places, "value is beyond")
            outside = f"the model was fitted on values {transform.domain}. Fit it with transform='identity' if others can be."
            places.refuse(transform.is_outside(values[:, j]), name, outside)
            y[:, j] = transform.forward(values[:, j])
        t = self.clock.relative(when, origins[codes])
        check_magnitude(t, columns.time, places, "time is further from the first one of its series than")
        joined = np.concatenate(static, 1)
        return TableRows(table, order, names, codes, starts, t[order], when[order], y[order], values[order], joined, origins)

    def read_times(self, table: Table, rows: TableRows) -> tuple[list[np.ndarray], ExactTimes]:
        """Returns the times that a table asks about: for each series of `rows`, from its origin; and as the table has them.

        Raises:
            ValueError: where it names a series that `rows` does not have.
        """
        index = dataclasses.replace(self.columns, values=(), static=(), origin="first")
        names, codes, places, when = self._read_index(table, index)
        known = {name: i for i, name in enumerate(rows.names.to_pylist())}
        as_text = {str(name): i for name, i in known.items()}  # a file may have numbers where a data frame has their text
        found = [known.get(name, as_text.get(str(name), -1)) for name in names.to_pylist()]
        place = np.array(found, np.int64)[codes]
        message = "the series is not in the table of observations. To predict without any, add a row with empty values."
        places.refuse(place < 0, self.columns.series, message)
        order = np.argsort(place, kind="stable")
        relative = self.clock.relative(when, rows.origins[place])[order]
        return np.split(relative, np.searchsorted(place[order], np.arange(1, len(rows)))), when[order]

    def _read_index(self, table: Table, columns: Columns) -> tuple[Any, np.ndarray, CellPlaces, ExactTimes]:
        """Returns the names of the series, the series of each row, the names of cells, and the time of each row."""
        columns.check(table)
        names, codes = read_series_names(table, columns.series)
        places = CellPlaces(table, names, codes)
        return names, codes, places, self.clock.read(table, columns.time, places)

    def _find_origins(
        self, table: Table, when: ExactTimes, first: np.ndarray, codes: np.ndarray, places: CellPlaces
    ) -> ExactTimes:
        """Returns where the time of each series begins."""
        origin = self.columns.origin
        if origin == "first":
            return when[first]
        if origin == "absolute":
            return self.clock.zeros(len(first))
        found = self.clock.read(table, origin, places)
        changes = found.sort_keys != found.sort_keys[first][codes]
        places.refuse(changes, origin, "the origin changes within the series; expected one for each series.")
        return found[first]

    def to_json(self) -> dict[str, Any]:
        """Returns plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: Any, channels: int, static_dim: int, name: str = "layout") -> "Layout":
        """Reads what `to_json` returns, for a model with `channels` and `static_dim`; errors begin with `name`.

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
            "clock.zone": clock.zone is None or (clock.kind == "date" and is_known_zone(clock.zone)),
        }.items():
            checks.require(good, f"`{name}.{field}` does not fit the model or the other fields.")
        return layout

    @classmethod
    def of_model(cls, model: Model) -> "Layout | None":
        """Returns the layout of the forecaster that saved a model, or `None` where none did."""
        if FORECASTER not in model.info:
            return None
        name, spec = f"info.{FORECASTER}", model.spec
        fields = read_value(dict[str, Any], model.info[FORECASTER], name)
        return cls.from_json(fields.get("layout"), spec.channels or 0, spec.static_dim or 0, f"{name}.layout")


def _describe(transform: Transform) -> str:
    if transform.name == "identity":
        return "taken as it is"
    return f"logarithms{' of 1 + it' if transform.name == 'log1p' else ''}, so that intervals stay above zero"
