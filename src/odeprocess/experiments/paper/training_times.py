"""Training times: every variant in turn, again and again in one process, so that noise hits all alike."""

import statistics
from typing import Any

from .data_splits import split
from .plan import Cell


def time_task(cells: list[Cell], repeats: int, advance: Any) -> dict[str, Any]:
    """Seconds of one seed of every cell of a task, compile time apart, with nothing but training inside."""
    series = split(cells[0].protocol).train
    seconds: dict[str, list[float]] = {cell.variant: [] for cell in cells}
    compiling: dict[str, float] = {}
    for repeat in range(repeats + 1):  # the first round compiles and warms up
        for cell in cells:
            fit = cell.protocol.fit(cell.spec, series, seeds=repeat, progress=False)
            compiling.setdefault(cell.variant, fit.compile_seconds)
            if repeat or repeats == 1:
                seconds[cell.variant].append(fit.train_seconds)
            advance(cell.work, f"timing {cell.task}, {cell.variant}")
    base = cells[0].variant
    return {
        "task": cells[0].task,
        "base": base,
        "seconds": seconds,
        "compile_seconds": compiling,
        "ratios": {
            name: [t / statistics.median(seconds[base]) for t in times] for name, times in seconds.items() if name != base
        },
    }
