"""Compiled programs: few serve tables of many sizes, and a process that would hold too many of them drops some."""

import re
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
import pytest

import odeprocess as odp
from odeprocess.common import compilation
from odeprocess.common.compilation import compiled, memory_maps
from odeprocess.data.series import filled_up
from odeprocess.inference import batched
from odeprocess.process.solvers import Extent
from odeprocess.training.epoch import Plan, shuffle
from odeprocess.training.expectation_maximisation import fit_prior
from odeprocess.training.mixture_prior import fit_mixture_prior as fit_mixture
from odeprocess.training.plan import padded_size
from table_cases import SIZES

SOURCE = Path(odp.__file__).parent
BARE = {"common/compilation.py", "process/kernels/fused.py"}  # the latter's programs are parts of ours

needs_maps = pytest.mark.skipif(not memory_maps(), reason="needs a system that tells of memory maps")


def test_every_compiled_function_is_known():
    bare = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*.py") if re.search(r"jax\.jit\s*[(,@\n]", p.read_text())}
    assert bare == BARE


@pytest.fixture
def programs():
    """Names of the library's programs that are compiled meanwhile."""
    names = []

    def note(event, duration_secs, **about):
        if event == compilation.COMPILED and about["fun_name"].strip("jit()") in known:
            names.append(about["fun_name"])

    known = {function.__name__ for function in compilation._functions}
    jax.monitoring.register_event_duration_secs_listener(note)
    yield names
    jax.monitoring.unregister_event_duration_listener(note)


@pytest.mark.slow
def test_tables_of_other_sizes_share_all_programs(programs):
    def train(count, length, seed):
        rng = np.random.default_rng(seed)
        t, y = rng.uniform(0, 10, (count, length)), rng.normal(size=(count, length))
        frame = pd.DataFrame({"id": np.repeat(np.arange(count), length), "t": t.ravel(), "y": y.ravel()})
        odp.Forecaster(model="ndp-skip", sizes=SIZES, options={"epochs": 1, "em_epochs": 1}, held_out=3, draws=8).fit(
            frame, "id", "t", "y"
        )

    train(20, 7, 0)
    assert "jit(run_epoch)" in programs and "jit(exact_draws)" in programs
    programs.clear()
    train(25, 8, 1)
    assert programs == []


def test_series_that_pad_are_never_trained_on():
    series = jax.tree.map(jnp.asarray, filled_up(odp.data.sines.sample(21, key=jr.key(0)), 32, 128))
    plan = Plan(odp.FitOptions(bucketed=True), odp.TaskSampler(), 4, 8, Extent(), Extent())
    for seed in range(5):
        order = np.asarray(shuffle(plan, jr.key(seed), series)).ravel()
        assert set(order) == set(range(21)) and np.bincount(order).max() == 2


def test_series_that_pad_do_not_change_the_prior():
    rng = np.random.default_rng(0)
    modes, roots = rng.normal(size=(30, 3)), np.broadcast_to(2.0 * np.eye(3), (30, 3, 3))
    static, real = rng.normal(size=(30, 2)), (np.arange(30) < 20).astype(float)
    some = [jnp.asarray(x[:20], jnp.float32) for x in (modes, roots, static)]
    all_ = [jnp.asarray(x, jnp.float32) for x in (modes, roots, static, real)]
    expected, found = fit_prior(*some), fit_prior(*all_)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    mixture = fit_mixture(found, *all_[:3], 2, all_[3])
    assert np.isfinite(np.concatenate([np.ravel(x) for x in jax.tree.leaves(mixture)])).all()
    members = np.asarray(mixture.members[0])  # of the part that is all series'
    own = np.asarray(jax.vmap(found.whiten)(all_[0], all_[2]))
    nearest = np.abs(members[:, None] - own[None]).sum(-1).argmin(1)
    assert (nearest < 20).all()


def test_training_without_padding_is_the_same_with_buckets_and_without():
    count, length = padded_size(24, 16)
    assert (count, length) == (24, 16)
    t = np.sort(np.random.default_rng(0).uniform(0, 5, (24, 16)), 1)
    series = odp.make_series(t, np.sin(t))
    spec = odp.variant("ndp-linear", r_dim=5, z_dim=2, l_dim=2, h_dim=5, solver=odp.Grid(steps=3, order=2))
    options = {"epochs": 2, "em_epochs": 2, "batch_size": 8}
    plain, bucketed = (odp.fit(series, spec, options=odp.FitOptions(**options, bucketed=b)).model for b in (False, True))
    for a, b in zip(jax.tree.leaves(plain.process), jax.tree.leaves(bucketed.process), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@needs_maps
def test_a_process_with_too_many_programs_drops_them_and_gives_the_same_answers(monkeypatch, sines_model):
    def answers(steps):
        model = sines_model.with_solver(odp.Grid(steps=steps, order=2))
        return model.condition([0.0, 1.0], [0.0, 0.5], key=jr.key(0)).mean([0.5, 2.0])

    expected = answers(3)
    monkeypatch.setattr(compilation, "MOST_MAPS", 1)
    monkeypatch.setattr(compilation, "CHECK_EVERY", 1)
    answers(4)
    assert batched.decode._cache_size() <= 1
    assert np.array_equal(answers(3), expected)


@needs_maps
def test_programs_may_be_dropped_while_threads_use_them():
    @compiled
    def work(x):
        return (jnp.sin(x) @ x.T).sum()

    expected = {n: float(work(jnp.ones((n, 3)))) for n in range(1, 5)}
    wrong, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            wrong.extend(n for n, value in expected.items() if float(work(jnp.ones((n, 3)))) != value)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        compilation.drop_programs()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
