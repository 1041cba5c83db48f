"""What came of an attempt: right, refused in one line, or a failure."""

import re
import time
from collections.abc import Callable

RIGHT, REFUSED, FAILURE = "right", "refused", "failure"
LIMIT = 5.0  # seconds that an attempt may take
LONGEST = 1000  # characters of a message
INTERNAL = re.compile(
    r"Traceback|np\.(?:float|int|uint|bool|str)\w*\(|Array\(|jaxlib|XlaRuntimeError|object at 0x"
    r"|KeyError|TypeError|AttributeError|pyarrow\.lib"
)

slowest = 0.0  # seconds that the slowest attempt of this process took
figures: dict[str, object] = {}  # what a part measured beside its outcomes


def outcome(attempt: Callable[[], bool], refusals: tuple[type[BaseException], ...] = (ValueError, OSError)) -> str:
    """What came of an attempt that gives whether all is right, and raises one of `refusals` where it refuses."""
    global slowest
    began = time.perf_counter()
    try:
        found = RIGHT if attempt() else f"{FAILURE}: changed silently"
    except refusals as error:
        found = refusal(str(error))
    except Exception as error:  # whatever else comes out is the failure that is looked for
        found = f"{FAILURE}: {type(error).__name__}: {str(error)[:160]!r}"
    took = time.perf_counter() - began
    slowest = max(slowest, took)
    return found if took < LIMIT else f"{FAILURE}: took {took:.0f} s, {found}"


def note(name: str, value: float) -> None:
    """Keeps the greatest of each measured number for the record."""
    known = figures.get(name)
    figures[name] = max(known, value) if isinstance(known, (int, float)) else value


def refusal(message: str) -> str:
    """Whether a message is one line in plain words."""
    plain = message.strip() and "\n" not in message.strip() and len(message) < LONGEST and not INTERNAL.search(message)
    return REFUSED if plain else f"{FAILURE}: says {message[:160]!r}"
