"""`make fuzz`: every part of the campaign with large counts. What came of it goes to `results/fuzz.json`, a row for each part.

It ends with 1 if any outcome was a failure. `--share 0.01` is a rehearsal, `--only NAME` runs some parts, and another `--seed`
makes other faults.
"""

import argparse
import os
import sys
from pathlib import Path

from odeprocess.experiments.result_files import provenance, read_json, write_json

from .campaign import PARTS, run, told

RESULTS = Path(__file__).parents[2] / "results" / "fuzz.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=PARTS, metavar="NAME", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual counts")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    known = read_json(chosen.out) or {}
    rows = {row["part"]: row for row in known.get("rows", [])}
    failed = False
    for name in chosen.only:
        row = rows[name] = run(name, max(1, round(PARTS[name].count * chosen.share)), chosen.seed, chosen.workers)
        print(told(row), flush=True)
        write_json(chosen.out, {**provenance(), "rows": [rows[part] for part in PARTS if part in rows]})
        failed |= row["failures"] > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
