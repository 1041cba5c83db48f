"""Static covariates: columns of numbers, or of categories as zeros and ones, that do not change within a series."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.common import checks

from . import arrow as pa
from .check_table import CellPlaces
from .column_types import describe_type, is_date, is_number, is_text
from .exact_times import WHOLE
from .message_text import join_names, name_column, quote
from .number_columns import read_numbers
from .read_table import Table
from .table_limits import MAX_CATEGORIES, MAX_NAME_LENGTH


@dataclasses.dataclass(frozen=True)
class Covariate:
    """A static column.

    Attributes:
        column: its name.
        categories: those of the training table, sorted; `None` where the column holds numbers.
    """

    column: str
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """The numbers that encode it."""
        return 1 if self.categories is None else len(self.categories)

    @classmethod
    def learn(cls, table: Table, column: str, *, category: bool = False) -> "Covariate":
        """Returns the covariate of a training table: categories where it is text, or where `category` says so."""
        if not category and is_number(table.column(column).type):
            return cls(column)
        where = f"{table.source}, {name_column(column)}"
        found = tuple(sorted({x for x in _read_categories(table, column) if x is not None}))
        many = f"{where} has {len(found):,} categories; expected {MAX_CATEGORIES} at most. Is it a name?"
        checks.require(len(found) <= MAX_CATEGORIES, many)
        long = next((text for text in found if len(text) > MAX_NAME_LENGTH), "")
        checks.require(
            not long,
            f"{where}: the category {quote(long, 30)} has {len(long):,} characters; expected {MAX_NAME_LENGTH:,} at most. Is a "
            "quote missing?",
        )
        return cls(column, found)

    def encode(self, table: Table, first: np.ndarray, codes: np.ndarray, places: CellPlaces) -> np.ndarray:
        """Returns its numbers, `[series, width]`.

        Arguments:
            table: the table.
            first: the first row of each series.
            codes: the series of each row.
            places: names cells in messages.
        """
        if self.categories is None:
            cells = values = read_numbers(table, self.column, places)
            missing = np.isnan(values)
        else:
            cells = _read_categories(table, self.column)
            values, missing = np.array(cells, str), np.array([text is None for text in cells])
        fill = "the covariate is missing; fill it in, or leave the series or the column out."
        places.refuse(missing, self.column, fill)
        if self.categories is not None:
            new = f"the category is new; the model was trained with {join_names(self.categories)}."
            known = set(self.categories)
            places.refuse(np.array([text not in known for text in cells]), self.column, new)
        changes = values != values[first][codes]
        places.refuse(changes, self.column, "the covariate changes within the series; expected one value for each series.")
        if self.categories is None:
            return values[first][:, None]
        return (values[first][:, None] == np.array(self.categories)[None]).astype(np.float64)


def _read_categories(table: Table, column: str) -> list[str | None]:
    """Returns the category of each row, stripped; a whole number is the same with a decimal point and without."""
    cells, text = table.column(column), table.text(column)
    kind, where = cells.type, f"{table.source}, {name_column(column)}"
    # Whole numbers of which float64 loses digits are names.
    if text is not None and (is_text(kind) or (pa.types.is_floating(kind) and _largest(cells) >= WHOLE)):
        return text.to_pylist()
    supported = is_number(kind) or is_date(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    checks.require(supported, f"{where} holds {describe_type(kind)}; expected categories, as text or numbers.")
    try:
        return [str(int(x)) if isinstance(x, float) and x.is_integer() else x if x is None else str(x) for x in cells.to_pylist()]
    except (ValueError, OverflowError, KeyError):  # dates beyond those of Python, or in an unknown time zone
        raise ValueError(f"{where} holds dates that cannot be written; expected text.") from None


def _largest(cells: Any) -> float:
    return float(np.abs(cells.fill_null(0.0).to_numpy(zero_copy_only=False)).max(initial=0.0))
