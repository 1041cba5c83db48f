"""Times with all their digits: they are subtracted as whole numbers, and only the difference is rounded to float64."""

import dataclasses
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

from . import arrow as pa
from .table_limits import MAX_DIGITS

WHOLE = 2**53  # float64 holds every whole number up to here
SAFE_DIGITS = 15  # of a decimal number, that float64 always keeps
MAX_LENGTH = 400  # characters of a number; the smallest and largest float64 need some 330
EXACT = Context(prec=MAX_LENGTH)  # arithmetic that keeps every digit of such numbers


@dataclasses.dataclass(frozen=True, eq=False)
class ExactTimes:
    """An array of times `counts / per`.

    Attributes:
        counts: float64; or whole numbers where float64 would round: int64, and Python's own where int64 is too short.
        per: the parts of one that are counted, where `counts` are whole numbers.
    """

    counts: np.ndarray
    per: int = 1

    @classmethod
    def from_whole(cls, counts: Any, per: int = 1) -> "ExactTimes":
        """Builds times from whole numbers: an array, or a list of Python's."""
        if isinstance(counts, np.ndarray) and counts.dtype.kind in "iu":
            short = counts.dtype != np.uint64 or int(counts.max(initial=0)) < 2**63
            return cls(counts.astype(np.int64 if short else object), per)
        try:
            return cls(np.array(counts, np.int64), per)
        except OverflowError:
            return cls(np.array(counts, object), per)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, rows: Any) -> "ExactTimes":
        return ExactTimes(self.counts[rows], self.per)

    @property
    def is_whole(self) -> bool:
        """Whether `counts` are whole numbers."""
        return self.counts.dtype.kind != "f"

    @property
    def digits(self) -> int:
        """The digits of the longest of the whole numbers."""
        return len(str(max(abs(int(self.counts.max(initial=0))), abs(int(self.counts.min(initial=0))))))

    @property
    def sort_keys(self) -> np.ndarray:
        """Numbers in the same order, for `np.lexsort`."""
        return np.unique(self.counts, return_inverse=True)[1] if self.counts.dtype == object else self.counts

    def minus(self, other: "ExactTimes") -> np.ndarray:
        """Returns the differences, each rounded once to float64."""
        if not self.is_whole and not other.is_whole:
            return self.counts - other.counts
        if self.counts.dtype == other.counts.dtype == np.int64 and self.per == other.per and len(self):
            (low, high), (other_low, other_high) = ((int(x.min()), int(x.max())) for x in (self.counts, other.counts))
            if high - other_low < 2**63 and low - other_high >= -(2**63):
                return (self.counts - other.counts) / self.per
        return np.array([float(x - y) for x, y in zip(self._fractions(), other._fractions(), strict=True)], np.float64)

    def plus(self, steps: np.ndarray, size: int = 1) -> "ExactTimes":
        """Returns the times after whole numbers of steps, each of `size` parts."""
        largest = max(np.abs(x.astype(np.float64)).max(initial=0) * y for x, y in ((self.counts, 1), (steps, size)))
        if self.counts.dtype == np.int64 and largest < 2**62:
            return ExactTimes(self.counts + steps.astype(np.int64) * size, self.per)
        pairs = zip(self.counts.tolist(), steps.tolist(), strict=True)
        return ExactTimes.from_whole([x + int(step) * size for x, step in pairs], self.per)

    def reduce(self) -> "ExactTimes":
        """Returns the same times with as few decimals as they need."""
        counts, per = self.counts, self.per
        while per > 1 and (counts % 10 == 0).all():
            counts, per = counts // 10, per // 10
        return ExactTimes(counts, per)

    def min(self) -> int | float:
        """Returns the smallest time; where float64 would round it, the whole number at or below it."""
        least = self.counts.min()
        return int(least // self.per) if self.is_whole else float(least)

    def _fractions(self) -> list[Fraction]:
        return [Fraction(x) / self.per for x in self.counts.tolist()]


def parse_exactly(texts: Any, rounded: np.ndarray) -> ExactTimes | None:
    """Returns an Arrow array of text as times that keep every digit; `None` where those are more than `MAX_DIGITS`.

    Arguments:
        texts: numbers, as text.
        rounded: the same as finite float64, which are kept where they say the same.
    """
    pc = pa.compute
    long = np.asarray(pc.greater(pc.utf8_length(texts), SAFE_DIGITS))
    changed = np.asarray(pc.not_equal(pa.array(rounded).cast(texts.type), texts))
    suspects = np.flatnonzero(long & (changed | (np.abs(rounded) >= WHOLE)))
    if not len(suspects):
        return ExactTimes(rounded)
    if np.abs(rounded).max() >= WHOLE:
        try:
            return ExactTimes.from_whole(texts.cast(pa.int64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            pass
    pairs = [(texts[int(i)].as_py(), float(rounded[i])) for i in suspects]
    if all(is_exact(x, text) for text, x in pairs):
        return ExactTimes(rounded)
    decimals = [number.normalize(EXACT) for number in map(_to_decimal, texts.to_pylist()) if number is not None]
    places = max([0, *(-int(number.as_tuple().exponent) for number in decimals)])
    before = max([0, *(number.adjusted() + 1 for number in decimals)])
    if len(decimals) == len(texts) and before + places <= MAX_DIGITS:
        return ExactTimes.from_whole([int(number.scaleb(places, EXACT)) for number in decimals], 10**places)
    return ExactTimes(rounded) if all(_to_decimal(text) == Decimal(repr(x)) for text, x in pairs) else None


def is_exact(rounded: float, text: str) -> bool:
    """Returns whether float64 keeps a number as it is written: beyond 2**53 to the last digit, otherwise as Python prints it."""
    return _to_decimal(text) == (Decimal(rounded) if abs(rounded) >= WHOLE else Decimal(repr(rounded)))


def _to_decimal(text: str) -> Decimal | None:
    """Returns a number with all its digits, or `None` where it is too long."""
    try:
        return Decimal(text) if len(text) <= MAX_LENGTH else None
    except InvalidOperation:
        return None
