"""Training times: all variants in turn, several rounds in one process, so that other load on the machine affects all alike."""

import statistics
from typing import Any

from odeprocess.experiments.definitions import Cell

from .data_splits import split


def time_training(cells: list[Cell], repeats: int, advance: Any) -> dict[str, Any]:
    """Measures the seconds of training one seed of each cell of a task, without validation; compile time is apart."""
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
