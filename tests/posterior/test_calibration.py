"""Calibration on held-out series: factors of spread, and all that follows them."""

import dataclasses

import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from cases import model
from odeprocess.posterior.calibration import COUNTS, GAPS, SIDES, Calibration, HeldOutErrors, PredictionPlaces
from odeprocess.posterior.latent_posterior import Inference


def evidence(seed: int, series: int, scale: float):
    """Misses of intervals that are `scale` times too narrow, by series, all counts and distances alike."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(series), 1000)
    miss = scale * np.abs(rng.standard_normal(len(who))) / 1.6449
    places = PredictionPlaces(
        np.exp(rng.uniform(np.log(0.01), 0, len(who))), rng.random(len(who)) < 0.6, rng.uniform(0, 0.3, len(who))
    )
    return rng.choice(COUNTS, len(who)), places, miss, who


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_factor_is_how_much_too_narrow_intervals_were(scale):
    found = Calibration.fit(HeldOutErrors(*evidence(0, 100, scale), horizon=1.0))
    np.testing.assert_allclose(found.factors, scale, rtol=0.15)


def test_few_series_make_wider_intervals_not_narrower():
    few, many = (
        np.mean([Calibration.fit(HeldOutErrors(*evidence(s, n, 1.0), horizon=1.0)).factors.mean() for s in range(10)])
        for n in (5, 100)
    )
    assert few > many


def test_factors_change_smoothly_with_distance_and_stay_in_the_table():
    shape = (len(COUNTS), SIDES, len(GAPS))
    found = Calibration(np.linspace(1, 2, np.prod(shape)).reshape(shape), 2.0)
    away = np.linspace(0, 3, 500)[None]
    sides = [PredictionPlaces(away, *(np.full(away.shape, x) for x in kind)) for kind in ((False, 1.0), (True, 1.0), (True, 0.1))]
    inside, beyond, ahead = (found.at(np.array([4]), places) for places in sides)
    for at in (inside, beyond, ahead):
        assert np.abs(np.diff(at)).max() < 0.05 and at.min() >= found.factors.min() and at.max() <= found.factors.max()
    assert (beyond > inside).all() and (ahead > beyond).all()
    asked = np.array([0, 7]), PredictionPlaces(np.array([[np.inf], [0.1]]), np.array([[True], [False]]), np.zeros((2, 1)))
    np.testing.assert_array_equal(Calibration.from_json(found.to_json(), "calibration").at(*asked), found.at(*asked))


def test_places_are_distances_and_sides():
    found = PredictionPlaces.of(np.array([[0.0, 1.0, 4.0, 5.0]]), np.array([[0.5, 4.0, 9.0]]), np.array([[True, True, False]]))
    # Beyond the observations, which span 3.5, a distance counts for less.
    np.testing.assert_allclose(found.gaps, [[0.5**2 / 4.0, 0.5, 0.0, 1.0**2 / 4.5]])
    single = PredictionPlaces.of(np.array([[0.0, 5.0]]), np.array([[2.0]]), np.array([[True]]))
    np.testing.assert_allclose(single.gaps, [[2.0, 3.0]])
    np.testing.assert_array_equal(found.beyond, [[True, False, False, True]])
    nothing = PredictionPlaces.of(np.zeros((1, 2)), np.zeros((1, 0)), np.zeros((1, 0), bool))
    assert np.isinf(nothing.gaps).all() and nothing.beyond.all()
    np.testing.assert_allclose(found.spans, 3.5)
    assert single.spans.max() == nothing.spans.max() == 0.0


def test_observations_are_close_together_if_random_ones_would_hardly_be():
    """As at the beginning of a record; one observation, or none, is never close to others."""
    rng, t = np.random.default_rng(0), np.linspace(0, 1, 100)[None]
    for count in (2, 3, 5, 10):
        first = np.arange(100)[None] < count
        assert (PredictionPlaces.of(t, t, first).sides(np.array([[count]]), 1.0)[~first] == 2).all()
        anywhere = rng.permuted(np.repeat(first, 200, 0), axis=1)
        sides = PredictionPlaces.of(np.repeat(t, 200, 0), t, anywhere).sides(np.array([[count]]), 1.0)
        assert (sides == 2).mean() < 0.15 and set(np.unique(sides)) >= {0, 1}
    for count in (0, 1):
        assert (PredictionPlaces.of(t, t, np.arange(100)[None] < count).sides(np.array([[count]]), 1.0)[:, 1:] == 1).all()


def test_a_table_of_two_sides_is_read_as_it_was_meant():
    old = np.random.default_rng(0).uniform(1, 2, (len(COUNTS), 2, len(GAPS)))
    found = Calibration.from_json({"factors": old.tolist(), "horizon": 1.0, "noise_scale": None}, "calibration")
    np.testing.assert_array_equal(found.factors, old[:, [0, 1, 1]])


def test_a_calibrated_model_spreads_by_the_factor_and_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    y = 5.0 * rng.standard_normal((6, 9, 2))  # far from anything this model expects
    series = odp.make_series(np.tile(np.linspace(0, 1, 9), (6, 1)), y, static=np.zeros((6, 1)))
    plain = model("ndp")
    sure = plain.calibrated(series, inference="amortised")
    sure.save(tmp_path / "model")
    assert set(odp.load(tmp_path / "model").calibrations) == {"amortised"}
    t, at = [0.2, 0.5], [0.1, 0.9]
    before, after = (m.condition(t, y[0, :2], static=[0.0], key=jr.key(0)) for m in (plain, odp.load(tmp_path / "model")))
    places = PredictionPlaces.of(np.array([at]), np.array([t]), np.ones((1, 2), bool))
    factor = sure.calibrations["amortised"].at(np.array([2]), places)
    assert factor.min() > 1.0
    np.testing.assert_allclose(after.std(at), factor[0][:, None] * before.std(at), rtol=1e-4)
    np.testing.assert_allclose(after.mean(at), before.mean(at), rtol=1e-4, atol=1e-5)


def test_series_that_were_seen_count_as_much_as_others_do_and_not_as_better():
    rng = np.random.default_rng(0)
    counts, series = np.repeat([1, 3], 500), np.tile(np.arange(50), 20)
    sizes = rng.exponential(size=1000) * np.where(series < 10, 2.0, 1.0)  # known by heart: half as far off
    places = PredictionPlaces(np.ones(1000), np.ones(1000, bool), np.ones(1000))
    found = HeldOutErrors(counts, places, sizes, series, 1.0)
    level, new = found.match_scale(10), series >= 10
    np.testing.assert_array_equal(level.sizes[~new], sizes[~new])
    assert np.allclose(level.sizes[new] / sizes[new], level.sizes[new][0] / sizes[new][0]) and (level.sizes >= sizes).all()
    assert np.quantile(level.sizes[new], 0.8) == pytest.approx(np.quantile(sizes[~new], 0.8), rel=0.1)
    worse = found._replace(series=49 - series)  # the first forty are the better ones
    np.testing.assert_array_equal(worse.match_scale(40).sizes, sizes)
    np.testing.assert_array_equal(found.match_scale(50).sizes, sizes)


@pytest.mark.parametrize("inference", ["amortised", "exact"])
def test_seen_series_of_any_length_join_the_held_out_ones(inference):
    rng = np.random.default_rng(0)
    held, seen = (
        odp.make_series(np.tile(np.linspace(0, 1, n), (k, 1)), rng.standard_normal((k, n, 2)), static=np.zeros((k, 1)))
        for k, n in ((4, 6), (9, 11))
    )
    alone, both = (model("ndp").held_out_errors(held, seen=more, inference=inference, draws=8) for more in (None, seen))
    assert set(np.unique(alone.series)) == set(range(4)) and set(np.unique(both.series)) == set(range(13))
    assert both.noise_scale == alone.noise_scale, "how noise varies is known from series that were not seen"
    with pytest.raises(ValueError, match="`seen` is"):
        model("ndp").calibrated(held, seen=np.zeros(3))
    with pytest.raises(ValueError, match=r"`seen` has 1 channel\(s\) and 0 static covariate\(s\); this model has 2 and 1"):
        model("ndp").calibrated(held, seen=odp.data.sines.sample(3, key=jr.key(0)))


@pytest.mark.parametrize("inference", ["amortised", "exact"])
def test_densities_follow_the_calibration_as_intervals_do(inference):
    table = Calibration(np.full((len(COUNTS), SIDES, len(GAPS)), 2.5), 1.0)
    sure = dataclasses.replace(model("ndp"), calibrations={"exact": table, "amortised": table})
    posterior = sure.condition([0.2, 0.5], [[0.1, 0.4], [0.3, 0.2]], static=[0.0], key=jr.key(0), inference=inference)
    y = np.linspace(-12, 12, 4000)
    density = np.exp(posterior.log_prob(np.full(len(y), 0.7), np.stack([y, y], -1), joint=False))
    low, high = (x[0] for x in posterior.interval([0.7], 0.8))
    for channel in (0, 1):
        inside = (y >= low[channel]) & (y <= high[channel])
        mass = density[:, channel] * (y[1] - y[0])
        assert mass.sum() == pytest.approx(1.0, abs=2e-3)
        assert mass[inside].sum() == pytest.approx(0.8, abs=1e-2)


def factors(size: float) -> Calibration:
    """The same factor everywhere."""
    return Calibration(np.full((len(COUNTS), SIDES, len(GAPS)), size), 1.0)


def conditioned(inference: Inference, size: float | None, draws: int = 16) -> odp.Posterior:
    calibrations = {} if size is None else {"exact": factors(size), "amortised": factors(size)}
    calibrated = dataclasses.replace(model("ndp"), calibrations=calibrations)
    observed = [0.2, 0.5], [[0.1, 0.4], [0.3, 0.2]]
    return calibrated.condition(*observed, static=[0.0], key=jr.key(0), inference=inference, draws=draws)


@pytest.mark.parametrize("inference", ["amortised", "exact"])
def test_functions_are_the_draws_of_the_calibrated_posterior(inference):
    posterior, plain, at = conditioned(inference, 2.5), conditioned(inference, None), np.linspace(0, 1, 5)
    functions = posterior.functions(6)
    np.testing.assert_allclose(functions(at), posterior.sample(at, 6, of="function"), atol=1e-5)
    np.testing.assert_allclose(functions[2](at)[0], functions(at)[2], atol=1e-5)
    np.testing.assert_allclose(functions[1:4](at), functions(at)[1:4], atol=1e-5)
    spread, before = (each.functions(16)(at).std(0) for each in (posterior, plain))
    np.testing.assert_allclose(spread, 2.5 * before, rtol=1e-3)
    np.testing.assert_allclose(posterior.std(at, of="function"), spread, rtol=1e-3)


@pytest.mark.parametrize("inference", ["amortised", "exact"])
def test_joint_densities_are_calibrated_as_those_of_single_values_are(inference):
    posterior, plain = conditioned(inference, 2.5), conditioned(inference, None)
    for channel, y in enumerate(np.array([[0.7, np.nan], [np.nan, -1.2]])):
        alone = posterior.log_prob([0.7], y[None], joint=False)[0, channel]
        assert posterior.log_prob([0.7], y[None]) == pytest.approx(alone, abs=1e-4)
    t, y = [0.4, 0.7, 0.9], np.array([[0.5, -1.0], [1.5, 0.3], [0.0, 0.4]])
    assert conditioned(inference, 1.0).log_prob(t, y) == pytest.approx(plain.log_prob(t, y), abs=1e-3), "by another way"
    far = 40.0 + y
    assert posterior.log_prob(t, far) > plain.log_prob(t, far), "wider predictions find it less unlikely"


@pytest.mark.parametrize("inference", ["amortised", "exact"])
def test_samples_are_as_wide_as_calibrated_intervals(inference):
    posterior, at = conditioned(inference, 2.5, draws=4000), [0.1, 0.9]
    sample = posterior.sample(at)
    np.testing.assert_allclose(sample.std(0), posterior.std(at), rtol=0.06)  # four standard errors
    low, high = posterior.interval(at, 0.8)
    np.testing.assert_allclose(((low <= sample) & (sample <= high)).mean(0), 0.8, atol=0.03)


def test_a_model_that_is_calibrated_for_the_other_kind_of_inference_says_so():
    calibrated = dataclasses.replace(model("ndp-linear"), calibrations={"amortised": factors(2.0)})
    given = {"t": [0.2], "y": [[0.1, 0.4]], "static": [0.0], "key": jr.key(0), "draws": 8}
    with pytest.warns(UserWarning, match="calibrated for amortised inference, not for exact inference"):
        calibrated.condition(**given)
    assert calibrated.condition(**given, inference="amortised").inference == "amortised", "and no warning"
