"""Models trained by the paper's protocol: accuracy of the solver and of the predictions."""

import jax
import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from cases import untrained

pytestmark = pytest.mark.slow
SINES = odp.experiments.protocol("sines")
TEST = jax.device_get(SINES.series(20, key=jr.key(5)))
CONTEXT = np.random.default_rng(0).permutation(100)[:10]


@pytest.fixture(scope="module")
def trained():
    """The variant whose solver errs most."""
    return SINES.fit("nd2p-l", SINES.series(SINES.train, key=jr.key(0))).model


def posterior(model):
    return model.condition(TEST.t[:, CONTEXT], TEST.y[:, CONTEXT], key=jr.key(1), draws=16)


def test_default_steps_are_within_one_percent_of_the_predictive_spread(trained):
    assert odp.solver_error(posterior(trained), np.linspace(-np.pi, np.pi, 97)).relative < 1e-2


def test_one_in_ten_thousand_is_reached_by_option(trained):
    finer = trained.with_solver(odp.Grid(steps=40))
    assert odp.solver_error(posterior(finer), np.linspace(-np.pi, np.pi, 97)).relative < 1e-4
    adaptive = trained.with_solver(odp.Adaptive(rtol=1e-6, atol=1e-6))
    assert odp.solver_error(posterior(adaptive), np.linspace(-np.pi, np.pi, 97)).relative < 1e-4


def test_ten_observations_beat_the_mean_by_far(trained):
    tasks = SINES.test_tasks(SINES.series(200, key=jr.key(6)), key=jr.key(7))
    error = float(odp.score_all(trained.process, tasks, draws=1, key=jr.key(8)).mse_one.mean())
    assert error < 0.04, "the training mean scores 0.166; the paper 0.021"


def test_solver_error_needs_a_solver():
    model = untrained(odp.variant("np"), odp.data.lines.sample(4, key=jr.key(0)))
    with pytest.raises(ValueError, match="no dynamics"):
        odp.solver_error(model.condition([1.0], [0.0], key=jr.key(0)), [1.0])
