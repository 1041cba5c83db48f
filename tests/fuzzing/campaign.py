"""The parts of the campaign, and how one is run: in processes of its own, watched for their memory, their time and their end."""

import gc
import multiprocessing
import os
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from . import clocks, disks, files, hostile, long_lives, numbers, outcomes, processes, slow, tables
from .outcomes import FAILURE, REFUSED, RIGHT

MOST_GROWTH = 64.0  # MiB that a process may have more at the end than after its warm-up
CHILDREN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Part:
    """One kind of fault: `run(seed, count)` counts what came of it."""

    run: Any
    count: int
    alone: bool = False  # it has processes or clocks of its own, so it gets the machine to itself
    warm_up: int = 50


PARTS = {
    "damaged models": Part(files.damaged_models, 100_000),
    "damaged forecasters": Part(files.damaged_forecasters, 60_000),
    "damaged streams": Part(files.damaged_streams, 120_000),
    "damaged checkpoints": Part(files.damaged_checkpoints, 120_000),
    "damaged stores": Part(files.damaged_stores, 20_000),
    "tables of many sizes": Part(long_lives.tables_of_many_sizes, 40, alone=True, warm_up=0),
    "server of many models": Part(long_lives.server_of_many_models, 200, alone=True, warm_up=0),
    "damaged CSV": Part(tables.damaged_csv, 80_000),
    "damaged Parquet": Part(tables.damaged_parquet, 40_000),
    "odd tables": Part(tables.odd_tables, 40_000),
    "odd numbers": Part(numbers.odd_numbers, 40_000, warm_up=2000),
    "clock jumps": Part(clocks.clock_jumps, 2_000, alone=True, warm_up=0),
    "pairs of processes saving": Part(processes.pairs_saving, 100, alone=True, warm_up=0),
    "pairs of processes training": Part(processes.pairs_training, 100, alone=True, warm_up=0),
    "full disks": Part(disks.full_disks, 4_000, alone=True, warm_up=0),
    "killed servers": Part(disks.killed_servers, 30, alone=True, warm_up=0),
    "hostile requests": Part(hostile.hostile_requests, 20_000, alone=True, warm_up=0),
    "generated requests": Part(hostile.generated_requests, 2_000, alone=True, warm_up=0),
    "slow clients": Part(slow.slow_clients, 500, alone=True, warm_up=0),
    "held bodies": Part(slow.held_bodies, 40, alone=True, warm_up=0),
}


def run(name: str, count: int, seed: int, workers: int) -> dict[str, Any]:
    """A part in as many processes as may run at once, each with a seed and a share of the count."""
    workers = 1 if PARTS[name].alone else min(workers, count)
    shares = [count // workers + (i < count % workers) for i in range(workers)]
    began, found, slowest, growth = time.perf_counter(), Counter(), 0.0, 0.0
    figures: dict[str, Any] = {}
    at_work = {}
    for i, share in enumerate(shares):
        ours, theirs = CHILDREN.Pipe()
        child = CHILDREN.Process(target=_work, args=(name, 1000 * seed + i, share, theirs))
        child.start()
        theirs.close()
        at_work[ours] = child
    for ours in at_work:
        wait([ours])
        child = at_work[ours]
        try:
            counted, slow, grown, measured = ours.recv()
            figures |= measured
            slowest, growth = max(slowest, slow), max(growth, grown)
        except EOFError:  # it ended before it could tell
            child.join()
            counted = Counter({f"{FAILURE}: the process ended with {child.exitcode}": 1})
        found += counted
        child.join()
    if growth > MOST_GROWTH:
        found[f"{FAILURE}: memory grew by {growth:.0f} MiB"] += 1
    good = {RIGHT: found.pop(RIGHT, 0), REFUSED: found.pop(REFUSED, 0)}
    return {
        "part": name,
        "count": count,
        "seed": seed,
        **good,
        "failures": found.total(),
        "of which": dict(found.most_common(20)),
        "seconds": round(time.perf_counter() - began, 1),
        "slowest, s": round(slowest, 2),
        "MiB more at the end": round(growth, 1),
        **({"figures": figures} if figures else {}),
    }


def told(row: dict[str, Any]) -> str:
    """A line for the terminal, and one for each kind of failure."""
    lines = [
        f"{row['part']}: {row['count']:,} with seed {row['seed']}: {row[RIGHT]:,} right, {row[REFUSED]:,} refused, "
        f"{row['failures']:,} failures; {row['seconds']:.0f} s, slowest {row['slowest, s']} s, "
        f"{row['MiB more at the end']:+} MiB"
    ]
    lines += [f"    {name}: {value}" for name, value in row.get("figures", {}).items()]
    return "\n".join([*lines, *(f"    {count:,} × {kind}" for kind, count in row["of which"].items())])


def _work(name: str, seed: int, count: int, to: Connection) -> None:
    warnings.simplefilter("ignore")
    part = PARTS[name]
    if part.warm_up:
        part.run(seed + 500, min(part.warm_up, count))  # compiles, imports and fills caches
    outcomes.figures.clear()
    outcomes.slowest, began = 0.0, _memory()
    found = part.run(seed, count)
    grown = max(0.0, _memory() - began) if part.warm_up else 0.0
    to.send((found, outcomes.slowest, grown, outcomes.figures))


def _memory() -> float:
    """Resident, in MiB."""
    gc.collect()
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20 if statm.exists() else 0.0
