"""Data and scaling: the paper's families exactly, and units that go there and back."""

import jax
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, strategies as st

import odeprocess as odp

# form, interval: the paper's table, written out again
FORMS = {
    "sines": (lambda t, a, b: a * np.sin(t - b), (-np.pi, np.pi)),
    "exponentials": (lambda t, a, b: a / 60 * np.exp(t - b), (-1, 4)),
    "lines": (lambda t, a, b: a * t + b, (0, 5)),
    "oscillators": (lambda t, a, b: a * np.sin(t - b) * np.exp(-t / 2), (0, 5)),
}


@pytest.mark.parametrize("name", FORMS)
def test_curves_are_the_papers(name):
    form, (start, end) = FORMS[name]
    series = jax.device_get(odp.data.CURVES[name].sample(400, key=jr.key(0)))
    assert series.y.shape == (400, 100, 1) and series.mask.all()
    np.testing.assert_allclose(series.t[0], np.linspace(start, end, 100), atol=1e-6)
    assert odp.data.CURVES[name].t0 < start
    t, y = series.t[0].astype(np.float64), series.y[..., 0]
    # Each series must be a member of the family: a and b are found again by least squares.
    if name == "lines":
        a, b = np.linalg.lstsq(np.stack([t, np.ones(100)], -1), y.T, rcond=None)[0]
    else:
        basis = {
            "sines": [np.sin(t), -np.cos(t)],
            "oscillators": [np.sin(t) * np.exp(-t / 2), -np.cos(t) * np.exp(-t / 2)],
            "exponentials": [np.exp(t) / 60],
        }[name]
        found = np.linalg.lstsq(np.stack(basis, -1), y.T, rcond=None)[0]
        if name == "exponentials":
            np.testing.assert_allclose(found[0][:, None] * basis[0], y, atol=1e-5)
            assert np.abs(found[0]).max() < np.exp(0.5) and found[0].min() < -0.9 and found[0].max() > 0.9
            return
        b = np.arctan(found[1] / found[0])
        a = found[0] / np.cos(b)
    np.testing.assert_allclose(form(t, a[:, None], b[:, None]), y, atol=1e-4)
    assert -1 <= a.min() < -0.95 and 0.95 < a.max() <= 1.0001
    assert -0.5001 <= b.min() < -0.45 and 0.45 < b.max() <= 0.5001


def test_noise_has_the_spread_asked_for():
    clean, noisy = (odp.data.lines.sample(300, key=jr.key(0), noise=n).y for n in (0.0, 0.05))
    assert abs(float((noisy - clean).std()) - 0.05) < 1e-3


def test_lotka_volterra_conserves_its_quantity_and_solves_its_equations():
    system = odp.data.lotka_volterra
    series = system.sample(50, key=jr.key(0))
    assert series.y.shape == (50, 100, 2) and series.t[0, 0] == 0 and series.t[0, -1] == 1.5
    v = system.conserved(series.y)
    assert np.abs(v - v[:, :1]).max() < 1e-7
    start = series.y[:, 0]
    np.testing.assert_allclose(start[:, 0], 2 * start[:, 1], atol=1e-12)
    assert 0.25 <= start[:, 1].min() and start[:, 1].max() <= 1.0
    (u, w), h = series.y[0].T, 15 / 99
    np.testing.assert_allclose(np.gradient(u, h)[2:-2], (2 / 3 * u - 4 / 3 * u * w)[2:-2], atol=0.02)
    np.testing.assert_allclose(np.gradient(w, h)[2:-2], (u * w - w)[2:-2], atol=0.02)


@given(shift=st.floats(-1e9, 1e9), scale=st.floats(1e-6, 1e6), seed=st.integers(0, 1000))
def test_scaling_goes_there_and_back(shift, scale, seed):
    rng = np.random.default_rng(seed)
    y = shift + scale * rng.normal(size=(4, 9, 2))
    y[rng.random(y.shape) < 0.2] = np.nan
    y[:, 0] = shift
    series = odp.make_series(rng.uniform(shift, shift + scale, (4, 9)), y)
    scaling = odp.Scaling.fit(series)
    scaled = scaling.apply(series)
    rounding = 1e-6 + 4 * np.spacing(np.abs(series.t).max()) / scaling.t_scale  # the centre is rounded as times are
    assert np.abs(scaled.t).max() <= 2 + rounding and scaled.t.dtype == np.float32
    assert np.isfinite(scaled.y).all() and (scaled.y[~series.mask] == 0).all()
    back = scaling.values_to_user(scaled.y)
    tolerance = 1e-5 * max(scale, 1e-7 * abs(shift)) * 10
    np.testing.assert_allclose(back[series.mask], series.y[series.mask], atol=tolerance, rtol=1e-9)


def test_constant_channels_and_single_times_do_not_divide_by_zero():
    scaled = odp.Scaling.fit(odp.make_series([[5.0], [5.0]], [[3.0], [3.0]]))
    assert scaled.t_scale == 1.0 and scaled.y_scale.tolist() == [1.0]


def test_make_series_takes_every_form():
    one = odp.make_series([1.0, 0.0], [2.0, 3.0])
    many = odp.make_series(np.zeros((3, 2)), np.zeros((3, 2, 4)), static=np.ones((3, 1)))
    lists = odp.make_series([np.arange(3.0), np.arange(1.0), []], [np.zeros((3, 2)), np.full((1, 2), np.nan), []])
    assert (len(one), one.channels) == (1, 1) and (len(many), many.channels) == (3, 4)
    assert lists.observed.tolist() == [[True] * 3, [False] * 3, [False] * 3]
    assert lists.t.tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 0]], "padding repeats an observed time"
    with pytest.raises(TypeError, match="single series"):
        len(jax.tree.map(lambda x: x[0], one))


@pytest.mark.parametrize("name", odp.data.SOURCES)
def test_protocols_are_the_papers(name):
    protocol = odp.experiments.protocol(name)
    row = (
        protocol.train,
        protocol.test,
        protocol.batch_size,
        protocol.context,
        protocol.extra,
        protocol.test_context,
        protocol.epochs,
    )
    curve = (490, 10, 5, (1, 10), (0, 5), 10, 30)
    assert row == (curve if name != "lotka-volterra" else (40, 10, 5, (1, 100), (0, 45), 90, 100))
    tasks = protocol.test_tasks(protocol.series(3, key=jr.key(0)), key=jr.key(1))
    assert np.asarray(tasks.context.any(-1)).sum(-1).tolist() == [protocol.test_context] * 3 and np.asarray(tasks.target).all()
