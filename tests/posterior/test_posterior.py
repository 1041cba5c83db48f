"""The posterior that users hold: shapes, units, draws, densities, gradients."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st

import odeprocess as odp
from cases import untrained

KEY, TIMES = jr.key(5), np.linspace(-3, 3, 13)
T, Y = np.array([0.5, -1.0, 2.0]), np.array([0.4, -0.7, 0.9])


@pytest.fixture(scope="module")
def posterior(sines_model):
    return sines_model.condition(T, Y, key=KEY)


def test_shapes_for_one_series_and_for_a_batch(sines_model, posterior):
    assert posterior.mean(TIMES).shape == posterior.std(TIMES).shape == (13, 1)
    assert posterior.sample(TIMES, 7).shape == (7, 13, 1)
    assert posterior.quantile(TIMES, 0.3).shape == (13, 1)
    assert posterior.quantile(TIMES, [0.1, 0.5, 0.9]).shape == (3, 13, 1)
    assert posterior.mean(0.3).shape == (1, 1) and posterior.mean([]).shape == (0, 1)
    batch = sines_model.condition([T, T[:1], []], [Y, Y[:1], []], key=KEY)
    assert batch.mean(TIMES).shape == (3, 13, 1)
    assert batch.sample(np.stack([TIMES, TIMES + 0.1, TIMES]), 4).shape == (3, 4, 13, 1)
    assert batch.quantile(TIMES, [0.1, 0.9]).shape == (2, 3, 13, 1)
    assert batch.log_prob([T, T, T], [Y, Y, Y]).shape == (3,)
    assert isinstance(batch.mean(TIMES), np.ndarray) and batch.mean(TIMES).dtype == np.float64


def test_a_series_of_a_batch_has_the_same_draws_alone(sines_model):
    batch = sines_model.condition([T, T[:2], []], [Y, Y[:2], []], key=KEY)
    for i in range(3):
        np.testing.assert_allclose(batch[i].sample(TIMES, 5), batch.sample(TIMES, 5)[i], atol=1e-5)
    np.testing.assert_array_equal(batch[1].observations[0], T[:2])
    assert batch[-1].observations[1].shape == (0, 1)
    assert len(batch) == 3
    with pytest.raises(IndexError, match="There are 3 series"):
        batch[3]
    with pytest.raises(TypeError, match="number of a series"):
        batch[0:2]  # pyright: ignore


def test_chunks_are_parts_of_the_whole_batch(sines_model):
    rng, times = np.random.default_rng(0), [-1.0, 0.5]
    t = rng.uniform(-3, 3, (7, 4))
    whole = sines_model.condition(t, np.sin(t), key=jr.key(3), draws=4).sample(times)
    parts = [p.sample(times) for p in sines_model.in_chunks(t, np.sin(t), key=jr.key(3), draws=4, size=3)]
    assert [len(part) for part in parts] == [3, 3, 1]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)
    with pytest.raises(ValueError, match="`t` is one series"):
        next(sines_model.in_chunks(t[0], t[0], key=jr.key(3)))


@given(n=st.sampled_from([1, 5, 40]), m=st.sampled_from([1, 5, 40]))
def test_fewer_draws_are_the_first_of_more(posterior, n, m):
    few, many = sorted((n, m))
    one, other = (posterior.sample(TIMES, k, of="function") for k in (few, many))
    np.testing.assert_allclose(one, other[:few], atol=1e-5)


def test_the_same_key_gives_the_same_draws_and_another_gives_others(sines_model, posterior):
    again, other = (sines_model.condition(T, Y, key=k).sample(TIMES, 4) for k in (KEY, jr.key(6)))
    np.testing.assert_array_equal(posterior.sample(TIMES, 4), again)
    assert np.abs(other - again).max() > 1e-3


def test_functions_are_consistent_at_any_times(posterior):
    functions = posterior.functions(6)
    assert len(functions) == 6
    dense = functions(np.linspace(-3, 3, 25))
    np.testing.assert_allclose(functions(TIMES), dense[:, ::2], atol=1e-5)
    np.testing.assert_allclose(functions[2](TIMES)[0], functions(TIMES)[2], atol=1e-5)
    np.testing.assert_allclose(functions(TIMES[::-1]), functions(TIMES)[:, ::-1], atol=1e-5)
    np.testing.assert_allclose(functions(TIMES), posterior.sample(TIMES, 6, of="function"), atol=1e-6)
    assert [f(0.0).shape for f in functions] == [(1, 1, 1)] * 6 and functions[1:4](0.0).shape == (3, 1, 1)
    assert repr(functions) == "Functions(6 draws of one series)"


def test_moments_and_quantiles_agree_with_many_samples(sines_model):
    posterior = sines_model.condition(T, Y, key=KEY, draws=4000)
    samples = posterior.sample(TIMES)
    np.testing.assert_allclose(samples.mean(0), posterior.mean(TIMES), atol=0.02)
    np.testing.assert_allclose(samples.std(0), posterior.std(TIMES), atol=0.02)
    for q in (0.05, 0.5, 0.95):
        # Five standard errors of a sample quantile, whose density is about 0.1 over the spread out there.
        allowed = 5 * (q * (1 - q) / 4000) ** 0.5 / 0.1 * posterior.std(TIMES).max()
        np.testing.assert_allclose(np.quantile(samples, q, axis=0), posterior.quantile(TIMES, q), atol=allowed)
    functions = posterior.sample(TIMES, of="function")
    np.testing.assert_allclose(np.quantile(functions, 0.2, axis=0), posterior.quantile(TIMES, 0.2, of="function"), atol=1e-4)
    assert (posterior.std(TIMES) > posterior.std(TIMES, of="function")).all()


@given(level=st.floats(0.01, 0.99), smaller=st.floats(0.1, 0.9))
def test_intervals_are_nested_and_ordered(posterior, level, smaller):
    low, high = posterior.interval(TIMES, level)
    inner_low, inner_high = posterior.interval(TIMES, level * smaller)
    assert (low <= inner_low).all() and (inner_low <= inner_high).all() and (inner_high <= high).all()


def test_log_prob_of_one_point_is_the_mixture_density(posterior):
    draws = 64
    means = posterior.sample([0.3], draws, of="function")[:, 0, 0]
    y = np.linspace(-3, 3, 2001)
    each = np.array([posterior.log_prob([0.3], [v], joint=False)[0, 0] for v in y[::500]])
    density = np.exp(posterior.log_prob(np.full(2001, 0.3), y, joint=False)[:, 0])
    assert abs(np.trapezoid(density, y) - 1.0) < 1e-3
    np.testing.assert_allclose(np.log(density[::500]), each, atol=1e-4)
    assert abs((density * y).sum() * (y[1] - y[0]) - means.mean()) < 5e-3


def test_log_prob_is_in_the_users_units(sines_model):
    scaling, factor = sines_model.scaling, 1000.0
    bigger = odp.Scaling(
        scaling.t_shift,
        scaling.t_scale,
        scaling.y_shift * factor,
        scaling.y_scale * factor,
        scaling.static_shift,
        scaling.static_scale,
    )
    other = odp.Model(sines_model.process, sines_model.spec, bigger)
    one = sines_model.condition(T, Y, key=KEY).log_prob([0.3, 1.0], [0.1, 0.5])
    two = other.condition(T, Y * factor, key=KEY).log_prob([0.3, 1.0], [0.1 * factor, 0.5 * factor])
    np.testing.assert_allclose(two, one - 2 * np.log(factor), atol=1e-3)


def test_missing_values_do_not_count(two_channel_model):
    static, nan = np.zeros(2), np.nan
    posterior = two_channel_model.condition([0.1, 0.4], [[1.0, nan], [nan, 0.5]], key=KEY, static=static)
    together = posterior.log_prob([0.5, 0.6], [[1.0, nan], [nan, nan]])
    np.testing.assert_allclose(together, posterior.log_prob([0.5], [[1.0, nan]]), atol=1e-5)
    each = posterior.log_prob([0.5, 0.6], [[1.0, nan], [nan, nan]], joint=False)
    assert np.isnan(each).tolist() == [[False, True], [True, True]]
    nothing = two_channel_model.condition([0.1, 0.2], [[nan, nan]] * 2, key=KEY, static=static)
    empty = two_channel_model.condition([], [], key=KEY, static=static)
    np.testing.assert_allclose(nothing.mean(TIMES / 3 + 1), empty.mean(TIMES / 3 + 1), atol=1e-6)


def test_update_shares_its_draws_and_keeps_the_old_posterior(sines_model):
    before = sines_model.condition(T[:1], Y[:1], key=KEY)
    kept = before.sample(TIMES, 3)
    after = before.update(T[1], Y[1]).update(T[2:], Y[2:])
    np.testing.assert_array_equal(before.sample(TIMES, 3), kept)
    np.testing.assert_allclose(after.mean(TIMES), sines_model.condition(T, Y, key=KEY).mean(TIMES), atol=1e-4)
    np.testing.assert_array_equal(after.observations[0], T)
    assert repr(after) == "Posterior(one series, 3 observations, 64 draws, amortised inference)"


def test_more_observations_sharpen_a_trained_model(sines_model):
    t = np.array([-3.0, 0.5, 2.0, -1.2, 1.3, -0.3, 2.8, -2.1, 0.1, 1.8])
    posteriors = [sines_model.condition(t[:n], 0.8 * np.sin(t[:n]), key=KEY) for n in (1, 10)]
    truth = 0.8 * np.sin(TIMES)
    errors = [np.abs(p.mean(TIMES)[:, 0] - truth).mean() for p in posteriors]
    assert errors[1] < 0.5 * errors[0]
    assert posteriors[1].log_prob(TIMES, truth) > posteriors[0].log_prob(TIMES, truth) + 3.0


def test_hundreds_of_observations_and_times_before_the_start(sines_model):
    t = np.linspace(-3, 3, 700)
    posterior = sines_model.condition(t, np.sin(t), key=KEY)
    with pytest.warns(odp.ExtrapolationWarning, match="from -8 to 12"):
        assert np.isfinite(posterior.mean(np.linspace(-8, 12, 50))).all()


@pytest.fixture
def double_model(sines_model):
    """In float64, so that steps of finite differences can be too short to cross the kink of a ReLU."""
    with jax.enable_x64(True):
        process = jax.tree.map(lambda x: x.astype(jnp.float64), sines_model.process)
        yield dataclasses.replace(sines_model, process=process)


def test_posteriors_are_differentiable(double_model):
    def answer(y):
        return double_model.condition(T, y, key=KEY).mean(TIMES, 8).sum()

    gradient = jax.grad(answer)(jnp.asarray(Y))
    step = 1e-6
    numeric = [(answer(Y + step * e) - answer(Y - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)
    slope = jax.grad(lambda t: double_model.condition(T, Y, key=KEY).mean(t, 8)[0, 0])(jnp.asarray([0.5]))
    ends = double_model.condition(T, Y, key=KEY).mean([0.5 - step, 0.5 + step], 8)[:, 0]
    np.testing.assert_allclose(slope[0], (ends[1] - ends[0]) / (2 * step), rtol=1e-5, atol=1e-6)


def test_traced_values_leave_large_times_exact():
    rng = np.random.default_rng(0)
    stamps = 1.7e9 + np.sort(rng.uniform(0, 1000, (8, 12)), -1)
    series = odp.make_series(stamps, np.sin(stamps / 200))
    spec = odp.variant("ndp", r_dim=16, z_dim=12, l_dim=4, h_dim=16, noise_floor=0.02)
    model = untrained(spec, series)
    t, y = stamps[0, :3], np.array([0.1, 0.2, 0.3])

    def answer(y):
        return model.condition(t, y, key=KEY).mean(stamps[0], 8)

    np.testing.assert_allclose(jax.jit(answer)(jnp.asarray(y, jnp.float32)), answer(y), atol=1e-3)
    assert model.condition(key=KEY).log_prob([], []) == 0.0
    assert model.condition([t, []], [y, []], key=KEY).log_prob([t, []], [y, []])[1] == 0.0


def test_gradients_of_every_summary_are_numeric_ones(double_model):
    step, y = 1e-5, np.array(Y)
    for name in ("std", "interval", "log_prob"):

        def answer(y, name=name):
            posterior = double_model.condition(T, y, key=KEY, draws=16)
            if name == "log_prob":
                return posterior.log_prob([0.3, 1.0], [0.1, 0.5])
            found = posterior.std([0.3]) if name == "std" else posterior.interval([0.3], 0.8)[1]
            return found[0, 0]

        gradient = jax.grad(answer)(jnp.asarray(y))
        numeric = [(answer(y + step * e) - answer(y - step * e)) / (2 * step) for e in np.eye(3)]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-5, err_msg=name)


def test_targets_may_lack_channels_whatever_the_encoder_takes():
    series = odp.data.lotka_volterra.sample(4, key=KEY)
    posterior = untrained(odp.variant("np"), series).condition([0.1], [[1.0, 0.5]], key=KEY)
    assert np.isfinite(posterior.log_prob([0.5], [[np.nan, 0.3]]))
    with pytest.raises(ValueError, match="lacks a channel"):
        posterior.log_prob([0.5], [[np.nan, 0.3]], method="importance")


def test_traced_times_outside_the_horizon_are_an_error_not_a_number(sines_model):
    with pytest.raises(Exception, match="did not reach every time"):
        jax.block_until_ready(jax.jit(lambda t: sines_model.condition(T, Y, key=KEY).mean(t))(jnp.asarray([40.0])))


def test_a_failed_solver_is_reported_by_series(sines_model):
    hurried = sines_model.with_solver(odp.Adaptive(max_steps=2, rtol=1e-7, atol=1e-7))
    batch = hurried.condition([T, T], [Y, Y], key=KEY)
    with pytest.warns(odp.SolverWarning, match=r"2 of 2 series: 0 \(\d+% of its results\), 1"):
        mean = batch.mean(TIMES)
    assert np.isnan(mean).any()
    with pytest.warns(odp.SolverWarning) as caught:
        batch.std(TIMES)
    assert caught[0].filename == __file__, "the warning points at the line that asked"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(sines_model.with_solver(odp.Adaptive()).condition(T, Y, key=KEY).mean(TIMES)).all()


@pytest.mark.slow
def test_float64_when_jax_is_asked_for_it(sines_model, tmp_path):
    sines_model.save(tmp_path / "model")
    with jax.enable_x64(True):
        model = odp.load(tmp_path / "model")
        posterior = model.condition(T, Y, key=KEY)
        assert posterior.belief.loc.dtype == jnp.float64
        fine = model.with_solver(odp.Adaptive(rtol=1e-10, atol=1e-10)).condition(T, Y, key=KEY).functions(4)(TIMES)
        np.testing.assert_allclose(
            model.with_solver(odp.Grid(steps=160)).condition(T, Y, key=KEY).functions(4)(TIMES), fine, atol=1e-8
        )
        trained = odp.fit(odp.data.lines.sample(8, key=KEY), "np", options=odp.FitOptions(epochs=2, batch_size=8)).model
        assert all(x.dtype == jnp.float64 for x in jax.tree.leaves(trained.process))
    np.testing.assert_allclose(posterior.belief.loc, sines_model.condition(T, Y, key=KEY).belief.loc, atol=1e-5)


def test_mixture_quantiles_are_exact():
    mixture = odp.process.GaussianLikelihood(1, noise="fixed", std=0.7)(jnp.array([[-1.0], [0.5], [2.0]]))
    found = float(mixture.mixture_quantile(jnp.asarray(0.83))[0])
    assert abs(scipy.stats.norm.cdf(found, [-1.0, 0.5, 2.0], 0.7).mean() - 0.83) < 1e-5
