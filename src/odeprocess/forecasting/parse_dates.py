"""Dates: the forms of ISO 8601 that are read from text, their limits, and Arrow's time stamps as exact times."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from . import arrow as pa
from .exact_times import ExactTimes

# A day (also of a week, 2026-W46-7), and perhaps a time of day with decimals of a second and a zone.
ISO_DATE = re.compile(
    r"(?P<day>[0-9W-]{7,10})(?:[T ](?P<time>[0-9:]{2,8})(?:[.,](?P<part>[0-9]{1,9})0*)?(?P<zone>Z|[+-][0-9:]{2,8})?)?"
)
ADVICE = "Write dates as 2026-11-15 or 2026-11-15T20:05:00, all with a time zone or all without."
HINTS = {  # by patterns of text that is nearly a date
    r":60(\D|$)": " Leap seconds are not supported: write :59, or the minute after.",
    r"[T ]24:?0": " The end of a day is the beginning of the next: write 00:00 and its date.",
    r"[.,]\d{10}": " Seconds may have nine decimals.",
}
YEARS = "dates go from the year 1 to the year 9999."  # those of Python's `datetime`
EPOCH = datetime(1970, 1, 1)
FIRST_SECOND, LAST_SECOND = (int((x - EPOCH).total_seconds()) for x in (datetime.min, datetime.max.replace(microsecond=0)))
TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # by Arrow's unit of a time stamp


def parse_date(text: str) -> tuple[int, int, bool] | None:
    """Returns one date as microseconds since 1970, nanoseconds beyond them, and whether it has a time zone; or `None`."""
    match = ISO_DATE.fullmatch(text)
    if match is None or (match["day"].isdigit() and match["time"] is None):  # such as 20260105: a number
        return None
    digits = (match["time"] or "00").replace(":", "")
    if digits.startswith("24") or (match["part"] and len(digits) != 6):
        return None
    try:
        date = datetime.fromisoformat(f"{match['day']}T{match['time'] or '00'}{match['zone'] or ''}")
        has_zone = date.tzinfo is not None
        date = date.astimezone(UTC).replace(tzinfo=None) if has_zone else date
    except (ValueError, OverflowError):
        return None
    part = int((match["part"] or "").ljust(9, "0"))
    return (date - EPOCH) // timedelta(microseconds=1) + part // 1000, part % 1000, has_zone


def parse_dates(texts: Any) -> Any:
    """Returns stripped text as time stamps, all with a time zone (they become UTC) or all without; `None` where that fails."""
    first = parse_date(texts.drop_null()[0].as_py()) if texts.null_count < len(texts) else None
    if first is None:
        return None
    zone = "UTC" if first[2] else None
    for unit in ("us", "ns"):
        try:
            return texts.cast(pa.timestamp(unit, zone))  # much faster than one by one; Arrow knows fewer forms
        except pa.ArrowInvalid:
            pass
    dates = [parse_date(text) for text in texts.drop_null().to_pylist()]
    known = [date for date in dates if date is not None and date[2] == first[2]]
    if len(known) < len(dates):
        return None
    fine = any(rest for _, rest, _ in known)
    ticks = iter([micros * 1000 + rest if fine else micros for micros, rest, _ in known])
    try:
        counts = pa.array([next(ticks) if valid else None for valid in texts.is_valid().to_pylist()], pa.int64())
        return counts.cast(pa.timestamp("ns" if fine else "us", zone))
    except (pa.ArrowInvalid, OverflowError):  # nanoseconds far from 1970
        return None


def explain_bad_date(text: str) -> str:
    """Returns why text that is nearly a date is none, where that is a common mistake; otherwise an empty string."""
    return next((hint for pattern, hint in HINTS.items() if re.search(pattern, text)), "")


def is_known_zone(name: str) -> bool:
    """Returns whether a time zone is known on this machine."""
    try:
        pa.scalar(0, pa.timestamp("us", tz=name)).as_py()
    except (ValueError, KeyError, OSError):  # `zoneinfo` raises one of these
        return False
    return True


def to_exact_times(dates: Any) -> tuple[ExactTimes, np.ndarray]:
    """Returns Arrow's dates as microseconds since 1970, and which of them lie within the supported years."""
    kind = dates.type
    if pa.types.is_date32(kind):
        dates, kind = dates.cast(pa.int32()).cast(pa.int64()), pa.timestamp("s")
        dates = pa.compute.multiply(dates, 86_400)  # 32 bits of days are far fewer seconds than 64 bits hold
    ticks = TICKS_PER_SECOND[kind.unit]
    counts = dates.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    supported = (counts // ticks >= FIRST_SECOND) & (counts // ticks <= LAST_SECOND)
    counts = np.where(supported, counts, 0)
    if kind.unit != "ns":
        return ExactTimes(counts * (10**6 // ticks)), supported
    fine = (counts % 1000 != 0).any()
    return ExactTimes(counts if fine else counts // 1000, 1000 if fine else 1), supported
