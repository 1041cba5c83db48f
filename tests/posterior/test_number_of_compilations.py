"""One compilation for each bucket of shapes, whatever the sizes inside it."""

import dataclasses

import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from odeprocess.data.series import bucket
from odeprocess.inference import batched
from odeprocess.training import epoch, expectation_maximisation

KEY = jr.key(0)


@pytest.fixture
def fresh_model(sines_model):
    """A model that no other test has compiled anything for."""
    return sines_model.with_solver(odp.Grid(steps=7, order=2))


def compilations(function, calls):
    before = function._cache_size()
    for call in calls:
        call()
    return function._cache_size() - before


def test_conditioning_compiles_once_for_each_bucket_of_context_sizes(fresh_model):
    def condition(n):
        return lambda: fresh_model.condition(np.linspace(-1, 1, n), np.zeros(n), key=KEY)

    assert compilations(batched.observe, [condition(n) for n in range(17)]) == 1
    assert compilations(batched.observe, [condition(n) for n in range(17, 33)]) == 1
    assert compilations(batched.observe, [condition(n) for n in range(33)]) == 0


def test_updates_do_not_compile_again(fresh_model):
    posterior = fresh_model.condition([0.0], [0.0], key=KEY).update(0.1, 0.2)

    def update():
        nonlocal posterior
        posterior = posterior.update(0.3, 0.4)

    assert compilations(batched.observe, [update] * 20) == 0


@pytest.mark.filterwarnings("ignore::odeprocess.ExtrapolationWarning")
def test_queries_compile_once_for_each_bucket_of_times(fresh_model):
    posterior = fresh_model.condition([0.0], [0.0], key=KEY)

    def ask(n, end=3.0):
        return lambda: posterior.mean(np.linspace(-3, end, n))

    assert compilations(batched.decode, [ask(n) for n in range(1, 9)]) == 1
    assert compilations(batched.decode, [ask(n) for n in range(193, 225)]) == 1
    assert compilations(batched.decode, [ask(8, end) for end in (4.0, 5.0, 6.0, 9.0)]) == 1, "beyond the horizon: one more"
    assert compilations(batched.decode, [ask(8, end) for end in (-2.0, 0.0, 2.0)]) == 0


def test_fits_with_the_same_shapes_share_their_compilation():
    series = odp.data.sines.sample(10, key=KEY)
    spec = odp.variant("ndp", r_dim=5, z_dim=5, l_dim=2, h_dim=5, solver=odp.Grid(steps=3, order=2))
    options = odp.FitOptions(epochs=2, batch_size=5)
    calls = [lambda seed=seed: odp.fit(series, spec, options=options, seeds=seed) for seed in range(3)]
    assert compilations(epoch.run_epoch, calls) == 1
    assert compilations(epoch.run_epoch, [lambda: odp.fit(series, spec, options=dataclasses.replace(options, epochs=5))]) == 0


def test_training_longer_compiles_nothing():
    series = odp.data.sines.sample(10, key=KEY)
    small = odp.variant("ndp-linear", r_dim=5, z_dim=2, l_dim=2, h_dim=5)
    parts = (epoch.run_epoch, expectation_maximisation.m_step_epoch, expectation_maximisation.e_step)

    def train(epochs):
        before = [part._cache_size() for part in parts]
        odp.fit(series, small, options={"epochs": epochs, "batch_size": 10}, held_out=0)
        return [part._cache_size() - size for part, size in zip(parts, before, strict=True)]

    assert train(1) == [1, 1, 1]
    assert train(3) == [0, 0, 0]


def test_buckets_are_monotone_and_waste_little():
    sizes = [bucket(n) for n in range(1, 5000)]
    assert all(size >= n for n, size in enumerate(sizes, 1)) and sizes == sorted(sizes)
    assert max(size / n for n, size in enumerate(sizes, 1) if n > 64) < 1.25
    assert len(set(sizes)) < 35 and all(bucket(size) == size for size in sizes)
