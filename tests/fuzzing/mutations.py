"""Ways to damage bytes, and ways to change plain data and arrays that a checksum would vouch for.

They are drawn from a seed. A fuzzer guided by coverage, such as atheris, would find little here: most of the code that reads
these files is compiled (SQLite, Arrow, safetensors), and the rest runs after checksums, which `files` therefore corrects.
"""

import copy
import random
from typing import Any

import numpy as np

ODD = (
    *(None, True, False, 0, 1, -1, 2, 7, 10**9, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e-300, 5e-324, 1e308, 1e16),
    *("", "x", "first", "../x", "/etc/passwd", "\x00", "é" * 50, "ndp", "1e999", "<script>", "a\nb", "\u202e", "9" * 400),
    *([], {}, [[]], [None], [1, 2, 3], {"a": 1}, [{}], ["x"] * 200),
)


def damaged(rng: random.Random, content: bytes) -> bytes:
    """The same bytes with one to three faults."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not data:
            break
        at, span = rng.randrange(len(data)), min(len(data), rng.choice((1, 2, 8, 64, 512)))
        kind = rng.randrange(8)
        if kind < 3:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 3:
            data[at] = rng.randrange(256)
        elif kind == 4:
            del data[at : at + span]
        elif kind == 5:
            data[at:at] = rng.randbytes(span)
        elif kind == 6:
            data[at : at + span] = bytes(len(data[at : at + span]))
        else:
            del data[at:]
    return bytes(data)


def changed(rng: random.Random, data: Any) -> Any:
    """Plain data with one to three changes anywhere in it."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _changed_once(rng, data)
    return data


def _changed_once(rng: random.Random, data: Any) -> Any:
    inner = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    if not inner or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(ODD))
    key = rng.choice(inner)
    kind = rng.randrange(10)
    if kind == 0:
        del data[key]
    elif kind == 1 and isinstance(data, dict):
        data[rng.choice(("x", "", "name", key + "_"))] = data[key]
    elif kind == 1:
        data.insert(key, copy.deepcopy(data[key]))
    elif kind == 2 and type(data[key]) in (int, float):
        data[key] = data[key] * rng.choice((-1, 0.5, 2, 10, 1e6)) + rng.choice((0, 1, -1))
    else:
        data[key] = _changed_once(rng, data[key])
    return data


def changed_arrays(rng: random.Random, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays of which one has another name, type, shape or number, or is gone."""
    arrays = {name: array.copy() for name, array in arrays.items()}
    name = rng.choice(sorted(arrays))
    array, kind = arrays[name], rng.randrange(6)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[rng.choice(("", "x", name + ".0", "a" * 300))] = arrays.pop(name)
    elif kind == 2:
        arrays[name] = array.astype(rng.choice(("bool", "int32", "int64", "uint32", "float32", "float64")))
    elif kind == 3:
        arrays[name] = rng.choice((array[None], array.ravel(), array[:-1] if array.ndim and len(array) else array[None, None]))
    elif array.size and array.dtype.kind == "f":
        array.flat[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, -np.inf, 1e300, -1.0, 0.0, 5e-324))
    elif array.size:
        array.flat[rng.randrange(array.size)] = rng.choice((0, 1)) if array.dtype == bool else rng.choice((0, 1, 2**31 - 1))
    return arrays
