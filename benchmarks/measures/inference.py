"""Conditioning and predicting: the latency of one series, and the throughput and memory of up to a million."""

from .timing import Setting, make_sines, measure_peak_gib, pin_to_cores, time_call, time_median

TIMES, DRAWS, CONTEXT = 100, 16, 10
CHUNK, MILLION = 1024, 1_000_000


def make_untrained_model(setting: Setting):
    """An untrained NDP for sines, which is as fast as a trained one, and a function that makes observations of series."""
    import jax.random as jr
    import numpy as np

    import odeprocess as odp

    protocol, series = make_sines(setting)
    spec = protocol.spec("ndp").resolve(series)
    model, rng = odp.Model(spec.build(key=jr.key(0)), spec, odp.Scaling.identity(1)), np.random.default_rng(0)

    def observe(count: int, points: int = CONTEXT):
        t = np.sort(rng.uniform(-3, 3, (count, points)), 1)
        return t, np.sin(t)

    return model, observe


def measure_latency(setting: Setting) -> list[dict]:
    """Seconds of calls about one series, from NumPy to NumPy; on CPUs on one core."""
    import jax
    import jax.random as jr
    import numpy as np

    if not setting.gpu:
        pin_to_cores(1)
    (model, observe), key, times = make_untrained_model(setting), jr.key(1), np.linspace(-3, 3, 200)
    t, y = (x[0] for x in observe(1))
    posterior = model.condition(t, y, key=key, draws=64)

    def whole():
        found = model.condition(t, y, key=key, draws=64)
        return found.mean(times), found.interval(times, 0.9)

    calls = {
        "condition + mean + 90% interval, 200 times, 64 draws": whole,
        "condition": lambda: jax.block_until_ready(model.condition(t, y, key=key).belief),
        "update, one point": lambda: jax.block_until_ready(posterior.update(0.3, 0.2).belief),
    }
    rows, repeats = [], setting.choose_count(100, 2)
    for what, call in calls.items():
        compiled = time_call(call)
        seconds = time_median(call, repeats)
        row = {"benchmark": "latency", "task": "sines", "model": "ndp", "batch": 1, "what": what, "seconds": seconds}
        rows.append({**row, "compile_seconds": compiled - seconds})
    return rows


def measure_chunks(setting: Setting) -> list[dict]:
    """Seconds and memory of predictions for 10² to 10⁶ series in chunks; the last takes a quarter of an hour on two cores."""
    import jax.random as jr
    import numpy as np

    (model, observe), times = make_untrained_model(setting), np.linspace(-3, 3, TIMES)

    def sweep(t, y) -> None:
        for posterior in model.in_chunks(t, y, key=jr.key(1), draws=DRAWS, size=CHUNK):
            assert np.isfinite(posterior.mean(times)).all()

    counts = [100, 200] if setting.quick else [100, 1_000, 10_000, 100_000, MILLION]
    rows = []
    common = {"benchmark": "stream", "task": "sines", "model": "ndp", "times": TIMES, "draws": DRAWS}
    for count in counts:
        t, y = observe(count)
        for size in {min(count, CHUNK), count % CHUNK or CHUNK}:
            sweep(t[:size], y[:size])  # compiles for the sizes of its chunks
        seconds = time_call(lambda t=t, y=y: sweep(t, y))
        rows.append(
            {**common, "series": count, "seconds": seconds, "series_a_second": count / seconds, "peak_gib": measure_peak_gib()}
        )
    return rows
