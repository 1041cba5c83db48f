"""Helpers of all measurements: the task, the machine, and the timing of calls."""

import dataclasses
import os
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Setting:
    """Options of a measurement: on a GPU or not, and whether it is only a rehearsal."""

    gpu: bool = False
    quick: bool = False

    def choose_count(self, full: int, rehearsal: int = 1) -> int:
        """The first number, or the second in a rehearsal."""
        return rehearsal if self.quick else full


def pin_to_cores(cores: int) -> int:
    """Restricts this process to so many cores, where the system supports it; returns the number it has."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    return len(os.sched_getaffinity(0))


def make_sines(setting: Setting) -> tuple[Any, Any]:
    """The paper's protocol for sines, and its training series."""
    import jax.random as jr

    import odeprocess as odp

    protocol = odp.experiments.protocol("sines")
    protocol = protocol.quick() if setting.quick else protocol
    return protocol, protocol.series(protocol.train, key=jr.key(0))


def time_median(call: Callable[[], Any], repeats: int, warm_up: int = 2) -> float:
    """The median seconds of `repeats` calls, after `warm_up` others."""
    for _ in range(warm_up):
        call()
    return statistics.median(time_call(call) for _ in range(repeats))


def time_call(call: Callable[[], Any]) -> float:
    """Measures the seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure_peak_gib() -> float:
    """The largest resident memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def describe_machine() -> dict[str, Any]:
    """The fields of a row that say where it was measured."""
    import jax

    device = jax.devices()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"device": device.platform, "kind": device.device_kind, "cores": cores, "jax": jax.__version__}
