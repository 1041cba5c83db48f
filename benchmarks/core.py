"""Speed of the core: training, seeds at once, and the latency of a posterior.

Each part runs in a process of its own, with a cold compilation cache, some pinned to one core. Figures are
medians after a warm-up; compile time is apart; ratios come from one run. Writes `results/core.json`.
"""

import argparse
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results" / "core.json"
RELEASED_NP_EPOCH = 0.59  # seconds, the paper's released PyTorch code on one core of the same kind of machine
SEEDS = 5


def sines():
    import jax.random as jr

    import odeprocess as odp

    protocol = odp.experiments.protocol("sines")
    return protocol, protocol.series(protocol.train, key=jr.key(0))


def train(repeats: int, names: tuple[str, ...] = ()) -> list[dict]:
    """One seed of each variant: seconds of 30 epochs, interleaved over `repeats` so that noise hits all alike."""
    import odeprocess as odp

    protocol, series = sines()
    seconds: dict[str, list[float]] = {name: [] for name in names or odp.VARIANTS}
    compiling, parameters = {}, {}
    for repeat in range(repeats):
        for name in seconds:
            fit = protocol.fit(name, series, seeds=repeat)
            seconds[name].append(fit.train_seconds)
            compiling.setdefault(name, fit.compile_seconds)
            parameters[name] = fit.model.num_parameters
    base = statistics.median(seconds["np"])
    return [
        {
            "benchmark": "train",
            "model": name,
            "task": "sines",
            "batch": protocol.batch_size,
            "epochs": protocol.epochs,
            "seconds": statistics.median(times),
            "seconds_all": times,
            "compile_seconds": compiling[name],
            "ratio_to_np": statistics.median(times) / base,
            "parameters": parameters[name],
            **({"speedup_over_released": RELEASED_NP_EPOCH * protocol.epochs / base} if name == "np" else {}),
        }
        for name, times in seconds.items()
    ]


def seeds(repeats: int) -> list[dict]:
    """Five seeds at once against five runs of one compiled function."""
    protocol, series = sines()
    rows = []
    for name in ("np", "ndp"):
        at_once, alone = [], []
        for repeat in range(repeats + 1):
            start = SEEDS * repeat
            at_once.append(protocol.fit(name, series, seeds=list(range(start, start + SEEDS))).train_seconds)
            alone.append(sum(protocol.fit(name, series, seeds=start + i).train_seconds for i in range(SEEDS)))
        together, apart = statistics.median(at_once[1:]), statistics.median(alone[1:])
        row = {"benchmark": "seeds", "model": name, "task": "sines", "seeds": SEEDS, "seconds": together}
        rows.append({**row, "seconds_one_by_one": apart, "ratio": together / apart, "ratio_to_one": SEEDS * together / apart})
    return rows


def latency(repeats: int) -> list[dict]:
    """From NumPy in to NumPy out, on one core: the median of `repeats`."""
    import jax
    import jax.random as jr
    import numpy as np

    protocol, series = sines()
    model = protocol.fit("ndp", series).model
    rng, times, key = np.random.default_rng(0), np.linspace(-3, 3, 200), jr.key(1)
    t = rng.uniform(-3, 3, 10)
    y = np.sin(t)
    posterior = model.condition(t, y, key=key, draws=64)

    def whole():
        found = model.condition(t, y, key=key, draws=64)
        return found.mean(times), found.interval(times, 0.9)

    def update():
        return jax.block_until_ready(posterior.update(0.3, 0.2).belief)

    def median(call) -> float:
        call()
        call()
        taken = []
        for _ in range(repeats):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)

    calls = {
        "condition + mean + 90% interval, 200 times, 64 draws": whole,
        "condition": lambda: jax.block_until_ready(model.condition(t, y, key=key).belief),
        "update, one point": update,
    }
    return [
        {"benchmark": "latency", "model": "ndp", "what": what, "seconds": median(call), "repeats": repeats}
        for what, call in calls.items()
    ]


# what, how often, on how many cores
PARTS = {
    "train": (train, 3, None),
    "train-one-core": (functools.partial(train, names=("np", "ndp")), 3, 1),
    "seeds": (seeds, 3, None),
    "latency": (latency, 200, 1),
}


def run_part(name: str) -> None:
    """Runs one part in this process and prints its rows."""
    import jax

    function, repeats, cores = PARTS[name]
    if cores is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    jax.config.update("jax_enable_compilation_cache", False)
    rows = function(repeats)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    device = jax.devices()[0]
    common = {"device": device.platform, "kind": device.device_kind, "cores": available, "jax": jax.__version__}
    print(json.dumps([{**row, **common} for row in rows]))


def show(rows: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("benchmark", "model", "what", "time", "compiling", "ratio")
    for row in rows:
        epochs = f"30 epochs, {row['cores']} core(s) / NP's"
        what = row.get("what") or (f"{row['seeds']} seeds at once / one by one" if "seeds" in row else epochs)
        taken = row["seconds"]
        shown = f"{taken:.2f} s" if taken > 0.1 else f"{1000 * taken:.2f} ms"
        compiling = f"{row['compile_seconds']:.1f} s" if "compile_seconds" in row else ""
        ratio = row.get("ratio_to_np", row.get("ratio"))
        table.add_row(row["benchmark"], row["model"], what, shown, compiling, "" if ratio is None else f"{ratio:.2f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="run one part in this process and print JSON")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the rows go")
    arguments = parser.parse_args()
    if arguments.part:
        run_part(arguments.part)
        return
    rows = []
    for name in PARTS:
        print(f"{name} …", flush=True)
        done = subprocess.run([sys.executable, __file__, "--part", name], stdout=subprocess.PIPE, text=True, check=True)
        rows += json.loads(done.stdout.splitlines()[-1])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"python": platform.python_version(), "machine": platform.machine(), "rows": rows}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
