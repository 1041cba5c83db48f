"""Dataclasses from plain data, as JSON has it: every field is checked against its annotation, and errors name the field."""

import dataclasses
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from . import checks

LONGEST_TEXT = 100_000  # characters of a text field; chosen by hand, far above every legitimate one
T = TypeVar("T")


def read_dataclass(kind: type[T], data: Any, name: str, **parts: Any) -> T:
    """A dataclass of the type `kind` from plain data.

    Arguments:
        kind: the dataclass.
        data: its fields by name; those with a default may be left out.
        name: the name of the data in messages.
        parts: fields that have been read already.

    Raises:
        ValueError: where a field is unknown, missing or of another type, or the dataclass raises one itself.
    """
    fields = {field.name: field for field in dataclasses.fields(kind) if field.name not in parts}  # type: ignore[arg-type]
    needed = [x.name for x in fields.values() if x.default is dataclasses.MISSING and x.default_factory is dataclasses.MISSING]
    hints = typing.get_type_hints(kind)
    values = read_fields({field: hints[field] for field in fields}, data, name, needed=needed)
    try:
        return kind(**values, **parts)
    except ValueError as error:
        raise ValueError(f"`{name}`: {error}") from None


def read_fields(hints: Mapping[str, Any], data: Any, name: str, *, needed: Sequence[str] = ()) -> dict[str, Any]:
    """Fields by name, each checked against its annotation in `hints`."""
    checks.require(isinstance(data, dict), f"`{name}` is {_shown(data)}; expected fields by name.")
    unknown, missing = sorted(set(data) - set(hints)), sorted(set(needed) - set(data))
    checks.require(not unknown, f"`{name}` has the unknown field(s) {_shown(unknown)}; expected {', '.join(hints)}.")
    checks.require(not missing, f"`{name}` lacks the field(s) {', '.join(missing)}.")
    return {field: read_value(hints[field], value, f"{name}.{field}") for field, value in data.items()}


def read_value(hint: Any, value: Any, name: str) -> Any:
    """A value, checked against an annotation; lists become tuples where it asks for them."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return read_dataclass(hint, value, name)  # type: ignore[arg-type]
    if hint is Any:
        return value
    if origin is Literal:
        checks.require(
            any(value == x and type(value) is type(x) for x in arguments),
            f"`{name}` is {_shown(value)}; expected one of {', '.join(map(repr, arguments))}.",
        )
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = (x for x in arguments if x is not type(None))
        return read_value(inner, value, name)
    if origin in (tuple, list):
        checks.require(isinstance(value, (list, tuple)), f"`{name}` is {_shown(value)}; expected a list.")
        each = [arguments[0]] * len(value) if origin is list or arguments[-1] is ... else arguments
        checks.require(len(each) == len(value), f"`{name}` has {len(value)} entries; expected {len(each)}.")
        return origin(read_value(x, y, f"{name}[{i}]") for i, (x, y) in enumerate(zip(each, value, strict=True)))
    if origin is dict:
        checks.require(isinstance(value, dict), f"`{name}` is {_shown(value)}; expected fields by name.")
        return {key: read_value(arguments[1], x, f"{name}.{key}") for key, x in value.items()}
    return _read_plain(hint, value, name)


def read_array(data: Any, shape: tuple[int, ...], name: str, *, holes: bool = False) -> np.ndarray:
    """An array of finite numbers of that shape from nested lists; `None` stands for NaN where there may be `holes`."""
    try:
        array = np.asarray(data, object)
        good = array.shape == shape and all(_is_number(x) or (holes and x is None) for x in array.flat)
    except (ValueError, TypeError):
        good, array = False, np.zeros(0)
    size = " × ".join(map(str, shape))
    checks.require(good, f"`{name}` is {_shown(data)}; expected {size} finite numbers, as nested lists.")
    return np.array([np.nan if x is None else float(x) for x in array.flat]).reshape(shape)


def _read_plain(hint: Any, value: Any, name: str) -> Any:
    expected = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}[hint]
    if hint is float:
        good = _is_number(value)
    elif hint is int:
        good = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    else:
        good = isinstance(value, hint) and (hint is not str or (len(value) <= LONGEST_TEXT and _is_unicode(value)))
    checks.require(good, f"`{name}` is {_shown(value)}; expected {expected}.")
    return value


def _is_number(value: Any) -> bool:
    # An integer that float64 cannot hold would raise an OverflowError.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_unicode(text: str) -> bool:
    """Whether the text can be encoded: JSON may hold halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
