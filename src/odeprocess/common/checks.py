"""Input validation: every array that a user passes is checked and converted here, once.

Messages have the value or shape that was passed, what is expected, and what to do. Traced arrays (inside `jax.grad` or `jax.jit`)
have no values, so only their shapes are checked.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax.core import Tracer

MOST_STEPS = 1000  # Levenberg–Marquardt double steps for a draw; three are the default, so more is a mistake; chosen by hand
MOST_DRAWS = 1_000_000  # draws of a posterior: the latents of so many take half a gigabyte


def is_traced(*arrays: Any) -> bool:
    """Whether any of `arrays` is a tracer, so that its values cannot be read on the host."""
    return any(isinstance(x, Tracer) for x in arrays)


def require(condition: bool, message: str) -> None:
    """Raises `ValueError(message)` unless `condition` holds."""
    if not condition:
        raise ValueError(message)


def choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raises unless `value` is one of `allowed`."""
    try:
        good = bool(value in allowed)
    except (TypeError, ValueError):  # arrays compare element by element
        good = False
    require(good, f"`{name}` is {shown(value)}; expected one of {', '.join(map(repr, allowed))}.")


def positive(name: str, value: Any, *, integer: bool = False) -> None:
    """Raises unless `value` is a finite number above zero (a whole one if `integer`)."""
    kind = "a whole number" if integer else "a number"
    with np.errstate(over="ignore"):  # long doubles do not fit
        good = (is_whole(value) if integer else is_number(value)) and 0 < value <= sys.float_info.max
    require(bool(good), f"`{name}` is {shown(value)}; expected {kind} above 0.")


def whole(name: str, value: Any, least: int, most: int) -> None:
    """Raises unless `value` is a whole number from `least` to `most`."""
    good = is_whole(value) and least <= value <= most
    require(bool(good), f"`{name}` is {shown(value)}; expected a whole number from {least:,} to {most:,}.")


def is_whole(value: Any) -> bool:
    """Whether `value` is a whole number of Python or NumPy."""
    # NumPy's spans of time are a subclass of its integers.
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: Any) -> bool:
    """Whether `value` is a real number of Python or NumPy; NaN and infinity count."""
    return is_whole(value) or isinstance(value, (float, np.floating))


def shown(value: Any, longest: int = 80) -> str:
    """The text of a value for a message: one line, at most `longest` characters, NumPy's numbers written as Python's."""
    if isinstance(value, (np.generic, np.ndarray)) and value.size <= longest:
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        inner = ", ".join(shown(x, longest) for x in value[: longest // 2])
        text = f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    elif isinstance(value, int) and abs(value) >= 10**longest:  # Python raises for thousands of digits
        text = f"a whole number of {value.bit_length():,} bits"
    elif type(value).__repr__ is object.__repr__:
        text = f"a {type(value).__name__}"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def as_array(name: str, value: Any) -> Any:
    """`value` as a float64 NumPy array, or unchanged if it is traced; masked entries become NaN."""
    if is_traced(value):
        return value
    try:
        if isinstance(value, np.ma.MaskedArray):
            value = np.ma.filled(value.astype(np.float64), np.nan)
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        with np.errstate(over="ignore"):  # long doubles become infinite, which raises later like any infinity
            return array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` could not be read as numbers: got {_describe(value)}") from None


def as_times(name: str, value: Any) -> Any:
    """The same for times; raises where float64, which has gaps between whole numbers beyond 2**53, would lose digits."""
    array = as_array(name, value)
    if is_traced(array) or np.abs(array).max(initial=0.0) < 2.0**53:
        return array
    whole = np.asarray(value)
    if whole.dtype.kind in "iu":
        lost = next((int(x) for x, y in zip(whole.flat, array.flat, strict=True) if int(x) != int(y)), None)
        require(
            lost is None,
            f"`{name}` holds whole numbers beyond 2**53, such as {lost}, of which float64 loses the last digits. Subtract the "
            "first time, as whole numbers: t - t[0].",
        )
    return array


def _describe(value: Any) -> str:
    try:
        kind = np.asarray(value).dtype.kind
    except (TypeError, ValueError):
        return "rows of different lengths. Expected one array; several series go in as a list with an array for each."
    if kind in "mM":
        return "dates. Turn them into numbers first, for example days: (t - t[0]) / np.timedelta64(1, 'D')."
    if kind == "O":
        return f"a {type(value).__name__} with something else inside. Expected numbers, with NaN for what is missing."
    return f"a {type(value).__name__} of {np.asarray(value).dtype}. Expected numbers."


def instance(name: str, value: Any, kind: type, example: str) -> None:
    """Raises unless `value` is a `kind`."""
    require(isinstance(value, kind), f"`{name}` is {shown(value)}; expected {example}.")


def finite_times(name: str, t: Any, where: str = "") -> None:
    """Raises if a concrete `t` holds NaN or infinity, naming the first offenders."""
    if is_traced(t):
        return
    bad = np.argwhere(~np.isfinite(t))
    if len(bad):
        first = ", ".join(str(tuple(map(int, i)) if len(i) > 1 else int(i[0])) for i in bad[:3])
        raise ValueError(
            f"`{name}`{where} holds {len(bad)} NaN or infinite time(s), first at index {first}. Every time must be finite: "
            "drop those; series of different lengths go in as a list of arrays."
        )


def finite_values(y: Any, where: str = "") -> None:
    """Raises if a concrete `y` holds an infinity (NaN marks a missing value and is fine)."""
    if not is_traced(y) and np.isinf(y).any():
        place = tuple(map(int, np.argwhere(np.isinf(y))[0]))
        raise ValueError(f"`y`{where} is infinite at index {place}. Expected finite values, or NaN for a missing one.")


def same_lengths(t: Any, y: Any, where: str = "") -> None:
    """Raises unless `y` has a value for each time of `t`."""
    require(
        t.shape == y.shape[: t.ndim],
        f"`t`{where} has shape {t.shape} but `y`{where} has shape {y.shape}; "
        "expected a value (or a row of channels) for each time.",
    )


def channel_count(found: int, expected: int | None, where: str = "") -> None:
    """Raises unless a series has the number of channels that the model has."""
    require(
        expected in (None, found),
        f"`y`{where} has {found} channel(s); the model has {expected}. Pass {expected} channel(s) on the last axis, "
        "with NaN where one was not measured.",
    )


def depth_of_user() -> int:
    """The number of frames from the caller up to the user's code, for the `stacklevel` of warnings."""
    frame, depth, here = sys._getframe(1), 1, str(Path(__file__).parents[1])
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame, depth = frame.f_back, depth + 1
    return depth
