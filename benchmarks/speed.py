"""Measures speed: training beside the paper's models in PyTorch, inference, scaling, memory, cold start and the roofline.

Each part runs in a process of its own, with an empty compilation cache. Numbers are medians after a warm-up, compile time is
apart, and ratios are of times taken in turn in one process. Rows go to `results/speed.json`, where rows of other devices are
kept; `docs/speed.md` is written from it. The PyTorch reference needs the extra `bench`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measures import cold_start, inference, roofline, scaling, training
from measures.timing import Setting, describe_machine

from odeprocess.experiments.result_files import write_json

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "speed.json"
PARTS = {
    "train": training.measure_training,
    "adaptive": training.measure_adaptive_solver,
    "seeds": training.measure_seeds,
    "latency": inference.measure_latency,
    "batch": scaling.measure_batches,
    "dim": scaling.measure_states,
    "points": scaling.measure_points,
    "stream": inference.measure_chunks,
    "start": cold_start.measure_cold_start,
    "roofline": roofline.measure_roofline,
}
ON_GPU = ("train", "latency", "batch", "stream", "roofline")  # the others take minutes to compile there, or do not depend on it


def run_here(name: str, setting: Setting) -> None:
    """Runs one part in this process, and prints its rows as the last line."""
    import jax

    jax.config.update("jax_enable_compilation_cache", False)
    rows = PARTS[name](setting)
    print(json.dumps([{"part": name, **row, **describe_machine()} for row in rows]))


def run_in_new_process(name: str, setting: Setting) -> list[dict[str, Any]]:
    """Runs one part in a process of its own."""
    flags = [flag for flag in ("--gpu", "--quick") if getattr(setting, flag[2:])]
    environment = {**os.environ, "JAX_PLATFORMS": "cuda" if setting.gpu else "cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    began = time.perf_counter()
    call = [sys.executable, __file__, "--here", name, *flags]
    done = subprocess.run(call, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout, f"{name} failed; its rows stay as they were.", file=sys.stderr)
        return []
    return json.loads(done.stdout.splitlines()[-1])


def add_to_record(rows: list[dict[str, Any]], path: Path) -> None:
    """Adds rows to the record, and removes those of the same part on the same kind of device."""
    record = json.loads(path.read_text()) if path.exists() else {"rows": []}
    new = {(row["part"], row["device"]) for row in rows}
    record["rows"] = [row for row in record["rows"] if (row["part"], row["device"]) not in new] + rows
    record |= {"python": platform.python_version(), "machine": platform.machine()}
    write_json(path, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="measure on a GPU, the parts that are of interest there")
    parser.add_argument("--only", action="append", choices=PARTS, help="run only this part (can be repeated)")
    parser.add_argument("--quick", action="store_true", help="a rehearsal of seconds: everything runs, times mean nothing")
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="where rows are written; the page is written only for the default"
    )
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page from the record")
    parser.add_argument("--here", choices=PARTS, help="run one part in this process and print its rows")
    arguments = parser.parse_args()
    setting = Setting(arguments.gpu, arguments.quick)
    if arguments.here:
        run_here(arguments.here, setting)
        return
    failed = False
    for name in () if arguments.page else arguments.only or (ON_GPU if arguments.gpu else PARTS):
        rows = run_in_new_process(name, setting)
        failed |= not rows
        if rows:
            add_to_record(rows, arguments.out)
    if arguments.page or (arguments.out == RESULTS and not arguments.gpu):
        from speed_report import write_page

        print(f"Wrote {write_page(json.loads(arguments.out.read_text())['rows'], ROOT / 'docs')}.")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
