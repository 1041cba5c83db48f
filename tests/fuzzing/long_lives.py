"""Processes that live long: one that trains on table after table, and a server of many models, within fixed bounds."""

import json
import random
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import odeprocess as odp
from odeprocess.common.compilation import memory_maps

from .files import place
from .outcomes import FAILURE, RIGHT, note

MOST_MAPS, MOST_MEMORY = 20_000, 3 * 2**10  # of a process, the latter in MiB
SIZES = (30, 150)  # series of a table; of fewer than forty, five models are trained
ROWS = (5, 40)  # of a series
EPOCHS = 5  # what is compiled does not depend on how many there are


def tables_of_many_sizes(seed: int, count: int) -> Counter:
    """One process trains on tables, each of another size, and predicts with every model."""
    rng, found = random.Random(seed), Counter()
    sizes: set[tuple[int, int]] = set()
    while len(sizes) < count:
        sizes.add((round(np.exp(rng.uniform(*np.log(SIZES)))), rng.randint(*ROWS)))
    watch = Watch("self")
    for series, rows in sorted(sizes, key=lambda _: rng.random()):
        frame = curves(series, rows, rng.randrange(2**31))
        forecaster = odp.Forecaster(model="ndp-skip", options={"epochs": EPOCHS, "em_epochs": EPOCHS}).fit(
            frame, "series", "time", "value"
        )
        some = frame[frame.series < rng.randint(2, series)]
        table = forecaster.predict(some, times=np.linspace(0.0, 10.0, rng.randint(1, 100)))
        right = bool(np.isfinite(table[["mean", "std"]]).all(None)) and watch.within()
        found[RIGHT if right else f"{FAILURE}: {series} series of {rows}: {watch}"] += 1
    return found


def server_of_many_models(seed: int, count: int) -> Counter:
    """One server with models of `count` different sizes answers questions to each of them."""
    found = Counter()
    with place() as root:
        folders = [untrained(root / f"model-{i}", i) for i in range(count)]
        command = [sys.executable, "-m", "odeprocess", "serve", *map(str, folders), "--port", "0", "--no-warm", "--no-playground"]
        with subprocess.Popen([*command, "--state", str(root / "series.sqlite")], stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            address = next(filter(None, (re.search(r"http://\S+?(?=;|\s|$)", line) for line in server.stderr)))[0].rstrip("/")
            watch = Watch(server.pid)
            for i in random.Random(seed).sample(range(count), count):
                found[_asked(address, f"model-{i}", watch)] += 1
            server.terminate()
            server.stderr.read()
    return found


def curves(series: int, rows: int, seed: int) -> pd.DataFrame:
    """A table of noisy sines, each with times of its own."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, 10.0, (series, rows)), 1)
    y = np.sin(t + rng.uniform(0.0, 2.0, (series, 1))) + 0.05 * rng.normal(size=t.shape)
    return pd.DataFrame({"series": np.repeat(np.arange(series), rows), "time": t.ravel(), "value": y.ravel()})


def untrained(folder: Path, number: int) -> Path:
    """A model of a size of its own, with the weights that it begins with."""
    import jax
    import jax.random as jr

    spec = odp.variant(("np", "ndp", "nd2p", "ndp-skip")[number % 4], h_dim=6 + number // 4, r_dim=6, z_dim=4, l_dim=2)
    series = odp.data.sines.sample(4, key=jr.key(0))
    scaling = odp.Scaling.fit(series)
    spec = spec.resolve(scaling.apply(series))
    like, rng = jax.eval_shape(lambda: spec.build(key=jr.key(0))), np.random.default_rng(number)
    weights = jax.tree.map(lambda x: jax.numpy.asarray(0.1 * rng.standard_normal(x.shape), x.dtype), like)
    odp.Model(weights, spec, scaling).save(folder)
    return folder


class Watch:
    """A process that must keep to its bounds; the most maps and memory that it had go into the record."""

    def __init__(self, process: int | str):
        self._process, self.now = process, {}

    def within(self) -> bool:
        """Whether the process keeps to its bounds."""
        folder = Path(f"/proc/{self._process}")
        maps = memory_maps() if self._process == "self" else (folder / "maps").read_bytes().count(b"\n")
        peak = re.search(r"VmHWM:\s+(\d+)", (folder / "status").read_text())
        self.now = {"memory maps": maps, "MiB at its peak": int(peak[1]) // 1024 if peak else 0}
        for name, value in self.now.items():
            note(name, value)
        return maps <= MOST_MAPS and self.now["MiB at its peak"] <= MOST_MEMORY

    def __str__(self) -> str:
        return ", ".join(f"{value:,} {name}" for name, value in self.now.items())


def _asked(address: str, model: str, watch: Watch) -> str:
    """What comes of a series that is opened, asked about and deleted."""
    began = time.perf_counter()
    try:
        opened = _request(f"{address}/api/v1/series", {"model": model, "observations": [{"t": 0.0, "y": [0.5]}]})
        name = opened["id"]
        answer = _request(f"{address}/api/v1/series/{name}/predict", {"times": [0.5, 1.0]})
        numbers = [np.asarray(answer[part], float) for part in ("mean", "low", "high")]
        right = all(np.isfinite(x).all() and x.shape == (2, 1) for x in numbers) and watch.within()
        return RIGHT if right else f"{FAILURE}: {model}: {watch}"
    except (urllib.error.URLError, OSError, KeyError) as error:
        return f"{FAILURE}: {model} after {time.perf_counter() - began:.0f} s: {error}"


def _request(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())
