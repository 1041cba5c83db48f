"""Linear processes taken to convergence: far more accurate without noise, and no worse where there is some."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax.flatten_util import ravel_pytree

import odeprocess as odp
from cases import CASES, model
from odeprocess.inference.least_squares import LeastSquaresProblem
from odeprocess.process.likelihood import GaussianLikelihood
from odeprocess.training.gauss_newton import _trained_parts, can_converge, gauss_newton_fit, project_latents_out, update_latents
from odeprocess.training.train import train

SAMPLER = odp.TaskSampler(context=(0, 12), extra=(18, 18), split="mixed", shared="nothing")
OPTIONS = odp.FitOptions(epochs=60, em_epochs=180, batch_size=40, learning_rate=3e-3, schedule="cosine", clip=100.0)
SHAPE = (40, 30)  # series and points of all these fits: they share their compilations


def curves(noise: float, key: int) -> odp.Series:
    """Growth by e^t from a random level: linear dynamics."""
    level_key, noise_key = jr.split(jr.key(key))
    t = jnp.linspace(0.0, 3.0, SHAPE[1])
    y = jr.uniform(level_key, (SHAPE[0], 1), minval=-1.0, maxval=1.0) * jnp.exp(t)[None] / 20
    y = y + noise * jr.normal(noise_key, y.shape)
    return odp.make_series(np.broadcast_to(np.asarray(t), SHAPE), np.asarray(y))


def log_errors(model: odp.Model, series: odp.Series) -> float:
    """The mean logarithm of the root mean square error of a series at every other point, given those between."""
    t, y = np.asarray(series.t), np.asarray(series.y)
    mean = model.condition(t[:, ::2], y[:, ::2], key=jr.key(0), draws=8).mean(t[:, 1::2])
    return float(0.5 * np.log(np.square(mean - y[:, 1::2]).mean((1, 2))).mean())


@pytest.fixture(scope="module")
def trained() -> dict[float, tuple[odp.Model, odp.Model]]:
    """By noise: a model after a short training, and after Gauss–Newton."""
    found = {}
    for noise in (0.0, 0.1):
        series = curves(noise, 0)
        before = train("ndp-linear", series, sampler=SAMPLER, options=OPTIONS, progress=False).model
        found[noise] = before, gauss_newton_fit(before, series, SAMPLER)
    return found


def test_only_linear_processes_with_a_learned_prior_can_converge():
    sharp = {name: spec.replace(noise_start=-6.0) for name, spec in CASES.items()}
    models = {name: odp.Model(spec.build(key=jr.key(0)), spec, model(name).scaling) for name, spec in sharp.items()}
    assert {name for name, each in models.items() if can_converge(each)} == {"ndp-linear"}
    assert not can_converge(model("ndp-linear")), "with much noise gradient steps are enough"


def test_without_noise_errors_fall_many_times(trained):
    before, after = trained[0.0]
    fresh = curves(0.0, 1)
    errors = [np.exp(log_errors(each, fresh)) for each in (before, after)]
    assert after.info["gauss_newton_gain"] > 1.0, "nats a series"
    assert errors[1] < 0.1 * errors[0], errors


def test_the_encoder_follows(trained):
    fresh = curves(0.0, 1)
    t, y = np.asarray(fresh.t), np.asarray(fresh.y)
    given = {"t": t[:, ::3], "y": y[:, ::3], "key": jr.key(0), "inference": "amortised"}
    off = [np.abs(each.condition(**given).mean(t) - y).mean() for each in trained[0.0]]
    assert off[1] < 2 * off[0] and off[1] < 0.1 * np.abs(y).max(), off


def test_with_noise_its_size_is_found_and_predictions_stay_as_good(trained):
    before, after = trained[0.1]
    fresh = curves(0.1, 1)
    std = [
        float(np.asarray(each.process.likelihood(jnp.zeros((1, 1))).std)[0, 0] * each.scaling.y_scale[0])
        for each in (before, after)
    ]
    assert std[1] == pytest.approx(0.1, rel=0.1), std
    errors = [log_errors(each, fresh) for each in (before, after)]
    assert errors[1] < errors[0] + 0.05


def test_a_model_that_has_converged_stays_as_it_is_and_can_be_saved(trained, tmp_path):
    _, after = trained[0.0]
    series = curves(0.0, 0)
    again = gauss_newton_fit(after, series, SAMPLER)
    assert again is after or again.info["gauss_newton_gain"] < 1.0
    after.save(tmp_path / "model")
    loaded = odp.load(tmp_path / "model")
    np.testing.assert_array_equal(*(each.condition([1.0], [0.1], key=jr.key(0)).mean([2.0]) for each in (after, loaded)))


def test_irregular_series_with_gaps_and_covariates_become_likelier():
    spec = CASES["ndp-linear"].replace(missing=True)
    before = odp.Model(spec.build(key=jr.key(0)), spec, odp.Scaling.identity(2, 1))
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(0, 1, n)) for n in rng.integers(3, 9, 20)]
    levels = rng.normal(size=(20, 2))
    values = [np.exp(t)[:, None] * level for t, level in zip(times, levels, strict=True)]
    for y in values:
        y[rng.random(y.shape) < 0.2] = np.nan
        y[0] = 0.5  # no channel is empty
    series = odp.make_series(times, values, static=levels[:, :1])
    after = gauss_newton_fit(before, series, odp.TaskSampler())
    assert after.info["gauss_newton_gain"] > 0.1
    t, y, own = times[0], values[0], levels[0, :1]
    means = [each.condition(t, y, static=own, key=jr.key(0)).mean(t) for each in (before, after)]
    off = [np.nanmean((mean - y) ** 2) for mean in means]
    assert off[1] < off[0]


def test_the_system_is_that_of_the_best_latents_of_each_weight(trained):
    """Its gradient is that of the least cost over the latents, by differences of which the latents are solved anew."""
    before, _ = trained[0.1]
    series = jax.tree.map(jnp.asarray, before.scaling.apply(curves(0.1, 0)))
    extent = before.process.flow.extent(-2.0, 2.0)
    now = update_latents(before.process, jnp.zeros((SHAPE[0], before.process.z_dim)), series, extent)
    rows = np.asarray(project_latents_out(now.process, now.modes, series, extent), np.float64)
    gradient = np.einsum("nrw,nr->w", rows[..., :-1], rows[..., -1])
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)), now.process)
        data = jax.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64)) if x.dtype != bool else jnp.asarray(x), series)
        weights, unravel = ravel_pytree(_trained_parts(exact))

        def least_cost(weights):
            def one(series):
                moved = eqx.tree_at(_trained_parts, exact, unravel(weights))
                zero = jnp.zeros(exact.z_dim)
                problem = LeastSquaresProblem.of(moved, exact.prior, series, zero, extent)
                value, slopes = problem.residuals(zero, series.y, zero), jax.jacfwd(problem.residuals)(zero, series.y, zero)
                z = -jnp.linalg.lstsq(slopes, value)[0]
                return 0.5 * (problem.residuals(z, series.y, zero) ** 2).sum()

            return jax.lax.map(one, data).sum()

        cost, along = jax.jit(least_cost), jr.normal(jr.key(0), (3, len(weights)))
        expected = [float(cost(weights + 1e-5 * way) - cost(weights - 1e-5 * way)) / 2e-5 for way in along]
    got = np.asarray(along) @ gradient
    np.testing.assert_allclose(got, expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max())


@given(std=st.floats(1e-3, 3.0), factor=st.floats(0.3, 30.0))
@settings(deadline=None, max_examples=30)
def test_the_noise_can_be_multiplied_down_to_its_floor(std, factor):
    likelihood = GaussianLikelihood(1, noise="shared", floor=1e-4, start=float(np.log(std)))
    now, new = (float(each(jnp.zeros((1, 1))).std[0, 0]) for each in (likelihood, likelihood.with_std_times(jnp.array([factor]))))
    assert new == pytest.approx(max(factor * now, 1e-4), rel=2e-3)
