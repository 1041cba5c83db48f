"""Text to numbers, dates, or true and false: the cells of CSV files, and text in data frames."""

from typing import Any

from . import arrow as pa
from .parse_dates import parse_dates

# Cells that stand for true, false and a missing value: the words that Arrow and pandas accept by default.
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
MISSING = tuple(",#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,N/A,NA,NULL,NaN,n/a,nan,null".split(","))


def infer_column(texts: Any) -> Any:
    """Returns stripped text as truth values, numbers or dates, where all cells are such; otherwise the text."""
    pc = pa.compute
    if texts.null_count == len(texts):
        return pa.nulls(len(texts))
    if texts.drop_null()[0].as_py() in TRUE + FALSE:
        if not pc.all(pc.is_in(texts, pa.array([*TRUE, *FALSE, None], texts.type))).as_py():
            return texts
        return pc.if_else(texts.is_valid(), pc.is_in(texts, pa.array(TRUE, texts.type)), pa.scalar(None, pa.bool_()))
    for parse in (parse_numbers, parse_dates):
        if (parsed := parse(texts)) is not None:
            return parsed
    return texts


def strip_text(texts: Any) -> Any:
    """Returns text without blanks around it, null where nothing is left."""
    pc = pa.compute
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)


def parse_numbers(texts: Any) -> Any:
    """Returns stripped text as float64, or `None` where a cell is no number in plain digits."""
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None


def parse_number(text: str) -> float | None:
    """Returns one cell as a number, or `None`; what only Python reads as a number (1_000, ٣) is none, as in Arrow."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None
