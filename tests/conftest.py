"""Strict numerics, one compilation cache for all runs, and models that tests share."""

import os
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("ODEPROCESS_DATA", ROOT.parent / "shared" / "data"))
if DATA.is_dir():
    os.environ["ODEPROCESS_DATA"] = str(DATA.resolve())
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# Compiling takes most of the time here, not running: XLA's older emitters take a third of the time that its newer ones do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1")

import hypothesis  # noqa: E402
import jax  # noqa: E402
import jax.random as jr  # noqa: E402
import pytest  # noqa: E402

import odeprocess as odp  # noqa: E402
from cases import SOLVER, untrained  # noqa: E402
from fuzzing import outcomes  # noqa: E402
from odeprocess.common import compilation  # noqa: E402

# Silent broadcasting and silent casts are errors here.
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Some tests count compilations: nothing is dropped while one runs.
compilation.MOST_MAPS = compilation.MOST_MAPS_BEFORE_TRAINING = 50_000

# What is slow here is compilation, or another program: `make fuzz`, which warms up, judges times.
outcomes.LIMIT = 60.0

# The same examples each time: who searches at random runs `make fuzz`.
hypothesis.settings.register_profile("odeprocess", deadline=None, max_examples=8, derandomize=True, database=None)
hypothesis.settings.load_profile("odeprocess")


collect_ignore = ["golden.py"]  # a script of its own: it switches JAX to float64 when it is imported

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"needs the public data sets in {DATA}; ODEPROCESS_DATA names a folder")


@pytest.fixture(autouse=True)
def forget_what_was_compiled():
    """Tests compile functions of their own, too; they and the library's are dropped between tests, and not before they are many.

    Files share what they compile. Whatever compiles much takes a while.
    """
    began = time.monotonic()
    yield
    if time.monotonic() - began > 0.5 and compilation.memory_maps() > 20_000:
        jax.clear_caches()
        compilation.return_memory()


@pytest.fixture(scope="session")
def sines_model() -> odp.Model:
    """An NDP that has learned sines by and large, in scaled units."""
    series = odp.data.sines.sample(256, key=jr.key(0))
    spec = odp.variant("ndp", noise_floor=0.02, solver=odp.Grid(order=2))
    return odp.fit(series, spec, options=odp.FitOptions(epochs=60, batch_size=16)).model


@pytest.fixture(scope="session")
def two_channel_model() -> odp.Model:
    """A model of two channels and two static covariates that takes points which lack a channel."""
    series = odp.data.lotka_volterra.sample(24, key=jr.key(0))
    mask = series.mask.copy()
    mask[:, ::3, 0] = False
    static = jax.device_get(jr.normal(jr.key(1), (24, 2)))
    partial = odp.Series(series.t, series.y, mask, static)
    spec = odp.variant("nd2p", r_dim=12, z_dim=10, l_dim=4, h_dim=12, solver=SOLVER)
    return untrained(spec, partial)
