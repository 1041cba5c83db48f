"""Static covariates: what is known of a series and does not change; numbers as they are, categories one by one."""

import dataclasses
from typing import Any

import numpy as np

from .. import checks
from .checking import Places, numbers
from .reading import Table


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
        import pyarrow as pa

        cells = table.column(column)
        if not category and (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
            return cls(column)
        found = tuple(sorted({_text(x) for x in cells.unique().to_pylist() if x is not None}))
        checks.require(
            len(found) <= 100,
            f"{table.source}, column `{column}` has {len(found)} categories; expected 100 at most. Is it a name?",
        )
        return cls(column, found)

    def encode(self, table: Table, first: np.ndarray, codes: np.ndarray, places: Places) -> np.ndarray:
        """Its numbers, `[series, width]`.

        Arguments:
            table: the table.
            first: the first row of each series.
            codes: the series of each row.
            places: names places in messages.
        """
        cells = table.column(self.column)
        places.refuse(
            np.asarray(cells.is_null()),
            self.column,
            "the covariate is missing; fill it in, or leave the series or the column out.",
        )
        if self.categories is None:
            values = numbers(table, self.column, places)
            places.refuse(np.isnan(values), self.column, "the covariate is not a number; fill it in, or leave the column out.")
            same = values == values[first][codes]
        else:
            texts = np.array([_text(x) for x in cells.to_pylist()])
            places.refuse(
                ~np.isin(texts, self.categories),
                self.column,
                f"the category is new; the model knows {', '.join(map(repr, self.categories[:8]))}.",
            )
            values, same = texts, texts == texts[first][codes]
        places.refuse(~same, self.column, "the covariate changes within the series; expected one value for each series.")
        if self.categories is None:
            return values[first][:, None]
        return (values[first][:, None] == np.array(self.categories)[None]).astype(np.float64)


def _text(x: Any) -> str:
    return str(int(x)) if isinstance(x, float) and x.is_integer() else str(x)
