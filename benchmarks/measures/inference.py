"""Conditioning and predicting: the latency of one series, the throughput of many, and a million in bounded memory."""

from .common import Setting, median_of, peak_gib, pin, sines, timed

TIMES, DRAWS, CONTEXT = 100, 16, 10
CHUNK, MILLION = 1024, 1_000_000


def fresh(setting: Setting):
    """An NDP for sines as it is before training (as fast as after it), and a function that observes so many series."""
    import jax.random as jr
    import numpy as np

    import odeprocess as odp

    protocol, series = sines(setting)
    spec = protocol.spec("ndp").resolve(series)
    model, rng = odp.Model(spec.build(key=jr.key(0)), spec, odp.Scaling.identity(1)), np.random.default_rng(0)

    def observed(count: int, points: int = CONTEXT):
        t = np.sort(rng.uniform(-3, 3, (count, points)), 1)
        return t, np.sin(t)

    return model, observed


def latency(setting: Setting) -> list[dict]:
    """From NumPy in to NumPy out; on CPUs on one core."""
    import jax
    import jax.random as jr
    import numpy as np

    if not setting.gpu:
        pin(1)
    (model, observed), key, times = fresh(setting), jr.key(1), np.linspace(-3, 3, 200)
    t, y = (x[0] for x in observed(1))
    posterior = model.condition(t, y, key=key, draws=64)

    def whole():
        found = model.condition(t, y, key=key, draws=64)
        return found.mean(times), found.interval(times, 0.9)

    calls = {
        "condition + mean + 90% interval, 200 times, 64 draws": whole,
        "condition": lambda: jax.block_until_ready(model.condition(t, y, key=key).belief),
        "update, one point": lambda: jax.block_until_ready(posterior.update(0.3, 0.2).belief),
    }
    rows, repeats = [], setting.few(100, 2)
    for what, call in calls.items():
        compiled = timed(call)
        seconds = median_of(call, repeats)
        row = {"benchmark": "latency", "task": "sines", "model": "ndp", "batch": 1, "what": what, "seconds": seconds}
        rows.append({**row, "compile_seconds": compiled - seconds})
    return rows


def stream(setting: Setting) -> list[dict]:
    """Predictions for 10² to a million series, chunk by chunk; on two cores the million takes a quarter of an hour."""
    import jax.random as jr
    import numpy as np

    (model, observed), times = fresh(setting), np.linspace(-3, 3, TIMES)

    def sweep(t, y) -> None:
        for posterior in model.in_chunks(t, y, key=jr.key(1), draws=DRAWS, size=CHUNK):
            assert np.isfinite(posterior.mean(times)).all()

    counts = [100, 200] if setting.quick else [100, 1_000, 10_000, 100_000, MILLION]
    rows = []
    common = {"benchmark": "stream", "task": "sines", "model": "ndp", "times": TIMES, "draws": DRAWS}
    for count in counts:
        t, y = observed(count)
        for size in {min(count, CHUNK), count % CHUNK or CHUNK}:
            sweep(t[:size], y[:size])  # compiles for the sizes of its chunks
        seconds = timed(lambda t=t, y=y: sweep(t, y))
        rows.append({**common, "series": count, "seconds": seconds, "series_a_second": count / seconds, "peak_gib": peak_gib()})
    return rows
