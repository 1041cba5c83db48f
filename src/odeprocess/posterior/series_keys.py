"""Random keys of series by name: the same series gets the same draws in tables, streams, servers and pages."""

import zlib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.common.compilation import compiled


def series_key(name: Any, seed: int | Any = 0) -> Any:
    """The key of a series: `model.condition(t, y, key=series_key("room 1"))` has the draws of a stream's or table's room 1.

    Arguments:
        name: of the series; a string or a whole number.
        seed: a whole number, or a key to derive the series' key from.
    """
    key = jr.key(seed) if isinstance(seed, (int, np.integer)) else seed
    return jr.fold_in(key, hash_name(name))


def series_keys(names: Iterable[Any], seed: int | Any = 0) -> Any:
    """Those keys as `Posterior.keys` holds them, `[series]`: `Model.condition` folds the number of a series into its key."""
    key = jr.key(seed) if isinstance(seed, (int, np.integer)) else seed
    return _fold(key, jnp.asarray(np.array([hash_name(name) for name in names], np.uint32)))


def hash_name(name: Any) -> int:
    """A number for a name, the same in every run and on every machine."""
    return zlib.crc32(str(name).encode())


@compiled
def _fold(key: Any, hashes: Any) -> Any:
    return jax.vmap(lambda each: jr.fold_in(jr.fold_in(key, each), 0))(hashes)
