"""What all parts share: the task, the machine, and how a call is timed."""

import dataclasses
import os
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a part is run: on a GPU or not, and whether it is only a rehearsal."""

    gpu: bool = False
    quick: bool = False

    def few(self, whole: int, rehearsal: int = 1) -> int:
        """A number of repeats or of things."""
        return rehearsal if self.quick else whole


def pin(cores: int) -> int:
    """Keeps this process on so many cores, where the system can; says how many it has."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    return len(os.sched_getaffinity(0))


def sines(setting: Setting) -> tuple[Any, Any]:
    """The paper's protocol for sines, and its training series."""
    import jax.random as jr

    import odeprocess as odp

    protocol = odp.experiments.protocol("sines")
    protocol = protocol.quick() if setting.quick else protocol
    return protocol, protocol.series(protocol.train, key=jr.key(0))


def median_of(call: Callable[[], Any], repeats: int, warm_up: int = 2) -> float:
    """The median of so many calls, after some that do not count."""
    for _ in range(warm_up):
        call()
    return statistics.median(timed(call) for _ in range(repeats))


def timed(call: Callable[[], Any]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def peak_gib() -> float:
    """The most memory that this process has had at once, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def machine() -> dict[str, Any]:
    """What a row says about where it was measured."""
    import jax

    device = jax.devices()[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"device": device.platform, "kind": device.device_kind, "cores": cores, "jax": jax.__version__}
