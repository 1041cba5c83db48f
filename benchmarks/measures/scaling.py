"""Time and memory by batch size, by dim(l), and by numbers of given and of predicted points."""

import statistics

from .inference import make_untrained_model
from .timing import Setting, make_sines, measure_peak_gib, pin_to_cores, time_median

BATCHES = (5, 64, 1024, 4096)
STATES = (2, 16, 64, 256)
GIVEN = (1, 10, 100, 1000)
ASKED = (10, 100, 1000, 10_000)
STEPS = 4


def measure_batches(setting: Setting) -> list[dict]:
    """Seconds of a training step of the NDP by batch size; on CPUs on one core."""
    if not setting.gpu:
        pin_to_cores(1)
    rows = []
    for batch in (5,) if setting.quick else (5, 1024, 4096) if setting.gpu else BATCHES:
        compiling, seconds = measure_step(setting, "ndp", batch)
        row = {"benchmark": "batch", "task": "sines", "model": "ndp", "batch": batch, "seconds": seconds}
        rows.append({**row, "compile_seconds": compiling, "peak_gib": measure_peak_gib(), "device_gib": measure_device_gib()})
    return rows


def measure_states(setting: Setting) -> list[dict]:
    """Seconds of a training step of the NDP by dim(l); dim(d) is always 40."""
    rows = []
    for l_dim in (2,) if setting.quick else STATES:
        compiling, seconds = measure_step(setting, "ndp", 5, l_dim=l_dim, z_dim=l_dim + 40)
        row = {"benchmark": "dim(l)", "task": "sines", "model": "ndp", "batch": 5, "l_dim": l_dim, "seconds": seconds}
        rows.append({**row, "compile_seconds": compiling})
    return rows


def measure_step(setting: Setting, name: str, batch: int, **changes: int) -> tuple[float, float]:
    """Seconds of compiling, and of a training step: the median epoch divided by its number of steps."""
    import jax.random as jr

    protocol, _ = make_sines(setting)
    protocol = protocol.replace(batch_size=batch, epochs=setting.choose_count(12 if batch <= 64 else 4, 2))
    series = protocol.series(STEPS * batch * (10 if batch <= 64 else 1), key=jr.key(0))
    fit = protocol.fit(protocol.spec(name, **changes), series)
    return fit.compile_seconds, statistics.median(fit.history.seconds[1:]) / (len(series) // batch)


def measure_points(setting: Setting) -> list[dict]:
    """Seconds of conditioning one series on 1 to 1000 points, and of predicting at 10 to 10,000 times."""
    import jax
    import jax.random as jr
    import numpy as np

    model, observe = make_untrained_model(setting)
    rows, key = [], jr.key(0)
    common = {"task": "sines", "model": "ndp", "batch": 1, "draws": 64}
    for count in GIVEN[: 2 if setting.quick else None]:
        t, y = (x[0] for x in observe(1, count))
        seconds = time_median(
            lambda t=t, y=y: jax.block_until_ready(model.condition(t, y, key=key).belief), setting.choose_count(50, 2)
        )
        rows.append({"benchmark": "context", **common, "points": count, "seconds": seconds})
    posterior = model.condition([0.0], [0.0], key=key)
    for count in ASKED[: 2 if setting.quick else None]:
        # Two sets of times in turn, since a posterior caches its last prediction.
        sets = [np.linspace(-3, end, count) for end in (2.9, 3.0)]
        seconds = time_median(lambda sets=sets: [posterior.mean(times) for times in sets], setting.choose_count(20, 2)) / 2
        rows.append({"benchmark": "targets", **common, "points": count, "seconds": seconds, "peak_gib": measure_peak_gib()})
    return rows


def measure_device_gib() -> float | None:
    """The largest memory in use on a GPU so far, in GiB; `None` on CPUs."""
    import jax

    stats = jax.devices()[0].memory_stats()
    return None if not stats else stats["peak_bytes_in_use"] / 2**30
