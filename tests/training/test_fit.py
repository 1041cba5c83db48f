"""Training: it learns, it is repeatable, seeds at once are seeds alone, and nothing that is not finite gets in."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import odeprocess as odp
from cases import SOLVER
from odeprocess.process import Extent
from odeprocess.training import epoch
from odeprocess.training.options import cosine

SPEC = odp.variant("ndp", r_dim=8, z_dim=6, l_dim=2, h_dim=8, solver=SOLVER)
PLAIN = odp.variant("np", r_dim=8, z_dim=6, l_dim=6, h_dim=8)  # compiles soonest, where the process does not matter
SINES = odp.data.sines.sample(32, key=jr.key(0))
OPTIONS = odp.FitOptions(epochs=4, batch_size=8, validation_draws=4)


def leaves(model):
    return [np.asarray(x) for x in jax.tree.leaves(model.process)]


def test_fit_learns_and_returns_its_history():
    fitted = odp.fit(SINES, SPEC, options=dataclasses.replace(OPTIONS, epochs=40, learning_rate=5e-3))
    assert fitted.history.loss.shape == (40, 1) and fitted.history.seconds.shape == (40,)
    assert fitted.history.loss[-5:].mean() < fitted.history.loss[:3].mean() - 1.0
    assert np.isnan(fitted.history.nll).all() and fitted.skipped.tolist() == [0]
    assert fitted.train_seconds > 0 and fitted.model.info["epochs"] == 40


def test_the_same_seed_gives_the_same_bits_and_another_gives_others():
    one, again, other = (odp.fit(SINES, SPEC, options=OPTIONS, seeds=seed).model for seed in (3, 3, 4))
    assert all((a == b).all() for a, b in zip(leaves(one), leaves(again), strict=True))
    assert any((a != b).any() for a, b in zip(leaves(one), leaves(other), strict=True))


def test_seeds_at_once_are_seeds_alone():
    together = odp.fit(SINES, SPEC, options=OPTIONS, seeds=[3, 4])
    for seed, model in zip((3, 4), together.models, strict=True):
        assert model is not None and model.info["seed"] == seed
        alone = odp.fit(SINES, SPEC, options=OPTIONS, seeds=seed).model
        for a, b in zip(leaves(model), leaves(alone), strict=True):
            np.testing.assert_allclose(a, b, atol=2e-3)
    assert together.best in (0, 1)


def test_the_best_epoch_is_kept_and_training_stops_when_it_stays_so():
    # A rate this high soon makes things worse, so the best epoch is not the last.
    options = dataclasses.replace(OPTIONS, epochs=60, learning_rate=0.05, patience=5)
    fitted = odp.fit(SINES, SPEC, validation=SINES, options=options, seeds=[0, 1])
    nll = fitted.history.nll
    assert len(nll) < 60
    for i, model in enumerate(fitted.models):
        assert model is not None and model.info["epoch"] == int(np.nanargmin(nll[:, i])) + 1
    assert fitted.best == int(np.argmin(np.nanmin(nll, 0)))


@pytest.mark.slow
def test_a_stopped_seed_is_frozen_while_others_go_on():
    options = dataclasses.replace(OPTIONS, epochs=60, learning_rate=0.05, patience=5)
    both = odp.fit(SINES, SPEC, validation=SINES, options=options, seeds=[0, 1])
    lengths = [np.isfinite(both.history.loss[:, i]).sum() for i in range(2)]
    assert len(set(lengths)) == 2, "one seed must outlive the other for this to say anything"
    early = int(np.argmin(lengths))
    # Its scores no longer change: the weights stand still, and every epoch is scored with the same draws.
    assert len(set(both.history.nll[lengths[early] - 1 :, early].tolist())) == 1
    assert len(set(both.history.nll[:, 1 - early].tolist())) > lengths[early]


def test_evaluation_happens_only_when_due():
    fitted = odp.fit(SINES, PLAIN, validation=SINES, options=dataclasses.replace(OPTIONS, evaluate_every=2))
    assert np.isnan(fitted.history.nll[:, 0]).tolist() == [True, False, True, False]
    assert (fitted.history.mse[[1, 3]] <= fitted.history.mse_one[[1, 3]] + 0.1).all()
    with pytest.raises(ValueError, match="nothing would be evaluated"):
        odp.fit(SINES, PLAIN, validation=SINES, options=dataclasses.replace(OPTIONS, evaluate_every=5))
    with pytest.raises(ValueError, match="`patience` needs `validation`"):
        odp.fit(SINES, PLAIN, options=dataclasses.replace(OPTIONS, patience=5))


def test_patience_waits_for_an_evaluation():
    options = dataclasses.replace(OPTIONS, epochs=6, patience=1, evaluate_every=3)
    assert len(odp.fit(SINES, PLAIN, validation=SINES, options=options).history.loss) >= 3


def poisoned():
    """One series in 32 whose values overflow when squared."""
    y = np.array(SINES.y)
    y[5] = 1e30
    return odp.Series(SINES.t, y, SINES.mask, SINES.static)


def test_steps_that_are_not_finite_are_skipped_and_counted():
    fitted = odp.fit(poisoned(), PLAIN, options=OPTIONS, scaling=odp.Scaling.identity(1))
    assert fitted.skipped.tolist() == [4], "the bad series comes once an epoch"
    assert all(np.isfinite(x).all() for x in leaves(fitted.model))
    assert np.isfinite(fitted.history.loss).all() and fitted.model.info["skipped_steps"] == 4


def test_training_that_breaks_down_stops_with_a_clear_error():
    y = np.full(SINES.y.shape, 1e30)
    bad = odp.Series(SINES.t, y, SINES.mask, SINES.static)
    options = dataclasses.replace(OPTIONS, max_bad_steps=3)
    with pytest.raises(odp.TrainingError, match=r"epoch 1: 3 steps in a row.*all 2 seeds.*learning_rate"):
        odp.fit(bad, PLAIN, options=options, scaling=odp.Scaling.identity(1), seeds=[0, 1])


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_optimisers_schedules_and_clipping_reduce_a_simple_loss(optimiser, schedule):
    options = odp.FitOptions(optimiser=optimiser, schedule=schedule, learning_rate=0.1, clip=1.0)
    rule = options.transformation(100)
    x = np.array([3.0, -2.0], np.float32)
    state = rule.init(x)
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(100):
            updates, state = rule.update(2 * x, state, x)
            x = x + np.asarray(updates)
    assert np.abs(x).max() < 0.5


@pytest.mark.parametrize("total", [2, 19, 20, 1000])
def test_the_rate_goes_up_and_down_as_in_optax(total):
    theirs = optax.warmup_cosine_decay_schedule(0.0, 0.1, max(1, total // 20), total)
    counts = np.arange(total + 5)
    with jax.numpy_dtype_promotion("standard"):
        expected = theirs(counts)
    np.testing.assert_allclose(cosine(0.1, total)(counts), expected, atol=1e-7)


def test_warm_up_and_growth_begin_and_end_where_they_should():
    options = dataclasses.replace(OPTIONS, kl_warm_up=0.5, horizon_growth=0.5)
    plan = epoch.Plan(options, odp.TaskSampler(), 4, 8, Extent(), Extent())
    weights = np.concatenate([epoch._kl_weights(plan, jnp.asarray(e), jnp.asarray(8), jnp.float32) for e in range(8)])
    assert weights[0] == 0.0 and (np.diff(weights[:17]) > 0).all() and (weights[16:] == 1.0).all()
    series = jax.tree.map(jnp.asarray, SINES)
    shown = [epoch._grow_horizon(plan, series, jnp.asarray(e), jnp.asarray(8)).observed for e in range(8)]
    first, end = series.t.min(), series.t.max()
    assert (shown[0] == (series.t <= first + 0.1 * (end - first) + 1e-6)).all()
    assert all((a <= b).all() and (a != b).any() for a, b in itertools.pairwise(shown[:5])) and shown[4].all()
    fitted = odp.fit(SINES, PLAIN, options=options)
    assert np.isfinite(fitted.history.loss).all() and fitted.skipped.tolist() == [0]


@pytest.mark.slow
def test_many_latent_samples_and_every_kind_of_task_train():
    for changes in ({"split": "prefix", "empty": 0.3, "shared": "nothing"}, {"split": "channel"}):
        series = odp.data.lotka_volterra.sample(8, key=jr.key(0))
        sampler = odp.TaskSampler(context=(1, 8), extra=(1, 8), **changes)
        spec = SPEC.replace(missing=True) if changes.get("split") == "channel" else SPEC
        fitted = odp.fit(series, spec, sampler=sampler, options=odp.FitOptions(epochs=2, batch_size=4, samples=3))
        assert np.isfinite(fitted.history.loss).all()


def test_seconds_since_1970_train_like_times_up_to_one():
    t = np.asarray(SINES.t, np.float64)
    unit = (t - t.min()) / (t.max() - t.min())
    stamps = 1.7e9 + 3600.0 * unit
    answers = []
    for times in (unit, stamps):
        series = odp.make_series(times, np.asarray(SINES.y))
        model = odp.fit(series, SPEC, options=OPTIONS).model
        posterior = model.condition(times[0, ::20], np.asarray(SINES.y)[0, ::20], key=jr.key(1))
        answers.append(posterior.mean(times[0, ::10]))
    np.testing.assert_allclose(*answers, atol=1e-3)


def test_times_can_count_from_each_series_first_observation():
    rng = np.random.default_rng(0)
    starts = 1.7e9 + 1e6 * rng.random(32)
    t = np.asarray(SINES.t, np.float64)
    shifted = odp.make_series(starts[:, None] + 100 * (t - t[:, :1]), np.asarray(SINES.y))
    with pytest.warns(UserWarning, match="origin='first'"):
        odp.fit(shifted, SPEC, options=dataclasses.replace(OPTIONS, epochs=1))
    model = odp.fit(shifted, SPEC, origin="first", options=OPTIONS).model
    assert abs(model.scaling.t_shift - 100 * np.pi) < 1e-3 and abs(model.scaling.t_scale - 50 * np.pi) < 1e-3
    at, values = np.array([0.0, 50.0, 300.0]), [0.1, 0.5, -0.2]
    one, other = (model.condition(s + at, values, key=jr.key(0)).mean(s + at) for s in (1.0e9, 1.8e9))
    np.testing.assert_allclose(one, other, atol=1e-5)

    # A series without observations has no first one: say where it begins, or wait for one.
    start = 1.0e9
    assert np.isfinite(model.condition(key=jr.key(0), origin=start).mean(start + at)).all()
    unknown = model.condition(key=jr.key(0))
    with pytest.raises(ValueError, match=r"no observation yet.*`origin=`"):
        unknown.mean(start + at)
    np.testing.assert_allclose(unknown.update(start + at, values).mean(start + at), one, atol=1e-4)
    with pytest.raises(ValueError, match="comes before the first one so far"):
        unknown.update(start, 0.1).update(start - 5.0, 0.2)
    earlier = model.condition([start + 50], [0.5], key=jr.key(0), origin=start).update([start, start + 300], [0.1, -0.2])
    np.testing.assert_allclose(earlier.mean(start + at), one, atol=1e-4)


def test_origin_is_for_models_that_have_one(sines_model):
    with pytest.raises(ValueError, match="times are absolute"):
        sines_model.condition([0.0], [0.0], key=jr.key(0), origin=1.0)


def test_progress_bar_shows_loss_and_rate(capsys):
    odp.fit(SINES, SPEC, options=OPTIONS, progress=True)
    shown = capsys.readouterr().err
    assert "training" in shown and "loss" in shown and "/s" in shown
    odp.fit(SINES, SPEC, options=OPTIONS, progress=False)
    assert capsys.readouterr().err == ""
