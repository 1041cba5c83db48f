"""Exact inference, for processes whose posterior has a formula."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import odeprocess as odp
from cases import model, process, random_series
from odeprocess.common.distributions import Normal
from odeprocess.data.tasks import Task
from odeprocess.inference.noise_scale import NoiseScale
from odeprocess.posterior.calibration import Calibration
from odeprocess.process import Extent
from odeprocess.process.prior import Mixture, Prior
from odeprocess.training.mixture_prior import fit_mixture_prior
from odeprocess.training.objectives import OBJECTIVES, renyi

# Before training the networks beside the linear maps are zero, so this process is linear in its latents, and the
# posterior is a normal distribution with a formula.
LINEAR = "ndp-skip"


def tilted(p: odp.Process) -> odp.Process:
    """The process with a prior that is not centred and has correlated latents."""
    rng = np.random.default_rng(0)
    z = p.z_dim
    chol = np.tril(rng.normal(size=(z, z)) * 0.3, -1) + np.diag(rng.uniform(0.5, 1.5, z))
    slope = rng.normal(size=(z, 1))
    prior = Prior(*(jnp.asarray(x, jnp.float32) for x in (rng.normal(size=z), slope, chol)))
    return eqx.tree_at(lambda p: p.prior, p, prior)


def exact(p: odp.Process, prior: Prior | None, t, y, static, at) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and standard deviation of the function at `at`, and the log density of `y`, by the formulas for linear models."""

    def linear(t):
        def mean(z):
            return p.predict(z, t, Extent())[0].mean.reshape(-1)

        origin = jnp.zeros(p.z_dim)
        return np.asarray(jax.jacfwd(mean)(origin), np.float64), np.asarray(mean(origin), np.float64)

    assert prior is not None
    (basis, offset), (there, start) = linear(t), linear(at)
    noise = np.asarray(p.predict(jnp.zeros(p.z_dim), t, Extent())[0].std, np.float64).reshape(-1)
    m, c = np.asarray(prior.mean(static), np.float64), np.asarray(prior.chol, np.float64)
    off = np.asarray(y, np.float64).reshape(-1) - offset
    precision = np.linalg.inv(c @ c.T) + (basis.T / noise**2) @ basis
    z, cov = np.linalg.solve(precision, np.linalg.solve(c @ c.T, m) + (basis.T / noise**2) @ off), np.linalg.inv(precision)
    density = multivariate_normal(basis @ m, basis @ c @ c.T @ basis.T + np.diag(noise**2)).logpdf(off) if len(off) else 0.0
    shape = (len(at), -1)
    std = np.sqrt(np.einsum("ij,jk,ik->i", there, cov, there))
    return (there @ z + start).reshape(shape), std.reshape(shape), float(density)


@pytest.fixture(scope="module")
def linear_model() -> odp.Model:
    return dataclasses.replace(model(LINEAR), process=tilted(process(LINEAR)))


T, AT = np.array([0.1, 0.35, 0.6], np.float32), np.linspace(0, 1, 5, dtype=np.float32)
Y = np.array([[0.3, -1.0], [1.2, 0.4], [0.7, 0.1]], np.float32)
STATIC = np.array([0.4], np.float32)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_draws_have_the_exact_posterior_of_a_linear_model(linear_model, count):
    posterior = linear_model.condition(T[:count], Y[:count], static=STATIC, key=jr.key(0), draws=2000)
    p = linear_model.process
    mean, std, _ = exact(p, p.prior, jnp.asarray(T[:count]), Y[:count], jnp.asarray(STATIC), jnp.asarray(AT))
    found, spread = posterior.mean(AT), posterior.std(AT, of="function")
    assert np.all(np.abs(found - mean) < 5 * std / 2000**0.5 + 1e-4)
    np.testing.assert_allclose(spread, std, rtol=0.1)


def test_draws_have_the_exact_posterior_of_a_mixture(linear_model):
    """The exact posterior under each component, weighted by the density of the observations under it."""
    p, shares = linear_model.process, np.array([0.5, 0.3, 0.2])
    shifts = 0.2 * np.random.default_rng(1).normal(size=(3, p.z_dim)).astype(np.float32)
    parts = [
        dataclasses.replace(p.prior, loc=p.prior.loc + shift, chol=size * p.prior.chol)
        for shift, size in zip(shifts, (1.0, 0.5, 0.7), strict=True)
    ]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *parts)
    absolute = Mixture(jnp.log(jnp.asarray(shares, jnp.float32)), stacked)
    mixed = dataclasses.replace(p, prior=Prior.standard(p.z_dim, 1), mixture=absolute)
    found = [exact(p, q, jnp.asarray(T), Y, jnp.asarray(STATIC), jnp.asarray(AT)) for q in parts]
    means, stds, densities = (np.asarray(x) for x in zip(*found, strict=True))
    weights = shares * np.exp(densities - densities.max())
    weights = weights / weights.sum()
    assert weights.max() < 0.9, "otherwise only one component would be tested"
    mean = np.tensordot(weights, means, 1)
    std = np.sqrt(np.tensordot(weights, stds**2 + (means - mean) ** 2, 1))
    model = dataclasses.replace(linear_model, process=mixed)
    posterior = model.condition(T, Y, static=STATIC, key=jr.key(0), draws=2000)
    assert np.all(np.abs(posterior.mean(AT) - mean) < 5 * std / 2000**0.5 + 1e-4)
    np.testing.assert_allclose(posterior.std(AT, of="function"), std, rtol=0.1)


def test_a_mixture_finds_the_shape_that_one_normal_distribution_cannot():
    """Latents on a ring, known to a hundredth: new ones are far more likely under the mixture."""
    angle = jnp.linspace(0.0, 400.0, 400)  # radians: all round, many times
    ring = jnp.stack([2.0 * jnp.cos(angle), jnp.sin(angle)], 1) + jnp.asarray([[3.0, -1.0]])
    centre = ring.mean(0)
    prior = Prior(centre, jnp.zeros((2, 0)), jnp.linalg.cholesky(jnp.cov(ring.T)))
    roots = jnp.broadcast_to(100.0 * jnp.eye(2), (400, 2, 2))
    mixture = fit_mixture_prior(prior, ring[:300], roots[:300], jnp.zeros((300, 0)), Mixture.parts_for(300)).within(prior)

    def log_density(mixture):
        def part(log_weight, prior):
            white = jax.vmap(lambda z: prior.whiten(z, jnp.zeros(0)))(ring[300:])
            return log_weight - 0.5 * (white**2).sum(1) - jnp.log(jnp.diagonal(prior.chol)).sum()

        return jax.nn.logsumexp(jax.vmap(part)(mixture.log_weights, mixture.parts), 0).mean()

    assert log_density(mixture) > log_density(Mixture.of(prior)) + 0.5
    weights = jnp.exp(mixture.log_weights)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-5)
    np.testing.assert_allclose(weights @ mixture.parts.loc, centre, atol=0.05)


def test_draws_of_a_mixture_prior_stay_near_its_members():
    """Latents in two distant clusters of four each: each of eight draws is near one of them, and together they represent all."""
    rng = np.random.default_rng(0)
    latents = jnp.asarray(np.repeat([[-3.0, 0.0], [3.0, 1.0]], 4, 0) + 0.5 * rng.normal(size=(8, 2)), jnp.float32)
    prior = Prior(latents.mean(0), jnp.zeros((2, 0)), jnp.linalg.cholesky(jnp.cov(latents.T)))
    roots = jnp.broadcast_to(100.0 * jnp.eye(2), (8, 2, 2))
    mixture = fit_mixture_prior(prior, latents, roots, jnp.zeros((8, 0)), 1).within(prior)
    whole = jax.tree.map(lambda x: x[0], mixture.parts)

    def draw(place):
        return whole.colour(mixture.whitened(jnp.asarray(0), place, jr.normal(jr.key(place), (2,))), jnp.zeros(0))

    draws = jnp.stack([draw(jnp.asarray(i)) for i in range(8)])
    gaps = jnp.abs(draws[:, None] - latents[None]).max(-1).min(1)
    assert gaps.max() < 3 * 0.3 * 3, "no draw is further from a member than the blur takes it"
    assert gaps.mean() < 1.0 < jnp.abs(prior.chol[0, 0]) / 2
    np.testing.assert_allclose(draws.mean(0), latents.mean(0), atol=1.0)


def test_an_update_is_the_posterior_given_everything(linear_model):
    whole = linear_model.condition(T, Y, static=STATIC, key=jr.key(0), draws=8)
    grown = linear_model.condition(T[:1], Y[:1], static=STATIC, key=jr.key(0), draws=8).update(T[1:], Y[1:])
    np.testing.assert_allclose(grown.mean(AT), whole.mean(AT), atol=1e-3)
    assert "exact inference" in repr(grown)


def test_the_first_draws_are_the_same_however_many_are_kept(linear_model):
    posteriors = (linear_model.condition(T, Y, static=STATIC, key=jr.key(0), draws=n) for n in (8, 2000))
    few, many = (posterior.sample(AT, 8, of="function") for posterior in posteriors)
    np.testing.assert_allclose(few, many, atol=1e-4)


def test_a_batch_is_its_series_and_amortised_inference_can_be_had_back(linear_model):
    arguments = {"static": np.stack([STATIC] * 2), "key": jr.key(0), "inference": "amortised"}
    amortised = linear_model.condition(np.stack([T, T + 0.1]), np.stack([Y, -Y]), **arguments)
    exact = amortised.with_inference("exact", draws=8)
    np.testing.assert_allclose(exact[1].mean(AT), exact.mean(AT)[1], atol=1e-6)
    again = exact.with_inference("amortised", draws=64)
    np.testing.assert_allclose(again.mean(AT), amortised.mean(AT), atol=1e-6)


def test_a_series_unlike_those_in_training_is_less_certain(linear_model):
    def width(noise_scale, y):
        table = Calibration.none(1.0, noise_scale)
        known = dataclasses.replace(linear_model, calibrations={"exact": table})
        low, high = known.condition(times, y, static=STATIC, key=jr.key(0)).interval(AT)
        return (high - low).mean()

    # Measured twice at each time: no curve can go through values that differ by forty standard deviations.
    times, deviations = np.repeat(T, 2), 40 * np.array([1, -1] * 3)[:, None]
    usual = np.repeat(Y, 2, axis=0)
    strange = usual + deviations * float(linear_model.process.predict(jnp.zeros(6), jnp.asarray(T), Extent())[0].std[0, 0]) / 2
    sure, doubtful = NoiseScale(1e6, 1.0), NoiseScale(4.0, 1.0)
    assert width(doubtful, strange) > 3 * width(doubtful, usual)
    assert width(sure, strange) == pytest.approx(width(sure, usual), rel=0.1), "linear: only the noise could tell"


def test_exact_inference_says_what_it_cannot_do(linear_model):
    with pytest.raises(ValueError, match="needs a normal likelihood"):
        model("ndp, bernoulli").condition(T, np.abs(Y) / 2, static=STATIC, key=jr.key(0), inference="exact")
    exact = linear_model.condition(T, Y, static=STATIC, key=jr.key(0), draws=8)
    with pytest.raises(ValueError, match="draws=9"):
        exact.mean(AT, 9)
    with pytest.raises(ValueError, match="method='samples'"):
        exact.log_prob(T, Y, method="importance")
    with pytest.raises(ValueError, match="`steps` is 0"):
        exact.with_inference("exact", steps=0)


@pytest.mark.parametrize("name", ["nd2p-l", "np"])
def test_models_without_a_learned_prior_have_exact_inference_too(name):
    amortised = model(name).condition(T, Y, static=STATIC, key=jr.key(0), draws=16)
    exact = amortised.with_inference("exact", steps=8)
    assert np.square(exact.mean(T) - Y).mean() <= np.square(amortised.mean(T) - Y).mean() + 1e-3


def test_whitening_is_the_inverse_of_colouring_and_the_divergence_is_that_of_samples():
    prior = tilted(process(LINEAR)).prior
    assert prior is not None
    noise = jr.normal(jr.key(0), (prior.loc.shape[0],))
    static = jnp.asarray(STATIC)
    np.testing.assert_allclose(prior.whiten(prior.colour(noise, static), static), noise, atol=1e-4)
    q = Normal(noise, 0.1 + jnp.abs(noise))
    z = jax.vmap(q.reparametrise)(jr.normal(jr.key(1), (100_000, len(noise))))
    log_prior = jax.vmap(lambda z: -0.5 * (prior.whiten(z, static) ** 2).sum())(z) - jnp.log(jnp.diagonal(prior.chol)).sum()
    ratio = jax.vmap(q.log_prob)(z).sum(-1) + 0.5 * len(noise) * np.log(2 * np.pi) - log_prior
    assert abs(float(ratio.mean() - prior.kl_from(q, static))) < 5 * float(ratio.std()) / 100_000**0.5


def test_renyi_bounds_fall_with_their_order_and_end_at_the_elbo():
    p, series = process("ndp"), random_series(0, 6)
    task = Task(series, series.mask & (np.arange(len(series.t)) < 3)[:, None], series.mask)
    noise = jr.normal(jr.key(0), (64, p.z_dim))
    values = [float(renyi(alpha)(p, task, noise)) for alpha in (0.0, 0.3, 0.6, 0.9, 0.999)]
    assert values == sorted(values, reverse=True)
    q_context, q_target = p.inference.beliefs(task)
    z = jax.vmap(q_target.reparametrise)(noise)
    sampled = jax.vmap(lambda z: (q_target.log_prob(z) - q_context.log_prob(z)).sum())(z).mean() - q_target.kl(q_context).sum()
    assert abs(values[-1] - float(odp.elbo(p, task, noise) - sampled)) < 1e-2 * abs(values[-1])


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_every_objective_trains(objective, tmp_path):
    series = odp.data.lines.sample(8, key=jr.key(0))
    spec = odp.variant("np", r_dim=6, z_dim=4, l_dim=4, h_dim=6, prior="learned", components=2)
    em_epochs = 2 if objective == "generative" else 0
    options = odp.FitOptions(epochs=2, objective=objective, samples=4, batch_size=8, em_epochs=em_epochs)
    outcome = odp.fit(series, spec, options=options)
    assert np.isfinite(outcome.history.loss).all() and np.isfinite(outcome.history.em_loss).all()
    assert outcome.history.em_loss.shape == (em_epochs, 1) and outcome.model.info["em_epochs"] == em_epochs
    mixture = outcome.model.process.mixture
    assert mixture is not None and bool(jnp.allclose(*mixture.parts.chol)) is not bool(em_epochs), "EM ends with a mixture prior"
    outcome.model.save(tmp_path / "model")
    assert eqx.tree_equal(odp.load(tmp_path / "model").process, outcome.model.process)


def test_expectation_maximisation_needs_a_learned_prior():
    with pytest.raises(ValueError, match="learned prior"):
        odp.fit(odp.data.lines.sample(4, key=jr.key(0)), "np", options=odp.FitOptions(em_epochs=1))
