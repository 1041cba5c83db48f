"""Tasks: what every draw obeys, whatever the sampler's options."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, strategies as st

import odeprocess as odp

BATCH, LENGTH = 6, 12


def ragged(seed: int) -> odp.Series:
    """Series of 1 to 12 observations, some points lacking a channel, times in no order."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, LENGTH + 1, BATCH)
    t = [rng.uniform(0, 1, n) for n in lengths]
    y = [rng.normal(size=(n, 2)) for n in lengths]
    for values in y:
        values[rng.random(len(values)) < 0.3, rng.integers(2)] = np.nan
    padded = odp.make_series([*t, np.linspace(0, 1, LENGTH)], [*y, rng.normal(size=(LENGTH, 2))])
    return jax.tree.map(jnp.asarray, odp.Scaling.identity(2).apply(padded))


SAMPLERS = [
    odp.TaskSampler(),
    odp.TaskSampler(context=(0, 3), extra=(0, 1), empty=0.5),
    odp.TaskSampler(context=(2, 30), extra=(1, 5), first_point=True, shared="nothing"),
    odp.TaskSampler(context=(4, 4), extra=None, shared="points", empty=0.5),
    odp.TaskSampler(context=(1, 10), extra=(1, 5), split="prefix", first_point=True),
    odp.TaskSampler(context=(0, 3), extra=None, split="prefix", shared="nothing"),
    odp.TaskSampler(context=(1, 10), extra=(1, 5), split="channel", shared="nothing", empty=0.5),
]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
draw = jax.jit(lambda sampler, series, key: sampler.draw(series, key=key), static_argnums=0)


@every_sampler
@given(seed=st.integers(0, 10_000))
def test_context_lies_inside_target_and_inside_what_was_observed(sampler, seed):
    series = ragged(seed)
    task = draw(sampler, series, jr.key(seed))
    context, target, mask = (np.asarray(x) for x in (task.context, task.target, task.points.mask))
    assert (context <= target).all() and (target <= mask).all()
    assert task.points.t.shape == (BATCH + 1, sampler.num_points(LENGTH))
    assert target.any((1, 2)).all(), "a task without targets teaches nothing"
    points, available = target.any(-1).sum(-1), np.asarray(series.observed).sum(-1)
    given_points = context.any(-1).sum(-1)
    assert (given_points <= np.minimum(sampler.context[1], available)).all()
    if sampler.extra is None:
        np.testing.assert_array_equal(points, available)
    if sampler.empty == 0 and sampler.split != "channel":
        assert (given_points >= np.minimum(sampler.context[0], available)).all()


@every_sampler
@given(seed=st.integers(0, 10_000))
def test_points_are_observations_of_their_own_series_and_none_comes_twice(sampler, seed):
    series = ragged(seed)
    task = jax.device_get(draw(sampler, series, jr.key(seed)))
    host = jax.device_get(series)
    for i in range(BATCH + 1):
        chosen = task.points.t[i][task.target[i].any(-1)]
        real = host.t[i][host.observed[i]]
        assert len(set(chosen.tolist())) == len(chosen) and set(chosen.tolist()) <= set(real.tolist())


@given(seed=st.integers(0, 10_000))
def test_first_point_is_the_earliest_and_always_in(seed):
    series = ragged(seed)
    task = jax.device_get(draw(odp.TaskSampler(context=(1, 4), extra=(1, 4), first_point=True), series, jr.key(seed)))
    host = jax.device_get(series)
    for i in range(BATCH + 1):
        assert task.points.t[i][task.context[i].any(-1)].min() == host.t[i][host.observed[i]].min()


@given(seed=st.integers(0, 10_000))
def test_prefix_context_comes_before_everything_else(seed):
    task = jax.device_get(
        draw(odp.TaskSampler(context=(1, 6), extra=(1, 6), split="prefix", empty=0.0), ragged(seed), jr.key(seed))
    )
    for i in range(BATCH + 1):
        context, target = task.context[i].any(-1), task.target[i].any(-1)
        later = task.points.t[i][target & ~context]
        assert later.size == 0 or task.points.t[i][context].max() <= later.min()


@given(seed=st.integers(0, 10_000))
def test_hidden_channel_is_missing_from_the_context_only(seed):
    task = jax.device_get(draw(odp.TaskSampler(context=(5, 5), extra=None, split="channel"), ragged(seed), jr.key(seed)))
    for i in range(BATCH + 1):
        assert (~task.context[i].any(0)).any()
        np.testing.assert_array_equal(task.target[i], task.points.mask[i])


def test_sizes_are_shared_by_a_batch_and_cover_their_range():
    series = odp.data.sines.sample(50, key=jr.key(0))
    select = jax.jit(lambda key: odp.TaskSampler(context=(1, 10), extra=(0, 5), empty=0.0).select(series, key=key))
    sample_latents = [jax.device_get(select(jr.key(i))) for i in range(300)]
    assert all(len(set(s.num_context.tolist())) == 1 for s in sample_latents)
    assert {int(s.num_context[0]) for s in sample_latents} == set(range(1, 11))
    assert {int(s.num_target[0] - s.num_context[0]) for s in sample_latents} == set(range(6))
    assert any((s.index[0, :5] != s.index[1, :5]).any() for s in sample_latents), "series draw their own points"
    own = odp.TaskSampler(shared="nothing").select(series, key=jr.key(0))
    assert len(set(np.asarray(own.num_context).tolist())) > 1
    same = odp.TaskSampler(shared="points").select(series, key=jr.key(0))
    assert (np.asarray(same.index) == np.asarray(same.index)[:1]).all()


def test_every_point_is_as_likely_as_any_other():
    series = odp.data.sines.sample(200, key=jr.key(0))
    select = jax.jit(lambda key: odp.TaskSampler(context=(10, 10), extra=(0, 0)).select(series, key=key).index)
    counts = np.bincount(np.concatenate([np.asarray(select(jr.key(i))).ravel() for i in range(50)]), minlength=100)
    expected = 200 * 50 * 10 / 100
    assert np.abs(counts - expected).max() < 6 * expected**0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": (3, 1)}, "0 ≤ least ≤ most"),
        ({"context": (0, 3), "first_point": True}, "context=\\(1"),
        ({"context": (0, 0), "extra": (0, 0)}, "no targets"),
        ({"split": "sideways"}, "`split` is 'sideways'"),
        ({"shared": "all"}, "`shared`"),
        ({"empty": 1.0}, "`empty`"),
        ({"empty": 0.1, "first_point": True}, "into every context"),
        ({"context": 5}, "`context` is 5"),
    ],
)
def test_impossible_samplers_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        odp.TaskSampler(**options)
