"""Speed, from one command: training beside the paper's models in PyTorch, inference, scaling, memory, start and the floor.

Each part runs in a process of its own, with a cold compilation cache. Figures are medians after a warm-up, compile time is
apart, and ratios are of times taken in turn in one process. Rows go to `results/speed.json`, where those of other devices are
kept; then `docs/speed.md` is made of it. The reference needs the extra `bench`; everything else only what odeprocess needs.
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

from measures import floor, inference, scaling, start, training
from measures.common import Setting, machine

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "speed.json"
PARTS = {
    "train": training.train,
    "adaptive": training.adaptive,
    "seeds": training.seeds,
    "latency": inference.latency,
    "batch": scaling.batches,
    "dim": scaling.states,
    "points": scaling.points,
    "stream": inference.stream,
    "start": start.cold_start,
    "floor": floor.floor,
}
ON_GPU = ("train", "latency", "batch", "stream", "floor")  # the rest takes minutes to compile there, or does not depend on it


def here(name: str, setting: Setting) -> None:
    """Runs one part in this process; its rows are the last line that is printed."""
    import jax

    jax.config.update("jax_enable_compilation_cache", False)
    rows = PARTS[name](setting)
    print(json.dumps([{"part": name, **row, **machine()} for row in rows]))


def apart(name: str, setting: Setting) -> list[dict[str, Any]]:
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


def keep(rows: list[dict[str, Any]], path: Path) -> None:
    """Puts rows into the record, in the place of those of the same part on the same kind of device."""
    record = json.loads(path.read_text()) if path.exists() else {"rows": []}
    new = {(row["part"], row["device"]) for row in rows}
    record["rows"] = [row for row in record["rows"] if (row["part"], row["device"]) not in new] + rows
    record |= {"python": platform.python_version(), "machine": platform.machine()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="measure on a GPU, what is worth it there")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part (may be given again)")
    parser.add_argument("--quick", action="store_true", help="a rehearsal of seconds: everything runs, nothing is measured well")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the rows go; the page is made for the default alone")
    parser.add_argument("--page", action="store_true", help="measure nothing; make the page from the record")
    parser.add_argument("--here", choices=PARTS, help="run one part in this process and print its rows")
    arguments = parser.parse_args()
    setting = Setting(arguments.gpu, arguments.quick)
    if arguments.here:
        here(arguments.here, setting)
        return
    failed = False
    for name in () if arguments.page else arguments.only or (ON_GPU if arguments.gpu else PARTS):
        rows = apart(name, setting)
        failed |= not rows
        if rows:
            keep(rows, arguments.out)
    if arguments.page or (arguments.out == RESULTS and not arguments.gpu):
        from page import write_page

        print(f"Wrote {write_page(json.loads(arguments.out.read_text())['rows'], ROOT / 'docs')}.")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
