"""Compiled functions, and a bound on what they hold: memory maps and the memory of compiled programs.

XLA keeps a compiled program in dozens to thousands of memory maps. Linux allows a process 65,530, and a process that asks for
more ends with "LLVM compilation error: Cannot allocate memory". JAX keeps every program for as long as the function lives, so a
notebook that trains on tables of ever other sizes would get there after a handful of trainings (measured: 8,200 maps for one
fit of a table, 2,300 for its predictions). Here every function of the library that is compiled is known, and their programs
are dropped where a process holds too many; what is called again is compiled again.
"""

import ctypes
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

MOST_MAPS = 16_000  # of a process, after a compilation; a quarter of what Linux allows, since others need some too
MOST_MAPS_BEFORE_TRAINING = 8_000  # where programs are new: one training needs about as many again
CHECK_EVERY = 4  # compilations: counting maps takes some milliseconds
COMPILED = "/jax/core/compile/backend_compile_duration"  # JAX's event after each compilation
MAPS = Path("/proc/self/maps")

_functions: list[Any] = []
_trainings: set[tuple[Any, ...]] = set()  # whose programs there are
_since_check = 0
_dropping = threading.Lock()


def compiled(function: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Any]:
    """`jax.jit` with its options, for functions whose programs may be dropped when a process holds too many."""
    if function is None:
        return lambda function: _registered(jax.jit(function, **options))
    return _registered(jax.jit(function))


def memory_maps() -> int:
    """How many memory maps this process has; 0 where the system does not tell, and has no limit on them."""
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
        gc.collect()  # programs are part of cycles
        return_memory()
        return True
    finally:
        _dropping.release()


def make_room_for(*training: Any) -> None:
    """Drops programs before a training that will compile its own, so that it need not drop some of them while it goes on.

    Arguments:
        training: what its programs depend on, all hashable; one like an earlier one finds them.
    """
    if training not in _trainings:
        drop_programs(above=MOST_MAPS_BEFORE_TRAINING)
        _trainings.add(training)


def return_memory() -> None:
    """Gives free memory back to the system: compiling leaves much of it with glibc (measured: of 1.9 GiB, 1.3 were free)."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):  # another C library
        pass


def _registered(function: Any) -> Any:
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
