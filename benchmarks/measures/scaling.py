"""How time and memory grow: with the batch, with dim(l), with the points that are given and asked about."""

import statistics

from .common import Setting, median_of, peak_gib, pin, sines
from .inference import fresh

BATCHES = (5, 64, 1024, 4096)
STATES = (2, 16, 64, 256)
GIVEN = (1, 10, 100, 1000)
ASKED = (10, 100, 1000, 10_000)
STEPS = 4


def batches(setting: Setting) -> list[dict]:
    """Seconds of one training step of the NDP by the size of the batch; on CPUs on one core."""
    if not setting.gpu:
        pin(1)
    rows = []
    for batch in (5,) if setting.quick else (5, 1024, 4096) if setting.gpu else BATCHES:
        compiling, seconds = step_seconds(setting, "ndp", batch)
        row = {"benchmark": "batch", "task": "sines", "model": "ndp", "batch": batch, "seconds": seconds}
        rows.append({**row, "compile_seconds": compiling, "peak_gib": peak_gib(), "device_gib": device_gib()})
    return rows


def states(setting: Setting) -> list[dict]:
    """Seconds of one training step of the NDP by dim(l), d having 40 numbers as ever."""
    rows = []
    for l_dim in (2,) if setting.quick else STATES:
        compiling, seconds = step_seconds(setting, "ndp", 5, l_dim=l_dim, z_dim=l_dim + 40)
        row = {"benchmark": "dim(l)", "task": "sines", "model": "ndp", "batch": 5, "l_dim": l_dim, "seconds": seconds}
        rows.append({**row, "compile_seconds": compiling})
    return rows


def step_seconds(setting: Setting, name: str, batch: int, **changes: int) -> tuple[float, float]:
    """Seconds to compile, and those of a training step: the median epoch over its steps."""
    import jax.random as jr

    protocol, _ = sines(setting)
    protocol = protocol.replace(batch_size=batch, epochs=setting.few(12 if batch <= 64 else 4, 2))
    series = protocol.series(STEPS * batch * (10 if batch <= 64 else 1), key=jr.key(0))
    fit = protocol.fit(protocol.spec(name, **changes), series)
    return fit.compile_seconds, statistics.median(fit.history.seconds[1:]) / (len(series) // batch)


def points(setting: Setting) -> list[dict]:
    """One series: seconds to condition on more and more points, and to predict at more and more times."""
    import jax
    import jax.random as jr
    import numpy as np

    model, observed = fresh(setting)
    rows, key = [], jr.key(0)
    common = {"task": "sines", "model": "ndp", "batch": 1, "draws": 64}
    for count in GIVEN[: 2 if setting.quick else None]:
        t, y = (x[0] for x in observed(1, count))
        seconds = median_of(lambda t=t, y=y: jax.block_until_ready(model.condition(t, y, key=key).belief), setting.few(50, 2))
        rows.append({"benchmark": "context", **common, "points": count, "seconds": seconds})
    posterior = model.condition([0.0], [0.0], key=key)
    for count in ASKED[: 2 if setting.quick else None]:
        # Two sets of times in turn: a posterior remembers the last question.
        sets = [np.linspace(-3, end, count) for end in (2.9, 3.0)]
        seconds = median_of(lambda sets=sets: [posterior.mean(times) for times in sets], setting.few(20, 2)) / 2
        rows.append({"benchmark": "targets", **common, "points": count, "seconds": seconds, "peak_gib": peak_gib()})
    return rows


def device_gib() -> float | None:
    """The most memory that a GPU has held at once; nothing on CPUs."""
    import jax

    stats = jax.devices()[0].memory_stats()
    return None if not stats else stats["peak_bytes_in_use"] / 2**30
