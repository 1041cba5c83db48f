"""Checks that training resumes after SIGKILL: ten runs on 60 series, each killed at a random moment and resumed.

Prints for each whether weights, history and best epoch are equal, bit by bit, to those of an uninterrupted run. A run is killed
within a tenth of a second after a random epoch, so in the middle of the next epoch or while saving; the first run is killed
while it starts or compiles.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def train(folder: Path, result: Path, epochs: int) -> None:
    """Trains in this process, from the beginning or from the last checkpoint, and writes the result."""
    import jax
    import numpy as np
    from safetensors.numpy import save_file

    import odeprocess as odp

    rng = np.random.default_rng(0)
    t = [rng.uniform(0, 48, rng.integers(3, 21)) for _ in range(60)]
    series = odp.make_series(t, [20 + 5 * np.sin(times / 8 + rng.uniform(0, 2)) + rng.normal(0, 0.5, len(times)) for times in t])
    fitted = odp.fit(
        series[10:],
        "ndp-skip",
        validation=series[:10],
        options=odp.FitOptions(epochs=epochs),
        checkpoint=folder,
        checkpoint_every=0.5,
        resume=True,
        progress=lambda note: print(note, flush=True),
    )
    found = {f"leaf {i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(fitted.model.process))}
    found |= {name: rows for name, rows in vars(fitted.history).items() if name != "seconds"}
    found["epoch"] = np.array([fitted.model.info["epoch"]])
    save_file(found, result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=200, help="of each half")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", nargs=2, type=Path, metavar=("FOLDER", "RESULT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        folder, result = arguments.train
        return train(folder, result, arguments.epochs)
    rng, equal = random.Random(arguments.seed), 0
    with tempfile.TemporaryDirectory() as home:

        def start_run(name: str) -> subprocess.Popen:
            places = [f"{home}/{name}", f"{home}/{name}.safetensors"]
            command = [sys.executable, __file__, "--epochs", str(arguments.epochs), "--train", *places]
            return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

        def finish(child: subprocess.Popen) -> None:
            child.communicate()
            assert child.returncode == 0

        began = time.perf_counter()
        finish(start_run("whole"))
        print(f"an uninterrupted run: {time.perf_counter() - began:.1f} s", flush=True)
        for i in range(arguments.kills):
            child, epoch = start_run(str(i)), rng.randrange(2 * arguments.epochs) if i else 0
            assert child.stdout is not None
            for _ in range(epoch):
                child.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.1) if epoch else rng.uniform(0.0, 20.0))
            child.send_signal(signal.SIGKILL)
            child.communicate()
            killed = child.returncode == -signal.SIGKILL
            kept = max((path.name[11:18] for path in Path(home, str(i)).glob("checkpoint-*")), default="0")
            finish(start_run(str(i)))
            found = Path(home, f"{i}.safetensors").read_bytes() == Path(home, "whole.safetensors").read_bytes()
            equal += found
            what = f"killed after epoch {epoch:3d}" if killed else "finished before the kill"
            print(f"{i + 1:2d}: {what}, resumed from epoch {int(kept):3d}: {'bit-equal' if found else 'DIFFERENT'}", flush=True)
    print(f"{equal} of {arguments.kills} bit-equal")
    sys.exit(equal != arguments.kills)


if __name__ == "__main__":
    main()
