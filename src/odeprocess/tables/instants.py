"""Times exactly as a table has them: they are subtracted as whole numbers, before anything is rounded to float64."""

import dataclasses
import math
from collections.abc import Sequence
from decimal import Decimal
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

    def plus(self, steps: np.ndarray) -> "Instants":
        """So many parts later each; `steps` are whole numbers in float64."""
        if (
            self.counts.dtype == np.int64
            and max(np.abs(x).max(initial=0) for x in (self.counts.astype(np.float64), steps)) < 2**62
        ):
            return Instants(self.counts + steps.astype(np.int64), self.per)
        return Instants.whole([x + int(step) for x, step in zip(self.counts.tolist(), steps.tolist(), strict=True)], self.per)

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


def joined(parts: Sequence[Instants]) -> Instants:
    """One array of all, of which some may be exact and others not."""
    if len({(part.per, part.counts.dtype) for part in parts}) <= 1:
        counts = np.concatenate([part.counts for part in parts]) if parts else np.zeros(0)
        return Instants(counts, parts[0].per if parts else 1)
    numbers = [x for part in parts for x in part.parts()]
    per = math.lcm(*(x.denominator for x in numbers))
    return Instants.whole([int(x * per) for x in numbers], per)


def from_text(texts: Sequence[str], rounded: np.ndarray) -> Instants | None:
    """Numbers as they are written, where float64 would lose some of their digits.

    Arguments:
        texts: of the numbers.
        rounded: the same as float64, finite.

    Returns:
        `rounded`, where that says the same; whole numbers of parts, otherwise; or `None` if those had too many digits.
    """
    long = [i for i, text in enumerate(texts) if len(text) > DIGITS]
    if any(len(texts[i]) > LONGEST for i in long):
        return None
    if all(_says(float(rounded[i]), texts[i]) for i in long):
        return Instants(rounded)
    as_python = all(Decimal(texts[i]) == Decimal(repr(float(rounded[i]))) for i in long)
    numbers = [_stripped(Decimal(text)) for text in texts]
    places = max(0, max(-exponent for _, exponent in numbers))
    before = max(len(str(abs(digits))) + exponent for digits, exponent in numbers)
    if max(before, 0) + places > MOST_DIGITS:
        return Instants(rounded) if as_python else None
    return Instants.whole([digits * 10 ** (places + exponent) for digits, exponent in numbers], 10**places)


def _says(rounded: float, text: str) -> bool:
    """Whether a float64 stands for what is written: long numbers to the last digit, others as Python would write them."""
    return Decimal(text) == (Decimal(rounded) if abs(rounded) >= WHOLE else Decimal(repr(rounded)))


def _stripped(number: Decimal) -> tuple[int, int]:
    """Digits and exponent, without zeros at the end of a fraction."""
    sign, digits, exponent = number.as_tuple()
    whole, exponent = int("".join(map(str, digits)) or "0"), int(exponent)
    while exponent < 0 and whole % 10 == 0:
        whole, exponent = (0, 0) if whole == 0 else (whole // 10, exponent + 1)
    return (-whole if sign else whole), exponent
