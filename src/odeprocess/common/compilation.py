"""Compiled functions, and a limit on the number of compiled programs in memory.

XLA keeps a compiled program in dozens to thousands of memory maps. Linux allows a process 65,530, and a process that asks for
more ends with "LLVM compilation error: Cannot allocate memory". JAX keeps every program for as long as the function exists, so a
notebook that trains on several tables of different sizes would reach that limit after a handful of trainings (measured: 8,200
maps for one fit of a table, 2,300 for its predictions). So all compiled functions of the library are registered here, and their
programs are dropped when a process has too many maps. A function that is called again compiles again.
"""

import ctypes
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

MOST_MAPS = 16_000  # memory maps of a process after a compilation: a quarter of what Linux allows; other code needs some too
MOST_MAPS_BEFORE_TRAINING = 8_000  # before a training with new programs, which needs about as many again (measured)
CHECK_EVERY = 4  # compilations between two counts of the maps, since a count takes some milliseconds
COMPILED = "/jax/core/compile/backend_compile_duration"  # the name of the event that JAX records after each compilation
MAPS = Path("/proc/self/maps")

_functions: list[Any] = []
_trainings: set[tuple[Any, ...]] = set()  # trainings whose programs are in memory
_since_check = 0
_dropping = threading.Lock()


def compiled(function: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Any]:
    """`jax.jit` with its options, for functions whose programs may be dropped when a process has too many memory maps."""
    if function is None:
        return lambda function: _register(jax.jit(function, **options))
    return _register(jax.jit(function))


def memory_maps() -> int:
    """The number of memory maps of this process; 0 on systems without `/proc`, which do not limit them."""
    try:
        return MAPS.read_bytes().count(b"\n")
    except OSError:
        return 0


def drop_programs(above: int = 0) -> bool:
    """Drops the library's compiled programs if this process has more memory maps than `above`; returns whether it did."""
    if memory_maps() < above or not _dropping.acquire(blocking=False):
        return False
    try:
        for function in _functions:
            function.clear_cache()
        _trainings.clear()
        gc.collect()  # programs are part of reference cycles
        return_memory()
        return True
    finally:
        _dropping.release()


def make_room_for(*training: Any) -> None:
    """Drops programs before a training that compiles new ones, so that none of its own are dropped while it runs.

    Arguments:
        training: hashable values that determine the programs of the training. Nothing is dropped if they are as before.
    """
    if training not in _trainings:
        drop_programs(above=MOST_MAPS_BEFORE_TRAINING)
        _trainings.add(training)


def return_memory() -> None:
    """Returns free memory to the system, since glibc keeps it after compilations (measured: 1.3 of 1.9 GiB were free)."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):  # a C library without `malloc_trim`
        pass


def _register(function: Any) -> Any:
    _functions.append(function)
    return function


def _check_after(event: str, duration_secs: float, **kwargs: Any) -> None:
    global _since_check
    if event == COMPILED:
        _since_check += 1
        if _since_check >= CHECK_EVERY:
            _since_check = 0
            drop_programs(above=MOST_MAPS)


jax.monitoring.register_event_duration_secs_listener(_check_after)
