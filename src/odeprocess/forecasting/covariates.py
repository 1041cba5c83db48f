"""Static covariates: what is known of a series and does not change; numbers as they are, categories one by one."""

import dataclasses
from typing import Any

import numpy as np

from odeprocess.common import checks

from .check_table import CellPlaces, numbers
from .column_types import is_date, is_number, is_text, kind_name
from .csv_files import LONGEST_NAME
from .exact_times import WHOLE
from .message_text import column_name, listed, quoted
from .read_table import Table

MOST_CATEGORIES = 100


@dataclasses.dataclass(frozen=True)
class Covariate:
    """One column.

    Attributes:
        column: its name.
        categories: the categories of the training table, in order; `None` where it holds numbers.
    """

    column: str
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """How many numbers stand for it."""
        return 1 if self.categories is None else len(self.categories)

    @classmethod
    def learn(cls, table: Table, column: str, *, category: bool = False) -> "Covariate":
        """What a training table says of it: text, and whatever the user calls a category, is one."""
        if not category and is_number(table.column(column).type):
            return cls(column)
        found = tuple(sorted({text for text in _texts(table, column) if text is not None}))
        checks.require(
            len(found) <= MOST_CATEGORIES,
            f"{table.source}, {column_name(column)} has {len(found):,} categories; expected {MOST_CATEGORIES} at most. Is it a "
            "name?",
        )
        long = next((text for text in found if len(text) > LONGEST_NAME), None)
        if long is not None:
            raise ValueError(
                f"{table.source}, {column_name(column)}: the category {quoted(long, 30)} has {len(long):,} characters; expected "
                f"{LONGEST_NAME:,} at most. Is a quote missing?"
            )
        return cls(column, found)

    def encode(self, table: Table, first: np.ndarray, codes: np.ndarray, places: CellPlaces) -> np.ndarray:
        """Its numbers, `[series, width]`.

        Arguments:
            table: the table.
            first: the first row of each series.
            codes: the series of each row.
            places: names places in messages.
        """
        missing = "the covariate is missing; fill it in, or leave the series or the column out."
        if self.categories is None:
            values = numbers(table, self.column, places)
            places.refuse(np.isnan(values), self.column, missing)
            same = values == values[first][codes]
        else:
            found, known = _texts(table, self.column), set(self.categories)
            places.refuse(np.array([text is None for text in found]), self.column, missing)
            new = f"the category is new; the model knows {listed(self.categories)}."
            places.refuse(np.array([text not in known for text in found]), self.column, new)
            texts = np.array(found, str)
            values, same = texts, texts == texts[first][codes]
        places.refuse(~same, self.column, "the covariate changes within the series; expected one value for each series.")
        if self.categories is None:
            return values[first][:, None]
        return (values[first][:, None] == np.array(self.categories)[None]).astype(np.float64)


def _texts(table: Table, column: str) -> list[str | None]:
    """The categories by row, without blanks around them: a whole number is the same with a decimal point and without."""
    import pyarrow as pa

    found, written = table.column(column), table.text(column)
    kind = found.type
    if written is not None and (is_text(kind) or (pa.types.is_floating(kind) and _are_long(found))):
        return written.to_pylist()
    if not (is_number(kind) or is_date(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise ValueError(
            f"{table.source}, {column_name(column)} holds {kind_name(kind)}; expected categories, as text or numbers."
        )
    try:
        return [None if x is None else _text(x) for x in found.to_pylist()]
    except (ValueError, OverflowError, KeyError):  # dates beyond those of Python, or in a time zone that nobody knows
        raise ValueError(f"{table.source}, {column_name(column)} holds dates that cannot be written; expected text.") from None


def _are_long(numbers: Any) -> bool:
    """Whether there are whole numbers of which float64 loses digits: as categories they are names."""
    return float(np.abs(numbers.fill_null(0.0).to_numpy(zero_copy_only=False)).max(initial=0.0)) >= WHOLE


def _text(x: Any) -> str:
    return str(int(x)) if isinstance(x, float) and x.is_integer() else str(x)
