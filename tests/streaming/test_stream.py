"""Streams: whatever the order and grouping of observations, the posterior is that of all of them at once."""

import itertools

import hypothesis.strategies as st
import jax
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given

import odeprocess as odp
from cases import CASES, model as case_model, untrained
from odeprocess.inference import batched
from odeprocess.posterior.calibration import Calibration

KEY = jr.key(5)
TIMES = [0.1, 0.5, 0.9]


def observations(seed, count, channels=2, *, partial=False):
    rng = np.random.default_rng(seed)
    y = rng.uniform(0, 1, (count, channels))
    if partial:
        y[rng.random(y.shape) < 0.3] = np.nan
    return rng.choice(np.linspace(0, 1, 9), count), y  # times that tie


def from_first() -> odp.Model:
    """A model that counts time from the first observation of each series."""
    spec, scaling = CASES["ndp, first observation"], odp.Scaling.identity(2, 0, "first")
    spec = spec.replace(static_dim=0)
    return odp.Model(spec.build(key=jr.key(1)), spec, scaling)


@pytest.fixture(scope="module")
def first_model():
    return from_first()


def same_belief(one, other):
    for a, b in zip(jax.tree.leaves(one.belief), jax.tree.leaves(other.belief), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4))
def test_any_order_and_any_grouping_give_the_posterior_of_all_at_once(first_model, seed, count, groups):
    rng = np.random.default_rng(seed)
    series = {name: observations(seed + i, int(rng.integers(0, count + 1)), partial=True) for i, name in enumerate(["a", "b", 3])}
    rows = [(name, t, y) for name, (times, values) in series.items() for t, y in zip(times, values, strict=True)]
    order = rng.permutation(len(rows))
    stream = odp.Stream(first_model, key=KEY)
    stream.open(list(series))
    for part in np.array_split(order, groups):
        if len(part):
            names, t, y = zip(*(rows[i] for i in part), strict=True)
            stream.observe(names, t, y)
    for name, (t, y) in series.items():
        at_once = first_model.condition(t, y, key=stream.key(name))
        same_belief(stream.posterior(name), at_once)
        assert stream.count(name) == (~np.isnan(y).all(-1)).sum()


def test_a_posterior_of_a_stream_is_an_ordinary_one(two_channel_model):
    stream = odp.Stream(two_channel_model, key=KEY, draws=8)
    static = np.array([[0.5, -1.0], [2.0, 0.3]])
    stream.open(["a", "b"], static=static)
    (ta, ya), (tb, yb) = observations(1, 5, partial=True), observations(2, 3)
    stream.observe("a", ta[:2], ya[:2])
    stream.observe(["b", "a", "b", "a", "b", "a"], *(np.stack(x) for x in zip(*_mixed((ta[2:], ya[2:]), (tb, yb)), strict=True)))
    one = two_channel_model.condition(ta, ya, key=stream.key("a"), static=static[0], draws=8)
    found, both = stream.posterior("a"), stream.posterior(["a", "b"])
    np.testing.assert_allclose(found.mean(TIMES), one.mean(TIMES), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(both[0].sample(TIMES), one.sample(TIMES), rtol=1e-4, atol=1e-4)
    assert [len(t) for t, _ in both.observations] == [(~np.isnan(ya).all(-1)).sum(), 3]
    more = found.update(0.4, [1.0, 2.0])
    same_belief(more, one.update(0.4, [1.0, 2.0]))


def _mixed(a, b):
    pairs = [iter(zip(*b, strict=True)), iter(zip(*a, strict=True))]
    return [next(each) for each in itertools.islice(itertools.cycle(pairs), 6)]


def test_calibrated_intervals_find_the_observations(two_channel_model):
    calibrated = odp.Model(
        two_channel_model.process,
        two_channel_model.spec,
        two_channel_model.scaling,
        calibrations={"amortised": Calibration(2.0 * Calibration.none(1.0, None).factors, 1.0)},
    )
    plain, wide = (odp.Stream(model, key=KEY, draws=8) for model in (two_channel_model, calibrated))
    for stream in (plain, wide):
        stream.open("a", static=[0.0, 1.0])
        stream.observe("a", *observations(3, 4))
    ratio = wide.posterior("a").std(TIMES) / plain.posterior("a").std(TIMES)
    np.testing.assert_allclose(ratio, 2.0, rtol=1e-3)
    with pytest.raises(ValueError, match="leave `keep` at True"):
        odp.Stream(calibrated, key=KEY, keep=False)


def test_without_keeping_observations_memory_is_that_of_the_summaries(first_model):
    stream = odp.Stream(first_model, key=KEY, keep=False, draws=8)
    stream.open("b", origin=0.0)
    stream.observe(["a", "b"], [0.5, 0.5], np.ones((2, 2)))
    stream.observe("b", 0.2, [0.0, 1.0])  # its time begins at 0, so this is no surprise
    before = stream.posterior(["a", "b"])
    with pytest.raises(ValueError, match=r"open\(ids, origin=…\), or make the stream with keep=True"):
        stream.observe(["b", "a"], [0.3, 0.2], np.zeros((2, 2)))
    same_belief(stream.posterior(["a", "b"]), before)
    assert len(before) == 2 and before[1].sample(TIMES).shape == (8, 3, 2)
    for ask in (lambda: before.observations, lambda: before.with_inference("exact")):
        with pytest.raises(ValueError, match="which were not kept"):
            ask()


@pytest.mark.parametrize("inference", ["auto", "amortised"])
def test_streams_follow_the_inference_of_models(inference):
    linear = case_model("ndp-linear")
    stream = odp.Stream(linear, key=KEY, draws=8, inference=inference)
    t, y = observations(4, 5)
    static = np.zeros(linear.spec.static_dim)
    stream.open("a", static=static)
    stream.observe("a", t, y)
    at_once = linear.condition(t, y, key=stream.key("a"), static=static, draws=8, inference=inference)
    found = stream.posterior("a")
    assert found.inference == at_once.inference == ("exact" if inference == "auto" else "amortised")
    np.testing.assert_allclose(found.mean(TIMES), at_once.mean(TIMES), rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="pass inference='amortised'"):
        odp.Stream(linear, key=KEY, keep=False, inference="exact")
    assert odp.Stream(linear, key=KEY, keep=False).inference == "amortised"


def test_what_cannot_be_added_leaves_the_stream_as_it_was(first_model, two_channel_model):
    stream = odp.Stream(first_model, key=KEY)
    stream.observe("a", [0.5, 0.7], np.ones((2, 2)))
    before = stream.posterior("a")
    bad = {
        "as many": lambda: stream.observe(["a"], [0.1, 0.2], np.ones((2, 2))),
        "NaN or infinite": lambda: stream.observe(["a", "new"], [0.1, np.nan], np.ones((2, 2))),
        "`y` holds 1e\\+300, which is too large": lambda: stream.observe(["new", "a"], [0.6, 0.2], [[0.0, 0.0], [1e300, 0.0]]),
        "too far from where its series begins": lambda: stream.observe(["new", "a"], [0.6, -1e200], np.ones((2, 2))),
        "has 3 channel": lambda: stream.observe("a", [0.1], np.ones((1, 3))),
        "strings or whole numbers": lambda: stream.observe([("a",)], [0.1], np.ones((1, 2))),
        r"expected \[n\]": lambda: stream.observe("a", np.zeros((1, 1)), np.ones((1, 1, 2))),
        "open already": lambda: stream.open("a"),
        "twice": lambda: stream.open(["c", "c"]),
        "not in this stream, which has 1": lambda: stream.posterior("new"),
        "names no series": lambda: stream.posterior([]),
        "one random key": lambda: odp.Stream(first_model, key=3),
        "needs covariates": lambda: odp.Stream(two_channel_model, key=KEY).observe("a", [0.1], np.ones((1, 2))),
        "lacks a channel at index 1": lambda: odp.Stream(case_model("ndp, fixed noise"), key=KEY).observe(
            "a", [0.1, 0.2], [[1.0, 1.0], [np.nan, 1.0]]
        ),
    }
    for message, act in bad.items():
        with pytest.raises(ValueError, match=message):
            act()
    assert stream.ids == ["a"] and stream.count("a") == 2
    same_belief(stream.posterior("a"), before)


def test_forgotten_series_leave_no_trace_and_their_room_is_used_again(first_model):
    stream, rng = odp.Stream(first_model, key=KEY), np.random.default_rng(0)
    alone = odp.Stream(first_model, key=KEY)
    for turn in range(12):
        names = [f"{turn}-{i}" for i in range(40)]
        stream.observe(np.repeat(names, 10).tolist(), rng.uniform(0, 1, 400), rng.uniform(0, 1, (400, 2)))
        if turn == 5:
            t, y = observations(7, 6)
            stream.observe("kept", t, y)
            alone.observe("kept", t, y)
        stream.forget(names)
    assert stream.ids == ["kept"] and "0-0" not in stream and len(stream) == 1
    same_belief(stream.posterior("kept"), alone.posterior("kept"))
    assert (stream.posterior("kept").observations[0] == t).all()
    assert len(stream._summaries) <= 64 and len(stream._log.t) < 4000


def test_saved_and_loaded_it_goes_on_bit_by_bit(first_model, two_channel_model, tmp_path):
    stream, path = odp.Stream(first_model, key=KEY, draws=8), tmp_path / "deep" / "stream.safetensors"
    stream.observe(["gone", "a", 7, "a"], [0.1, 0.5, 0.4, 0.6], np.random.default_rng(0).uniform(size=(4, 2)))
    stream.forget("gone")
    stream.save(path)
    again = odp.Stream.load(path, first_model)
    assert again.ids == stream.ids == ["a", 7]
    for each in (stream, again):
        each.observe(["a", 7], [0.3, 0.9], np.ones((2, 2)))  # before the first of "a": encoded anew
    for name in ("a", 7):
        assert (again.posterior(name).sample(TIMES) == stream.posterior(name).sample(TIMES)).all()
    with pytest.raises(ValueError, match="belongs to another model"):
        odp.Stream.load(path, two_channel_model)
    with pytest.raises(FileNotFoundError, match=r"Expected a file that `Stream\.save` wrote"):
        odp.Stream.load(tmp_path / "nowhere", first_model)
    whole = path.read_bytes()
    for damaged in (whole[:100], whole[:-1] + bytes([whole[-1] ^ 1]), b"nonsense"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            odp.Stream.load(path, first_model)


def test_observations_compile_once_for_each_bucket():
    spec = odp.variant("np", r_dim=5, z_dim=5, l_dim=5, h_dim=5)
    stream = odp.Stream(untrained(spec, odp.data.lines.sample(4, key=KEY)), key=KEY)
    before = batched.summarise._cache_size()
    for n in range(33, 65):
        stream.observe([f"{n}-{i % 5}" for i in range(n)], np.linspace(0, 1, n), np.zeros(n))
    assert batched.summarise._cache_size() - before == 1
