"""The laws of a neural process, for every row of the variant table."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, strategies as st

import odeprocess as odp
from cases import CASES, EACH_PART, LENGTH, ODE_CASES, infer, model, path, predict, process, random_series, reordered
from odeprocess.data.tasks import Task
from odeprocess.process import Extent


def over(cases):
    """All cases; images, and those that are no row of the variant table, are left to the slow tests."""
    fast = [case for case in odp.VARIANTS if not case.startswith("image")]
    marked = [pytest.param(c, marks=[] if c in fast else [pytest.mark.slow]) for c in cases]
    return pytest.mark.parametrize("case", marked)


every_case, every_ode_case, every_part = over(CASES), over(ODE_CASES), over(EACH_PART)
seeds, counts = st.integers(0, 2**20), st.integers(0, LENGTH)
ONE, TWO = Extent(0, 1), Extent(1, 2)

beliefs = jax.jit(lambda process, task: process.inference.beliefs(task))
loss_and_gradient = jax.jit(jax.value_and_grad(lambda p, task, noise: -odp.elbo(p, task, noise)))


def close(a, b, tolerance=2e-5):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def in_float64(tree):
    return jax.tree.map(lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, tree)


def full(case: str, seed: int, count: int) -> odp.Series:
    """A series that suits a case, every channel there."""
    return random_series(seed, count, channels=CASES[case].channels or 1)


def some(case: str, seed: int, count: int) -> odp.Series:
    """A series that suits a case, with channels missing where the case is made for it."""
    return random_series(seed, count, partial=bool(CASES[case].missing), channels=CASES[case].channels or 1)


def draw(case: str, seed: int):
    return jr.normal(jr.key(seed), (CASES[case].z_dim,))


def test_a_few_cases_hold_every_part_and_every_option():
    def options(cases):
        choices = ("dynamics", "readout", "missing", "initial", "likelihood", "noise", "latent_scale", "path", "timed", "prior")
        return {(name, getattr(CASES[c], name)) for name in choices for c in cases} | {type(CASES[c].solver) for c in cases}

    assert options(EACH_PART) == options(CASES)


@every_case
@given(seed=seeds, count=counts)
def test_belief_does_not_depend_on_the_order_of_the_context(case, seed, count):
    series = some(case, seed, count)
    series = odp.Series(jnp.round(series.t, 1), series.y, series.mask, series.static)  # so that there are ties
    order = np.random.default_rng(seed + 1).permutation(LENGTH)
    close(infer(process(case), series), infer(process(case), reordered(series, order)))


@every_case
@given(seed=seeds, count=counts)
def test_belief_is_finite_for_any_context_even_none(case, seed, count):
    belief = infer(process(case), some(case, seed, count))
    assert np.isfinite(belief.loc).all() and (np.asarray(belief.scale) > 0).all()


@every_part
@given(seed=seeds, count=st.integers(1, LENGTH))
def test_padding_changes_neither_the_objective_nor_its_gradient(case, seed, count):
    series = some(case, seed, count)
    context = series.mask & (jnp.arange(LENGTH) < count // 2)[:, None]
    noise = jr.normal(jr.key(seed), (2, CASES[case].z_dim))
    rubbish = some(case, seed + 1, LENGTH)
    longer = odp.Series(
        jnp.concatenate([series.t, rubbish.t]),
        jnp.concatenate([series.y, 100.0 * rubbish.y]),
        jnp.concatenate([series.mask, jnp.zeros_like(series.mask)]),
        series.static,
    )
    pad = jnp.zeros_like(series.mask)
    # In float64: in float32 one of the many ReLUs of a convolution may sit so near its kink that rounding moves the gradient.
    with jax.enable_x64(True):
        whole, padded = Task(series, context, series.mask), Task(longer, jnp.concatenate([context, pad]), longer.mask)
        answers = [loss_and_gradient(*in_float64((process(case), task, noise))) for task in (whole, padded)]
    close(*answers, 1e-9 if case != "ndp, adaptive" else 1e-4)


@every_case
@given(seed=seeds)
def test_targets_are_exchangeable(case, seed):
    t, order = random_series(seed, LENGTH).t, np.random.default_rng(seed).permutation(LENGTH)
    z = draw(case, seed)
    one, _ = predict(process(case), z, t, ONE)
    other, _ = predict(process(case), z, t[order], ONE)
    close(jax.tree.map(lambda x: x[order], one), other)


@every_case
@given(seed=seeds, keep=st.integers(1, LENGTH))
def test_targets_are_consistent_so_a_draw_is_one_function(case, seed, keep):
    t, z = random_series(seed, LENGTH).t, draw(case, seed)
    others = random_series(seed + 1, LENGTH).t.at[:keep].set(t[:keep])
    one, _ = predict(process(case), z, t, ONE)
    other, _ = predict(process(case), z, others, ONE)
    close(jax.tree.map(lambda x: x[:keep], one), jax.tree.map(lambda x: x[:keep], other), 1e-6)


@over([name for name in ODE_CASES if name != "ndp, adaptive"])
@given(seed=seeds)
def test_a_longer_grid_leaves_the_shorter_one_as_it_was(case, seed):
    t, z = random_series(seed, LENGTH).t, draw(case, seed)
    close(path(process(case), z, t, ONE), path(process(case), z, t, TWO), 1e-6)


@every_ode_case
@given(seed=seeds)
def test_a_zero_field_keeps_the_state_where_it_was(case, seed):
    p, z = process(case), draw(case, seed)
    still = eqx.tree_at(lambda p: p.flow.field.net, p, jax.tree.map(jnp.zeros_like, p.flow.field.net))
    states, l = path(still, z, random_series(seed, LENGTH).t, ONE).states, p.l_dim
    if CASES[case].dynamics == "second":
        z = z.at[: l // 2].set(z[: l // 2]).at[l // 2 : l].set(0.0)  # without velocity, position stays
        states = path(still, z, random_series(seed, LENGTH).t, ONE).states
    close(states, jnp.broadcast_to(z[None, :l], states.shape), 1e-6)


@every_ode_case
def test_the_state_at_t0_is_the_start(case):
    z = draw(case, 3)
    found = path(process(case), z, jnp.zeros(LENGTH), ONE)
    close(found.states[0], z[: process(case).l_dim], 1e-6)
    assert found.ok.all()


@every_part
def test_a_batch_is_a_loop(case):
    batch = [some(case, i, i) for i in range(4)]
    together = jax.jit(jax.vmap(process(case).infer))(jax.tree.map(lambda *x: jnp.stack(x), *batch))
    for i, series in enumerate(batch):
        close(jax.tree.map(lambda x, i=i: x[i], together), infer(process(case), series))


@every_part
def test_compiled_and_plain_agree(case):
    t, z = random_series(0, LENGTH).t, draw(case, 0)
    close(process(case).predict(z, t, ONE), predict(process(case), z, t, ONE))


@every_case
@given(seed=seeds, count=counts)
def test_kl_is_never_negative_and_zero_when_the_context_is_the_target(case, seed, count):
    series = some(case, seed, LENGTH)
    context = series.mask & (jnp.arange(LENGTH) < count)[:, None]
    q_context, q_target = beliefs(process(case), Task(series, context, series.mask))
    assert float(q_target.kl(q_context).min()) >= -1e-6
    same = beliefs(process(case), Task(series, series.mask, series.mask))
    assert float(jnp.abs(same[1].kl(same[0])).max()) < 1e-5


@every_part
@given(seed=seeds, first=st.integers(0, 5), second=st.integers(0, 3))
def test_update_is_conditioning_on_everything(case, seed, first, second):
    series = jax.device_get(some(case, seed, first + second))
    t, y, key = series.t, np.where(series.mask, series.y, np.nan), jr.key(1)
    t = np.round(t, 1)  # so that there are ties
    n = first + second
    stepwise = model(case).condition(t[:first], y[:first], key=key, static=series.static).update(t[first:n], y[first:n])
    at_once = model(case).condition(t[:n], y[:n], key=key, static=series.static)
    close(stepwise.belief, at_once.belief)
    close(stepwise.sample(t, 3, of="function"), at_once.sample(t, 3, of="function"), 1e-4)


@every_case
def test_saved_and_loaded_models_predict_the_same_bits(case, tmp_path):
    series = jax.device_get(full(case, 0, 5))
    model(case).save(tmp_path / "model")
    again = odp.load(tmp_path / "model")
    assert again.spec == CASES[case]
    answers = [
        m.condition(series.t[:5], series.y[:5], key=jr.key(2), static=series.static).sample(series.t, 4)
        for m in (model(case), again)
    ]
    np.testing.assert_array_equal(*answers)


@every_part
@given(seed=seeds)
def test_joint_density_is_exchangeable_and_consistent(case, seed):
    series = jax.device_get(full(case, seed, LENGTH))
    posterior = model(case).condition(series.t[:2], series.y[:2], key=jr.key(1), static=series.static, draws=8)
    t, y, order = series.t[2:], series.y[2:], np.random.default_rng(seed).permutation(LENGTH - 2)
    whole = posterior.log_prob(t, y)
    np.testing.assert_allclose(posterior.log_prob(t[order], y[order]), whole, rtol=1e-4, atol=1e-4)
    # Integrating a value out is the same as not asking for it: NaN leaves it out.
    fewer = np.where((np.arange(LENGTH - 2) < 3)[:, None], y, np.nan)
    np.testing.assert_allclose(posterior.log_prob(t, fewer), posterior.log_prob(t[:3], y[:3]), rtol=1e-4, atol=1e-4)


def test_a_longer_adaptive_solve_agrees_to_its_tolerances():
    case = "ndp, adaptive"
    t, z = random_series(0, LENGTH).t, draw(case, 0)
    close(path(process(case), z, t, ONE), path(process(case), z, t, TWO), 1e-3)
