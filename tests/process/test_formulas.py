"""The formulas, worked out again by other means."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.integrate
import scipy.special
import scipy.stats

import odeprocess as odp
from cases import CASES, LENGTH, process, random_series
from odeprocess.common.distributions import Bernoulli, Normal
from odeprocess.data.tasks import Task
from odeprocess.inference import batched
from odeprocess.process import Extent, PointEncoder
from odeprocess.process.aggregation import AGGREGATIONS, LARGEST_SCORE
from odeprocess.process.networks import Linear

CASE = "ndp"


def normal_kl(a, b):
    """KL(a ‖ b) by numerical integration."""

    def integrand(x):
        return a.pdf(x) * (a.logpdf(x) - b.logpdf(x))

    return scipy.integrate.quad(integrand, a.mean() - 12 * a.std(), a.mean() + 12 * a.std(), limit=200)[0]


def test_kl_is_the_integral_and_not_symmetric():
    p, q = Normal(jnp.array(0.3), jnp.array(0.5)), Normal(jnp.array(-0.4), jnp.array(1.2))
    p_, q_ = scipy.stats.norm(0.3, 0.5), scipy.stats.norm(-0.4, 1.2)
    np.testing.assert_allclose(p.kl(q), normal_kl(p_, q_), rtol=1e-5)
    np.testing.assert_allclose(q.kl(p), normal_kl(q_, p_), rtol=1e-5)
    assert abs(float(p.kl(q) - q.kl(p))) > 0.5


def test_log_densities_are_scipys():
    y = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(
        Normal(jnp.array(0.3), jnp.array(0.5)).log_prob(y), scipy.stats.norm.logpdf(y, 0.3, 0.5), rtol=1e-5
    )
    logit = 0.7
    p = 1 / (1 + np.exp(-logit))
    np.testing.assert_allclose(Bernoulli(jnp.array(logit)).log_prob(jnp.array([0.0, 1.0])), np.log([1 - p, p]), rtol=1e-5)


def test_elbo_is_the_papers_worked_out_by_hand():
    series = random_series(3, LENGTH)
    context = series.mask & (jnp.arange(LENGTH) < 2)[:, None]
    noise = jr.normal(jr.key(0), (3, CASES[CASE].z_dim))
    strong = jax.tree.map(lambda x: 3.0 * x, process(CASE))  # so that observations move the belief by much
    task = Task(series, context, series.mask)
    found, warming = odp.elbo(strong, task, noise), odp.elbo(strong, task, noise, kl_weight=0.25)

    given = odp.Series(series.t, series.y, context, series.static)
    q_context, q_target = strong.infer(given), strong.infer(series)
    likelihoods = []
    for eps in noise:
        y, _ = strong.predict(q_target.loc + q_target.scale * eps, series.t)
        likelihoods.append(scipy.stats.norm.logpdf(series.y, y.loc, y.scale).sum())
    a, b = (scipy.stats.norm(np.asarray(q.loc), np.asarray(q.scale)) for q in (q_target, q_context))
    kl = sum(
        normal_kl(scipy.stats.norm(m, s), scipy.stats.norm(n, r))
        for m, s, n, r in zip(a.mean(), a.std(), b.mean(), b.std(), strict=True)
    )
    assert kl > 1e-3
    np.testing.assert_allclose(found, np.mean(likelihoods) - kl, rtol=1e-4)
    np.testing.assert_allclose(warming, np.mean(likelihoods) - 0.25 * kl, rtol=1e-4)


def test_aggregations_are_what_they_are_called():
    last = Linear(5, 6, key=jr.key(0))
    features, seen = 9.0 * jr.normal(jr.key(1), (4, 5)), jnp.array([True, False, True, True])
    value, raw = np.split(np.asarray(jax.vmap(last)(features), np.float64)[np.asarray(seen)], 2, axis=-1)
    count = jnp.array(3.0)

    attention, precision = AGGREGATIONS["attention"], AGGREGATIONS["precision"]
    found = attention.read(attention.sums(features, seen, last), count)
    weights = scipy.special.softmax(LARGEST_SCORE * np.tanh(raw / LARGEST_SCORE), axis=0)
    np.testing.assert_allclose(found, (weights * value).sum(0), rtol=1e-4, atol=1e-5)

    mean, log_precision = np.split(np.asarray(precision.read(precision.sums(features, seen, last), count)), 2)
    for j in range(3):  # a standard normal belief, and three measurements of it
        design, noise = np.ones((3, 1)), np.diag(1.0 / np.log1p(np.exp(raw[:, j])))
        gain = design.T @ np.linalg.inv(design @ design.T + noise)
        np.testing.assert_allclose(mean[j], (gain @ value[:, j]).item(), rtol=1e-4)
        np.testing.assert_allclose(np.exp(-log_precision[j]), (1.0 - gain @ design).item(), rtol=1e-4)


def test_waves_halve_from_twice_the_horizon():
    spec = CASES["np, attention"]
    encoder = spec.replace(horizon=3.0).build(key=jr.key(0)).inference.encoder
    assert isinstance(encoder, PointEncoder) and (encoder.waves, encoder.slowest) == (2, 6.0)
    t = jnp.array([0.4])
    series = odp.Series(t, jnp.zeros((1, 2)), jnp.ones((1, 2), bool), jnp.zeros(1))
    plain = eqx.tree_at(lambda e: e.net.layers, encoder, (_identity(encoder.net.layers[0]), encoder.net.layers[-1]))
    found = np.asarray(plain.features(series))[0]
    angles = 2 * np.pi * 0.4 / np.array([6.0, 3.0])
    np.testing.assert_allclose(found, np.maximum([0.4, 0, 0, *np.sin(angles), *np.cos(angles)], 0), rtol=1e-5)


def _identity(layer: Linear) -> Linear:
    size = layer.weight.shape[1]
    return eqx.tree_at(lambda x: (x.weight, x.bias), layer, (jnp.eye(size), jnp.zeros(size)))


def test_hidden_values_do_not_reach_the_context():
    spec = odp.variant("ndp", r_dim=6, z_dim=6, l_dim=2, h_dim=8, solver=odp.Grid(order=2))
    series = odp.data.lotka_volterra.sample(4, key=jr.key(0))
    sampler = odp.TaskSampler(context=(3, 5), extra=(1, 5), split="channel", empty=0.0)
    model = odp.fit(series, spec, sampler=sampler, options=odp.FitOptions(epochs=1)).model
    assert model.spec.missing
    task = sampler.draw(model.scaling.apply(series), key=jr.key(1))
    hidden = ~task.context.any(1, keepdims=True)
    changed = odp.Series(
        task.points.t, jnp.where(hidden, task.points.y + 5.0, task.points.y), task.points.mask, task.points.static
    )
    beliefs = jax.vmap(model.process.inference.beliefs)
    one, other = beliefs(task)[0], beliefs(Task(changed, task.context, task.target))[0]
    np.testing.assert_array_equal(one.loc, other.loc)


def test_gradients_of_quantiles_are_numeric_ones():
    loc, scale = jnp.array([-1.0, 0.2, 0.9]), jnp.array([0.3, 0.5, 0.2])
    for q in (0.05, 0.5, 0.95):

        def quantile(loc, q=q):
            return Normal(loc[:, None], scale[:, None]).mixture_quantile(jnp.asarray(q))[0]

        numeric = [(quantile(loc + 1e-2 * e) - quantile(loc - 1e-2 * e)) / 2e-2 for e in jnp.eye(3)]
        np.testing.assert_allclose(jax.grad(quantile)(loc), numeric, atol=2e-2)


def test_unknown_probabilities_stay_unknown():
    unknown = Bernoulli(jnp.array([[jnp.nan], [0.0]]))
    assert np.isnan(unknown.sample(jr.key(0))[0]).all() and np.isnan(unknown.mixture_quantile(jnp.asarray(0.5))).all()


def test_importance_weights_undo_the_choice_of_the_proposal():
    series = jax.tree.map(lambda x: x[None], random_series(2, 3))
    size = CASES[CASE].z_dim
    belief = Normal(jnp.zeros((1, size)), jnp.full((1, size), 0.6))
    # Wider than the belief, so that the weights are bounded and the estimate is sound.
    proposal = Normal(jnp.full((1, size), 0.3), jnp.full((1, size), 0.8))
    keys, count = jr.split(jr.key(0), 1), 400_000
    for joint in (True, False):
        arguments = (keys, series, count, Extent(), joint)
        plain, weighted, unweighted = (
            np.asarray(batched.log_density(process(CASE), a, b, *arguments)[0])
            for a, b in ((belief, belief), (belief, proposal), (proposal, proposal))
        )
        np.testing.assert_allclose(weighted, plain, atol=0.03)
        assert np.nanmax(np.abs(unweighted - plain)) > 0.1
