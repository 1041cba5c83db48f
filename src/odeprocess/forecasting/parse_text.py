"""Text as numbers, dates, or true and false: what the cells of a CSV file are, and text in a data frame."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from .exact_times import DIGITS, WHOLE

TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
# What a CSV file may hold where nothing was measured; the list that Arrow and pandas know.
NOTHING = tuple(",#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,N/A,NA,NULL,NaN,n/a,nan,null".split(","))
EPOCH = datetime(1970, 1, 1)
FIRST, LAST = (int((day - EPOCH).total_seconds()) for day in (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
MOMENT = re.compile(
    r"(?P<day>[0-9W-]{7,10})(?:[T ](?P<time>[0-9:]{2,8})(?:[.,](?P<part>[0-9]{1,9})0*)?(?P<zone>Z|[+-][0-9:]{2,8})?)?"
)


def _compute() -> Any:
    """Arrow's functions, which it makes when it is imported."""
    import pyarrow.compute

    return pyarrow.compute


def sniffed(texts: Any) -> Any:
    """The text of a CSV file as what all of it can be read as: true or false, numbers, dates; or as the text that it is.

    Arguments:
        texts: trimmed, null where there is nothing.
    """
    import pyarrow as pa

    if texts.null_count == len(texts):
        return pa.nulls(len(texts))
    first = texts[_compute().index(texts.is_valid(), True).as_py()].as_py()
    if first in TRUE + FALSE:
        if not _compute().all(_compute().is_in(texts, pa.array([*TRUE, *FALSE, None], texts.type))).as_py():
            return texts
        true = _compute().is_in(texts, pa.array(TRUE, texts.type))
        return _compute().if_else(texts.is_valid(), true, pa.scalar(None, pa.bool_()))
    found = as_numbers(texts)
    if found is None:
        found = as_dates(texts)
    return texts if found is None else found


def trimmed(texts: Any) -> Any:
    """Text without blanks around it, null where nothing is left."""
    import pyarrow as pa

    texts = _compute().utf8_trim_whitespace(texts)
    return _compute().if_else(_compute().equal(texts, ""), pa.scalar(None, texts.type), texts)


def as_numbers(texts: Any) -> Any:
    """Trimmed text as float64, or `None` where some of it is no number in plain digits."""
    import pyarrow as pa

    try:
        return _compute().cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None


def doubtful(texts: Any, rounded: np.ndarray) -> np.ndarray:
    """The places of numbers that may have more digits than float64 holds: a quick look at all."""
    import pyarrow as pa

    long = np.asarray(_compute().greater(_compute().utf8_length(texts), DIGITS))
    other = np.asarray(_compute().not_equal(pa.array(rounded).cast(texts.type), texts))
    return np.flatnonzero(long & (other | (np.abs(rounded) >= WHOLE)))


def whole_numbers(texts: Any) -> np.ndarray | None:
    """Text that stands for numbers as int64, or `None` where some are not whole, or too long."""
    import pyarrow as pa

    try:
        return texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None


def as_number(text: str) -> float | None:
    """One cell; where Arrow and Python differ (1_000, ٣, 0x10) it is no number."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def as_dates(texts: Any) -> Any:
    """Trimmed text as time stamps, all with a time zone (they become UTC) or all without; `None` where some is no date."""
    import pyarrow as pa

    first = texts[_compute().index(texts.is_valid(), True).as_py()].as_py() if texts.null_count < len(texts) else ""
    found = moment(first)
    if found is None:
        return None
    zone = "UTC" if found[2] else None
    for unit in ("us", "ns"):
        try:
            return _compute().cast(texts, pa.timestamp(unit, zone))
        except pa.ArrowInvalid:
            pass
    listed = texts.to_pylist()
    each = [None if text is None else moment(text) for text in listed]
    if any(text is not None and (x is None or x[2] != found[2]) for x, text in zip(each, listed, strict=True)):
        return None
    finer = any(x is not None and x[1] for x in each)
    ticks = [None if x is None else x[0] * 1000 + x[1] if finer else x[0] for x in each]
    try:
        return pa.array(ticks, pa.int64()).cast(pa.timestamp("ns" if finer else "us", zone))
    except (pa.ArrowInvalid, OverflowError):  # parts of microseconds far from 1970
        return None


def moment(text: str) -> tuple[int, int, bool] | None:
    """A date in a form of ISO 8601: microseconds since 1970, nanoseconds beyond them, and whether it has a time zone."""
    found = MOMENT.fullmatch(text)
    if found is None or (found["day"].isdigit() and found["time"] is None):  # such as 20260105: a number
        return None
    clock = (found["time"] or "00").replace(":", "")
    if clock.startswith("24") or (found["part"] and len(clock) != 6):
        return None
    try:
        at = datetime.fromisoformat(f"{found['day']}T{found['time'] or '00'}{found['zone'] or ''}")
        zoned = at.tzinfo is not None
        at = at.astimezone(UTC).replace(tzinfo=None) if zoned else at
    except (ValueError, OverflowError):
        return None
    part = int((found["part"] or "").ljust(9, "0"))
    return (at - EPOCH) // timedelta(microseconds=1) + part // 1000, part % 1000, zoned
