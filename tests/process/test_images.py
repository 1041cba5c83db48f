"""Images: the convolutions are convolutions, and digits turn as they should."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, strategies as st

import odeprocess as odp
from conftest import needs_data
from odeprocess.data.sources.images import restarted, without
from odeprocess.process.images import Conv, ImageDecoder, Widen

NHWC = ("NHWC", "HWIO", "NHWC")
sides = st.integers(5, 9)


@given(sides, sides, st.sampled_from([(3, 1, 2), (5, 1, 2), (5, 2, 2)]), st.integers(0, 99))
def test_conv_is_a_convolution(height, width, shape, seed):
    kernel, stride, padding = shape
    conv = Conv(3, 4, kernel, stride, padding, key=jr.key(seed))
    x = jr.normal(jr.key(seed + 1), (height, width, 3))
    weights = conv.weight.reshape(kernel, kernel, 3, 4).transpose(1, 0, 2, 3)  # patches go by column, then by row
    pads = [(padding, padding)] * 2
    expected = jax.lax.conv_general_dilated(x[None], weights, (stride, stride), pads, dimension_numbers=NHWC)[0]
    np.testing.assert_allclose(conv(x), expected, atol=1e-5)


@given(sides, sides, st.booleans(), st.booleans(), st.integers(0, 99))
def test_widen_is_a_transposed_convolution(height, width, more_rows, more_columns, seed):
    shape = (2 * height + 1 + more_rows, 2 * width + 1 + more_columns)
    widen = Widen(3, 4, shape, key=jr.key(seed))
    x = jr.normal(jr.key(seed + 1), (height, width, 3))
    weights = widen.weight.transpose(1, 2, 0, 3)[::-1, ::-1]
    pads = [(3, 3 + more_rows), (3, 3 + more_columns)]
    expected = jax.lax.conv_general_dilated(x[None], weights, (1, 1), pads, lhs_dilation=(2, 2), dimension_numbers=NHWC)[0]
    np.testing.assert_allclose(widen(x), expected, atol=1e-5)


@pytest.mark.parametrize("image", [(16, 16), (17, 22), (28, 28), (31, 40)])
def test_the_decoder_draws_images_of_the_size_asked_for(image):
    shape = jax.eval_shape(
        lambda: ImageDecoder(3, image, timed=True, key=jr.key(0))(jnp.zeros((2, 3)), jnp.zeros(0), jnp.zeros(2))
    ).shape
    assert shape == (2, image[0] * image[1])


def test_image_specs_are_checked():
    with pytest.raises(ValueError, match="`image` is None"):
        odp.variant("ndp", readout="deconvolution")
    with pytest.raises(ValueError, match="784 pixels"):
        odp.variant("image-ndp", channels=100)
    with pytest.raises(ValueError, match="σ cannot come from it"):
        odp.variant("image-np", likelihood="gaussian")
    with pytest.raises(ValueError, match="at least 16 pixels"):
        odp.variant("image-np", image=(8, 8), channels=64, static_dim=0, missing=False, t0=0.0, horizon=1.0).build(key=jr.key(0))


def blob(seed: int) -> np.ndarray:
    """A bump of curvature 1/4 that fades before the edge, so that turning loses nothing."""
    a, b = np.random.default_rng(seed).uniform(9, 18, 2)
    rows, columns = np.mgrid[:28, :28]
    return np.exp(-((rows - a) ** 2 + (columns - b) ** 2) / 8).astype(np.float32)[None]


@given(st.integers(0, 99), st.floats(0, 360, width=32))
def test_turning_there_and_back_is_nothing_but_blur(seed, angle):
    image = blob(seed)
    there = odp.data.rotate(image, jnp.array([[angle]]))[:, 0]
    back = odp.data.rotate(there, jnp.array([[-angle]]))[:, 0]
    # Linear interpolation errs by up to an eighth of the curvature along each axis, here twice.
    np.testing.assert_allclose(back, image, atol=2 * 2 * 0.25 / 8)
    np.testing.assert_allclose(there.sum(), image.sum(), rtol=2e-2)


@given(st.integers(0, 99))
def test_quarter_turns_are_exact_and_anticlockwise(seed):
    image = blob(seed)
    turned = odp.data.rotate(image, jnp.array([[0.0, 90.0, 180.0, 270.0]]))
    for quarter in range(4):
        np.testing.assert_allclose(turned[0, quarter], np.rot90(image[0], quarter), atol=2e-5)


@pytest.mark.parametrize("source", [odp.data.rotating, odp.data.variable_rotating], ids=lambda source: source.name)
def test_training_series_lack_the_frames_they_should(source):
    series = source.turn(np.concatenate([blob(i) for i in range(12)]), key=jr.key(0), frames=16)
    thin = source.thinned(series, key=jr.key(1))
    assert thin.observed[:, 0].all() and series.observed.all()
    assert (thin.observed.sum(1) == 16 - source.dropped - (source.removed is not None)).all()
    if source.removed is not None:
        assert not thin.observed[:, source.removed].any()
    np.testing.assert_array_equal(thin.y[thin.mask], series.y[thin.mask])
    assert (thin.y[~thin.mask] == 0).all() and series.y.min() >= 0 and series.y.max() <= 1


def test_a_digit_that_turns_alike_comes_round_after_sixteen_frames():
    series = odp.data.rotating.turn(blob(0), key=jr.key(0), frames=17)
    np.testing.assert_allclose(series.y[0, 16], series.y[0, 0], atol=1e-4)
    np.testing.assert_allclose(series.t[0, :3], [0.0, 0.1, 0.2], atol=1e-6)


@given(st.integers(0, 99), st.integers(1, 4))
def test_a_restarted_series_is_the_series_from_a_later_frame(seed, starts):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 5, (3, 8)), 1)
    series = odp.make_series(t, rng.normal(size=(3, 8)))
    series = without(series, rng.random((3, 8)) < 0.3) if seed % 2 else series
    if (series.observed.sum(1) < starts).any():
        return
    again = restarted(series, starts)
    assert len(again) == 3 * starts
    for start in range(starts):
        for i in range(3):
            seen, kept = series.observed[i], again[3 * start + i]
            expected_t, expected_y = t[i][seen][start:], series.y[i][seen][start:]
            np.testing.assert_allclose(kept.t[kept.observed], expected_t - expected_t[0])
            np.testing.assert_array_equal(kept.y[kept.observed], expected_y)
            assert kept.t.min() == 0.0


@needs_data
def test_digits_are_read_and_splits_share_none():
    from odeprocess.experiments.paper.data_splits import split
    from odeprocess.experiments.paper.protocol import protocol

    images, labels = odp.data.load_digits("test")
    assert images.shape == (10000, 28, 28) and labels[:4].tolist() == [7, 2, 1, 0]
    assert len(odp.data.rotating.images()) == 6131
    how = protocol("rotating-mnist").replace(train=30, validation=10, test=20)
    parts = split(how)
    first = [np.asarray(part.y[:, 0]) for part in (parts.train, parts.validation, parts.tests["test"].tasks.points)]
    everything = np.concatenate(first)
    assert len(np.unique(everything, axis=0)) == len(everything) == 60
    tasks = parts.tests["test"].tasks
    given_frames = np.asarray(tasks.context).any(-1)
    assert (given_frames.sum(1) == 5).all() and given_frames[:, 0].all()
    assert not given_frames[:, 3].any() and not given_frames[:, 16:].any()
    np.testing.assert_array_equal(parts.tests["training-digits"].tasks.points.y[:, 0], first[0][:20])


@needs_data
def test_letters_are_read_in_an_order_of_their_own():
    letters = odp.data.load_characters()
    assert len(letters) == 2858 and letters.series.y.shape == (2858, 205, 2)
    lengths = letters.series.observed.sum(1)
    assert lengths.min() == 109 and lengths.max() == 205
    assert sorted(set(letters.letters)) == list("abcdeghlmnopqrsuvwyz") and (letters.letters == "a").sum() == 171
    np.testing.assert_allclose(letters.series.t[0, 1] - letters.series.t[0, 0], 1 / 204)
