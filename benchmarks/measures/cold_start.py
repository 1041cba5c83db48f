"""The time of a new process until its first prediction: import, compiling, predicting; with and without a compilation cache."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from .timing import Setting

FIRST = """
import jax, json, time, numpy as np
began = time.perf_counter()
import odeprocess as odp
protocol = odp.experiments.protocol("sines")
series = protocol.series(protocol.train, key=jax.random.key(0))
imported = time.perf_counter()
fit = protocol.replace(epochs={epochs}).fit("{model}", series, progress=False)
fitted = time.perf_counter()
posterior = fit.model.condition([0.0, 1.0], [0.1, 0.8], key=jax.random.key(1))
posterior.mean(np.linspace(-3, 3, 100))
print(json.dumps([imported - began, fitted - imported, time.perf_counter() - fitted, fit.compile_seconds]))
"""


def measure_cold_start(setting: Setting) -> list[dict]:
    """Seconds of whole processes; medians of several."""
    rows = []
    common = {"benchmark": "start", "task": "sines"}
    python, command = [sys.executable, "-c"], [sys.executable, "-m", "odeprocess"]
    calls = {
        "python, nothing else": [*python, "pass"],
        "import odeprocess": [*python, "import odeprocess"],
        "import jax": [*python, "import jax"],
        "import odeprocess, and what fit needs": [*python, "import odeprocess; odeprocess.fit"],
        "odeprocess --help": [*command, "--help"],
    }
    for what, call in calls.items():
        taken = [time_process(call) for _ in range(setting.choose_count(5) + 1)][1:]
        rows.append({**common, "what": what, "seconds": statistics.median(taken)})
    for model in ("np", "ndp")[1 if setting.quick else 0 :]:
        runs = [time_first_runs(model, quick=setting.quick) for _ in range(setting.choose_count(3))]
        for way in runs[0]:
            seen = [run[way] for run in runs]
            parts = {name: statistics.median(each[name] for each in seen) for name in seen[0]}
            rows.append({**common, "what": f"fit and a first prediction, {way}", "model": model, "batch": 5, **parts})
    return rows


def time_first_runs(model: str, *, quick: bool) -> dict[str, dict[str, float]]:
    """Seconds of processes that train for two epochs and predict: without a cache, with an empty cache, with a filled cache."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        ways = {"no cache": {"JAX_ENABLE_COMPILATION_CACHE": "0"}, "cache, first run": cache, "cache, second run": cache}
        for way, settings in list(ways.items())[1 if quick else 0 :]:
            call = [sys.executable, "-c", FIRST.format(epochs=2, model=model)]
            began = time.perf_counter()
            done = subprocess.run(call, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True, check=True)
            names = ("import_seconds", "fit_seconds", "predict_seconds", "compile_seconds")
            parts = dict(zip(names, json.loads(done.stdout.splitlines()[-1]), strict=True))
            found[way] = {"seconds": time.perf_counter() - began, **parts}
    return found


def time_process(call: list[str]) -> float:
    """Measures the seconds of a process from start to end."""
    began = time.perf_counter()
    subprocess.run(call, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
