"""Parts that a user writes, in a spec: how they are made, named and checked; and the depth of every network."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
import own_parts
from odeprocess.common.distributions import Normal
from odeprocess.process import AbstractField, Linear, OdeFlow, Spec

KNOWN = {"channels": 1, "static_dim": 0, "missing": False, "t0": 0.0, "horizon": 1.0}
KEY = jr.key(0)


def spec_with(**changes) -> Spec:
    return odp.variant("ndp-l", **{**own_parts.SIZES, **KNOWN, **changes})


# --- Parts ---------------------------------------------------------------------------------------------------------------


def test_parts_take_their_places_and_ours_stay_as_they_were():
    own, ours = spec_with(**own_parts.PARTS).build(key=KEY), spec_with().build(key=KEY)
    assert isinstance(own.flow, OdeFlow) and isinstance(own.flow.field, own_parts.Pendulum)
    assert isinstance(own.decoder, own_parts.Bob) and isinstance(own.likelihood, own_parts.StudentTLikelihood)
    assert eqx.tree_equal(own.inference, ours.inference)
    distribution, ok = own.predict(jnp.ones(3), jnp.linspace(0.0, 1.0, 5))
    assert distribution.mean.shape == (5, 1) and ok.all()


@pytest.mark.parametrize(
    "option, part", [("encoder", own_parts.ValuesOnly), ("flow", own_parts.Decay), ("field", own_parts.Learned)]
)
def test_encoders_flows_and_networks_of_other_libraries_can_be_parts(option, part):
    spec = spec_with(**{option: part})
    process = jax.jit(lambda key: spec.build(key=key))(KEY)
    series = odp.Series(jnp.zeros(2), jnp.ones((2, 1)), jnp.ones((2, 1), bool), jnp.zeros(0))

    @jax.jit
    @jax.grad
    def gradient(process):
        z = process.infer(series).loc
        return process.predict(z, jnp.linspace(0.0, 1.0, 4))[0].mean.sum()

    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(process)))
    assert eqx.tree_equal(jax.tree.structure(process), jax.tree.structure(spec.build(key=KEY)))


def test_a_part_begins_with_the_weights_it_was_written_with():
    class Rotation(AbstractField):
        """Linear, with one of the library's own layers inside, which other networks start wider."""

        layer: Linear

        def __init__(self, *, key):
            self.layer = Linear(2, 2, key=key)

        def prepare(self, d):
            return None

        def velocity(self, t, l, prepared):
            return self.layer(l)

    process = spec_with(field=Rotation).build(key=KEY)
    assert np.abs(process.flow.field.layer.weight).max() <= 2**-0.5 and np.any(process.flow.field.layer.bias)


def test_a_function_can_make_a_part():
    def steep(spec):
        return own_parts.Bob(spec)

    assert spec_with(decoder=steep, likelihood=own_parts.StudentTLikelihood).to_json()["decoder"] == {"part": "steep"}


def test_a_spec_with_parts_is_data_and_names():
    spec = spec_with(**own_parts.PARTS)
    data = spec.to_json()
    assert [data[name] for name in own_parts.PARTS] == [{"part": part.__name__} for part in own_parts.PARTS.values()]
    assert Spec.from_json(data, own_parts.PARTS.values()) == spec and hash(spec) == hash(spec.replace(l_dim=2))
    assert spec.out_dim == 1 and spec_with().out_dim == 2 and spec.d_dim == 1 and spec.code_dim == 8
    with pytest.raises(
        ValueError, match=r"the field `Pendulum` and .*load\(folder, parts=\[Pendulum, Bob, StudentTLikelihood\]\)"
    ):
        Spec.from_json(data)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"field": lambda spec: None}, "whose name is '<lambda>'.*write a class or a `def`"),
        ({"field": own_parts.Pendulum()}, "expected a class, or a function that makes one"),
        ({"field": "Pendulum"}, "`field` is 'Pendulum'; expected a class"),
        ({"field": functools.partial(own_parts.Pendulum)}, "whose name is None"),
        ({"field": type("P" * 65, (own_parts.Pendulum,), {})}, "a name of at most 64"),
        ({"likelihood": "poisson"}, "`likelihood` is 'poisson'; expected one of 'gaussian', 'bernoulli', or a class"),
        ({"likelihood": 3}, "`likelihood` is 3; expected one of"),
        ({"field": own_parts.Pendulum, "flow": own_parts.Decay}, "Both `field` and `flow` are given"),
        ({"field": own_parts.Pendulum, "dynamics": "none"}, r"has no dynamics.*variant\('ndp', field=…\)"),
        ({"field": own_parts.Pendulum, "decoder": type("Pendulum", (own_parts.Bob,), {})}, "both called Pendulum"),
    ],
)
def test_what_cannot_be_a_part_is_refused_when_the_spec_is_made(changes, message):
    with pytest.raises(ValueError, match=message):
        spec_with(**changes)


class Bare(own_parts.Pendulum):
    """A pendulum to make mistakes with."""

    def __init__(self):
        self.log_damping = jnp.zeros(())


class NeedsMore(Bare):
    """Asks for something that it is not given."""

    def __init__(self, stiffness):
        self.log_damping = stiffness


class NotStatic(Bare):
    """Holds a plain number."""

    gravity: float

    def __init__(self):
        self.log_damping, self.gravity = jnp.zeros(()), 9.81


class Whole(Bare):
    """Holds whole numbers."""

    def __init__(self):
        self.log_damping = jnp.zeros((), jnp.int32)


class OneTooFew(Bare):
    """Forgets the speed."""

    def velocity(self, t, l, prepared):
        return -prepared * jnp.sin(l[:1])


class NotAnArray(Bare):
    """Returns a tuple."""

    def velocity(self, t, l, prepared):
        return l[1], -l[0]


class Broken(Bare):
    """Multiplies what does not fit."""

    def velocity(self, t, l, prepared):
        return jnp.ones((3, 3)) @ l


class Turned(own_parts.Bob):
    """Returns times last."""

    def __call__(self, l, d, t):
        return jnp.sin(l[:, :1]).T


class TwoNumbers(own_parts.Bob):
    """Returns two numbers, of which the likelihood takes one."""

    def __call__(self, l, d, t):
        return l


class NoDistribution(own_parts.StudentTLikelihood):
    """Returns raw numbers."""

    def __call__(self, raw):
        return raw


class OneScale(own_parts.StudentTLikelihood):
    """Its parameters differ in shape."""

    def __call__(self, raw):
        return own_parts.StudentT(raw, jnp.exp(self.log_scale))


class SaysNormal(own_parts.StudentTLikelihood):
    """Claims to be normal."""

    normal = True


class Aggregates(own_parts.ValuesOnly):
    """Sums up what it should not."""

    def features(self, series):
        return self.net.features(series.y.mean(0))


class NoTimes(own_parts.Decay):
    """Gives the end alone."""

    def __call__(self, l0, d, t, extent):
        return own_parts.Path(l0[None], jnp.ones(1, bool))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"field": own_parts.Bob}, "`field` is `Bob`, which makes a Bob; expected a part that is an AbstractField"),
        ({"field": NeedsMore}, "`NeedsMore` needs `stiffness`, but a part is made with `spec` and `key` alone"),
        ({"field": NotStatic}, r"`NotStatic.gravity` is 9.81, which cannot be trained.*equinox.field\(static=True\)"),
        ({"field": Whole}, "`Whole.log_damping` is .* which cannot be trained"),
        ({"field": OneTooFew}, r"`OneTooFew.velocity\(t, l, prepared\)` has shape \(1,\); expected \(2,\)"),
        ({"field": NotAnArray}, "is a tuple; expected an array"),
        ({"decoder": Turned}, r"`Turned\(l, d, t\)` has shape \(1, \d+\); expected \(\d+, 1\)"),
        ({"decoder": TwoNumbers}, "has shape .*, 2.; expected .*, 1.: .times, 1., the raw numbers that the likelihood takes"),
        ({"likelihood": NoDistribution}, r"`NoDistribution\(raw\)` is .*; expected a distribution"),
        ({"likelihood": OneScale}, r"`OneScale\(raw\).scale` has shape \(1,\)"),
        ({"likelihood": SaysNormal}, "`SaysNormal.normal` is True"),
        ({"encoder": Aggregates}, r"`Aggregates.features\(series\)` has shape \(8,\)"),
        ({"flow": NoTimes, "field": None}, r"states` has shape \(1, 2\)"),
    ],
)
def test_mistakes_in_a_part_are_told_before_anything_is_compiled(changes, message):
    spec = odp.variant("ndp-l", **own_parts.SIZES, **{**own_parts.PARTS, **changes})
    with pytest.raises(ValueError, match=message):
        odp.fit(own_parts.pendulums(4, 0), spec, options=odp.FitOptions(epochs=1))


def test_an_error_inside_a_part_says_which_part_was_tried():
    with pytest.raises(TypeError) as caught:
        spec_with(field=Broken).build(key=KEY)
    assert "the field `Broken` was tried on arrays of zeros" in " ".join(caught.value.__notes__)


def test_quantiles_and_calibration_follow_from_a_distribution_function():
    loc, scale = jr.normal(jr.key(1), (5, 3, 1)), jnp.exp(jr.normal(jr.key(2), (5, 3, 1)))
    made = own_parts.StudentT(loc, scale)
    for q in (0.01, 0.5, 0.95):
        value = made.mixture_quantile(jnp.asarray(q))
        np.testing.assert_allclose(made.cdf(value[None]).mean(0), q, atol=1e-5)
    wide = made.rescale(made.mean.mean(0, keepdims=True), jnp.full((1, 3, 1), 2.0))
    assert wide is not None
    np.testing.assert_allclose(wide.std, 2.0 * made.std, rtol=1e-6)
    middle = made.mean.mean(0)
    np.testing.assert_allclose(
        wide.mixture_quantile(jnp.asarray(0.9)) - middle, 2.0 * (made.mixture_quantile(jnp.asarray(0.9)) - middle), rtol=1e-4
    )
    y = jnp.linspace(-200.0, 200.0, 200_001)[:, None, None]
    density = jnp.exp(jax.tree.map(lambda x: x[:1], wide).log_prob(y))
    np.testing.assert_allclose(density.sum(0) * 0.002, 1.0, atol=1e-3)
    normal = Normal(loc, scale)
    np.testing.assert_allclose(normal.cdf(normal.mixture_quantile(jnp.asarray(0.3))[None]).mean(0), 0.3, atol=1e-5)


# --- Depth ---------------------------------------------------------------------------------------------------------------


def shapes(layers) -> list[tuple[int, int]]:
    return [layer.weight.shape for layer in layers]


def test_the_depth_of_every_network_is_an_option():
    spec = odp.variant("ndp", r_dim=5, z_dim=4, l_dim=2, h_dim=7, **KNOWN)
    process = spec.replace(encoder_depth=1, head_depth=2, field_depth=3, decoder_depth=4).build(key=KEY)
    assert shapes(process.inference.encoder.net.layers) == [(7, 2), (5, 7)]
    assert shapes(process.inference.head.net.layers) == [(7, 5), (7, 7), (8, 7)]
    assert shapes(process.flow.field.net.net.layers) == [(7, 5), (7, 7), (7, 7), (2, 7)]
    assert shapes(process.decoder.net.net.layers) == [(7, 5), (7, 7), (7, 7), (7, 7), (7, 7)]
    for name in ("ndp-skip", "image-ndp", "latent-ode"):
        image = name.startswith("image")
        pixels = {"image": (16, 16), "channels": 256} if image else {}
        small = odp.variant(name, r_dim=5, z_dim=4, l_dim=2, h_dim=7, **{**KNOWN, **pixels})
        count = [len(jax.tree.leaves(s.build(key=KEY))) for s in (small, small.replace(field_depth=3, head_depth=2))]
        assert count[1] == count[0] + (6 if image else 4)  # a weight and a bias for each new layer
    with pytest.raises(ValueError, match="`field_depth` is 0; expected a whole number from 1 to 64"):
        spec.replace(field_depth=0)


def test_the_fused_kernel_leaves_other_depths_to_the_plain_steps():
    t, z = jnp.linspace(0.0, 1.0, 4), jnp.ones(4)
    for depth, fits in ((1, False), (2, True), (3, False)):
        spec = odp.variant("ndp-skip", r_dim=5, z_dim=4, l_dim=2, h_dim=7, field_depth=depth, **KNOWN)
        found = []
        for fused in (True, False):
            process = spec.replace(solver=odp.Grid(steps=2, order=2, fused=fused)).build(key=KEY)
            field = process.flow.field
            assert (field.layers(field.prepare(z[2:])) is not None) == fits
            found.append(process.path(z, t).states)
        np.testing.assert_allclose(*found, rtol=1e-5)


# The released code's networks (SPEC of the paper's code: sizes by model, three hidden layers in every decoder, a head each for
# l(t0) and d, σ that begins at sigmoid(0) and softplus(0)).
RELEASED = {"heads": "separate", "latent_start": 0.0, "noise_start": 0.0, "noise_floor": 0.1, "start": "pytorch"}


def test_the_released_codes_np_can_be_had():
    process = odp.variant("np", decoder_depth=3, **{**RELEASED, "heads": "shared"}, **KNOWN).build(key=KEY)
    assert shapes(process.inference.encoder.net.layers) == [(60, 2), (60, 60), (60, 60)]
    assert shapes(process.inference.head.net.layers) == [(60, 60), (120, 60)]
    assert shapes(process.decoder.net.net.layers) == [(60, 61), (60, 60), (60, 60), (2, 60)]


@pytest.mark.parametrize(
    "name, r, l, order", [("ndp", 50, 10, 1), ("nd2p", 50, 14, 2), ("ndp-l", 60, 10, 1), ("nd2p-l", 60, 14, 2)]
)
def test_the_released_codes_ode_processes_can_be_had(name, r, l, order):
    process = odp.variant(name, residual_output="relu", **RELEASED, **KNOWN).build(key=KEY)
    assert shapes(process.inference.encoder.net.layers) == [(r, 2), (r, r), (r, r)]
    position, control = process.inference.head.heads
    assert shapes(position.net.layers) == [(r, r), (2 * l, r)] and shapes(control.net.layers) == [(r, r), (2 * (r - l), r)]
    assert shapes(process.flow.field.net.net.layers) == [(r, r + 1), (r, r), (l // order, r)]
    if name.endswith("-l"):
        assert process.decoder.readout.weight.shape == (2, l)
    else:
        assert shapes(process.decoder.net.net.layers) == [(r, r + 1), (r, r), (r, r)]  # all followed by a ReLU
        assert process.decoder.readout.weight.shape == (2, l + r)


def test_the_released_codes_formulas_hold():
    """Codes, both heads, the decoder and σ, written out in NumPy from the layers' weights."""
    spec = odp.variant("ndp", residual_output="relu", r_dim=6, z_dim=5, l_dim=2, h_dim=6, **RELEASED, **KNOWN)
    process = spec.build(key=KEY)
    rng = np.random.default_rng(0)
    t, y, l, d = rng.normal(size=4), rng.normal(size=(4, 1)), rng.normal(size=(4, 2)), rng.normal(size=3)

    def chain(layers, x):  # linear at the end
        for i, layer in enumerate(layers):
            x = x @ np.asarray(layer.weight, float).T + np.asarray(layer.bias, float)
            x = np.maximum(x, 0.0) if i < len(layers) - 1 else x
        return x

    r = chain(process.inference.encoder.net.layers, np.concatenate([t[:, None], y], 1)).mean(0)
    raw = [np.split(chain(head.net.layers, r), 2) for head in process.inference.head.heads]
    loc, scale = np.concatenate([m for m, _ in raw]), np.concatenate([0.1 + 0.9 / (1.0 + np.exp(-s)) for _, s in raw])
    found = process.infer(odp.Series(*(jnp.asarray(x, jnp.float32) for x in (t, y)), jnp.ones((4, 1), bool), jnp.zeros(0)))
    np.testing.assert_allclose(found.loc, loc, atol=1e-5)
    np.testing.assert_allclose(found.scale, scale, atol=1e-5)
    h = np.maximum(chain(process.decoder.net.net.layers, np.concatenate([l, np.tile(d, (4, 1)), t[:, None]], 1)), 0.0)
    mean, pre = np.split(chain([process.decoder.readout], np.concatenate([l, h], 1)), 2, 1)
    predicted = process.likelihood(process.decoder(*(jnp.asarray(x, jnp.float32) for x in (l, d, t))))
    np.testing.assert_allclose(predicted.mean, mean, atol=1e-5)
    np.testing.assert_allclose(predicted.std, 0.1 + 0.9 * np.log1p(np.exp(pre)), atol=1e-5)


def test_sigma_begins_where_the_spec_says():
    for start, low, high in ((0.0, 0.45, 0.65), (-2.0, 0.15, 0.25)):
        spec = odp.variant("ndp", latent_start=start, heads="separate", **KNOWN)
        series = odp.Series(jnp.zeros(1), jnp.zeros((1, 1)), jnp.zeros((1, 1), bool), jnp.zeros(0))
        assert low < float(spec.build(key=KEY).infer(series).scale.mean()) < high
