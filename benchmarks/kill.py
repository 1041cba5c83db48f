"""Training that survives: ten runs of the default size (60 series), each killed with SIGKILL at a random moment and resumed.

Prints for each whether weights, history and best epoch are those of a run that was never stopped, bit by bit. The moments
are spread over the whole run: starting up, compiling, either half of training, saving.
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
    """One run, in a process of its own: from the beginning, or on from where it was."""
    import jax
    import numpy as np
    from safetensors.numpy import save_file

    import odeprocess as odp

    rng = np.random.default_rng(0)
    t = [rng.uniform(0, 48, rng.integers(3, 21)) for _ in range(60)]
    series = odp.make_series(t, [20 + 5 * np.sin(times / 8 + rng.uniform(0, 2)) + rng.normal(0, 0.5, len(times)) for times in t])
    fitted = odp.fit(
        "ndp-skip",
        series[10:],
        validation=series[:10],
        options=odp.FitOptions(epochs=epochs),
        checkpoint=folder,
        checkpoint_every=0.5,
        resume=True,
        progress=False,
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

        def start(name: str) -> subprocess.Popen:
            places = [f"{home}/{name}", f"{home}/{name}.safetensors"]
            return subprocess.Popen([sys.executable, __file__, "--epochs", str(arguments.epochs), "--train", *places])

        began = time.perf_counter()
        assert start("whole").wait() == 0
        whole = time.perf_counter() - began
        print(f"a run that was never stopped: {whole:.1f} s", flush=True)
        for i in range(arguments.kills):
            child, moment = start(str(i)), rng.uniform(0.0, whole)
            try:
                child.wait(moment)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
            killed = child.wait() == -signal.SIGKILL
            kept = max((path.name[11:18] for path in Path(home, str(i)).glob("checkpoint-*")), default="0")
            assert start(str(i)).wait() == 0
            found = Path(home, f"{i}.safetensors").read_bytes() == Path(home, "whole.safetensors").read_bytes()
            equal += found
            what = f"killed after {moment:5.1f} s" if killed else "finished before it was killed"
            print(f"{i + 1:2d}: {what}, went on from epoch {int(kept):3d}: {'bit-equal' if found else 'DIFFERENT'}", flush=True)
    print(f"{equal} of {arguments.kills} bit-equal")
    sys.exit(equal != arguments.kills)


if __name__ == "__main__":
    main()
