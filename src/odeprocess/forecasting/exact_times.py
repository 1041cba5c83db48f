"""Times exactly as a table has them: they are subtracted as whole numbers, before anything is rounded to float64."""

import dataclasses
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

WHOLE = 2**53  # up to here float64 holds every whole number
DIGITS = 15  # of a decimal number, that float64 always holds
LONGEST = 400  # characters of a number; float64 needs no more
MOST_DIGITS = 38  # that are kept where float64 holds fewer: as many as a decimal column of Parquet


@dataclasses.dataclass(frozen=True, eq=False)
class Instants:
    """Numbers `counts / per`, as an array.

    Attributes:
        counts: float64; or whole numbers that float64 would round: int64, and Python's own where int64 is too short.
        per: parts of one, where `counts` are whole.
    """

    counts: np.ndarray
    per: int = 1

    @classmethod
    def whole(cls, counts: Any, per: int = 1) -> "Instants":
        """From whole numbers: an array of them, or a list of Python's."""
        if isinstance(counts, np.ndarray) and counts.dtype.kind in "iu":
            short = counts.dtype != np.uint64 or int(counts.max(initial=0)) < 2**63
            return cls(counts.astype(np.int64 if short else object), per)
        try:
            return cls(np.array(counts, np.int64), per)
        except OverflowError:
            return cls(np.array(counts, object), per)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows: Any) -> "Instants":
        return Instants(self.counts[rows], self.per)

    @property
    def exact(self) -> bool:
        """Whether these are whole numbers of parts."""
        return self.counts.dtype.kind != "f"

    @property
    def digits(self) -> int:
        """How many digits the longest of the whole numbers has."""
        return len(str(max(abs(int(self.counts.max(initial=0))), abs(int(self.counts.min(initial=0))))))

    @property
    def rank(self) -> np.ndarray:
        """Numbers that are sorted alike, for `np.lexsort`."""
        return np.unique(self.counts, return_inverse=True)[1] if self.counts.dtype == object else self.counts

    def minus(self, other: "Instants") -> np.ndarray:
        """Differences, float64: the nearest there is to each."""
        if not self.exact and not other.exact:
            return self.counts - other.counts
        if self.counts.dtype == other.counts.dtype == np.int64 and self.per == other.per and _near(self.counts, other.counts):
            return (self.counts - other.counts) / self.per
        pairs = zip(self.parts(), other.parts(), strict=True)
        return np.array([float(x - y) for x, y in pairs], np.float64)

    def plus(self, steps: np.ndarray, size: int = 1) -> "Instants":
        """So many steps of `size` parts later each; `steps` are whole numbers, in float64 or Python's."""
        largest = max(np.abs(x.astype(np.float64)).max(initial=0) * y for x, y in ((self.counts, 1), (steps, size)))
        if self.counts.dtype == np.int64 and largest < 2**62:
            return Instants(self.counts + steps.astype(np.int64) * size, self.per)
        pairs = zip(self.counts.tolist(), steps.tolist(), strict=True)
        return Instants.whole([x + int(step) * size for x, step in pairs], self.per)

    def reduced(self) -> "Instants":
        """The same numbers, with no more decimals than they need."""
        counts, per = self.counts, self.per
        while per > 1 and (counts % 10 == 0).all():
            counts, per = counts // 10, per // 10
        return Instants(counts, per)

    def parts(self) -> list[Fraction]:
        """The numbers one by one, exactly."""
        return [Fraction(x) / self.per for x in self.counts.tolist()]

    def least(self) -> int | float:
        """The least of them, or the whole number below it where float64 would round it."""
        found = self.counts.min()
        return int(found // self.per) if self.exact else float(found)


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether all differences fit into 64 bits."""
    if not len(a):
        return True
    (a_low, a_high), (b_low, b_high) = ((int(x.min()), int(x.max())) for x in (a, b))
    return a_high - b_low < 2**63 and a_low - b_high >= -(2**63)


def from_text(texts: Any, rounded: np.ndarray, doubtful: Sequence[int] | np.ndarray) -> Instants | None:
    """Numbers as they are written, where float64 would lose some of their digits.

    Arguments:
        texts: of the numbers, an Arrow array.
        rounded: the same as float64, finite.
        doubtful: the places of those that may have too many digits.

    Returns:
        `rounded`, where that says the same; whole numbers of parts, otherwise; or `None` if those had too many digits.
    """
    some = [(texts[int(i)].as_py(), float(rounded[i])) for i in doubtful]
    if all(says(x, text) for text, x in some):
        return Instants(rounded)
    plain = all(_decimal(text) == Decimal(repr(x)) for text, x in some)
    decimals = [_decimal(text) for text in texts.to_pylist()]
    numbers = [_stripped(number) for number in decimals if number is not None]
    places = max(0, max(-exponent for _, exponent in numbers))
    before = max(0, max(len(str(abs(digits))) + exponent for digits, exponent in numbers))
    if len(numbers) < len(decimals) or before + places > MOST_DIGITS:
        return Instants(rounded) if plain else None
    return Instants.whole([digits * 10 ** (places + exponent) for digits, exponent in numbers], 10**places)


def says(rounded: float, text: str) -> bool:
    """Whether a float64 stands for what is written: long numbers to the last digit, others as Python would write them."""
    return _decimal(text) == (Decimal(rounded) if abs(rounded) >= WHOLE else Decimal(repr(rounded)))


def _decimal(text: str) -> Decimal | None:
    """A number with all its digits, or `None` where they are too many for anything."""
    try:
        return Decimal(text) if len(text) <= LONGEST else None
    except InvalidOperation:
        return None


def _stripped(number: Decimal) -> tuple[int, int]:
    """Digits and exponent, without zeros at the end of a fraction."""
    sign, digits, exponent = number.as_tuple()
    whole, exponent = int("".join(map(str, digits)) or "0"), int(exponent)
    while exponent < 0 and whole % 10 == 0:
        whole, exponent = (0, 0) if whole == 0 else (whole // 10, exponent + 1)
    return (-whole if sign else whole), exponent
