"""Parts as a user writes them: a pendulum seen from the side, measured with errors that are large now and then."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

import odeprocess as odp
from odeprocess.process import (
    MLP,
    AbstractContinuous,
    AbstractDecoder,
    AbstractEncoder,
    AbstractField,
    AbstractFlow,
    AbstractLikelihood,
    Extent,
    Path,
)


class Pendulum(AbstractField):
    """The states are angle and speed; the control's first number is the logarithm of the stiffness."""

    log_damping: Array

    def __init__(self):
        self.log_damping = jnp.asarray(-2.0)

    def prepare(self, d):
        return jnp.exp(d[0])

    def velocity(self, t, l, prepared):
        return jnp.stack([l[1], -prepared * jnp.sin(l[0]) - jnp.exp(self.log_damping) * l[1]])


class Bob(AbstractDecoder):
    """The horizontal position of the bob."""

    log_length: Array

    def __init__(self, spec):
        self.log_length = jnp.zeros(spec.out_dim)

    def __call__(self, l, d, t):
        return jnp.exp(self.log_length)[None] * jnp.sin(l[:, :1])


class StudentT(AbstractContinuous):
    """Student's t with four degrees of freedom."""

    loc: Array
    scale: Array

    @property
    def mean(self):
        return self.loc

    @property
    def std(self):
        return 2.0**0.5 * self.scale

    def log_prob(self, y):
        return jax.scipy.stats.t.logpdf(y, 4.0, self.loc, self.scale)

    def cdf(self, y):
        x = (y - self.loc) / self.scale
        s = x / jnp.sqrt(4.0 + x**2)
        return 0.5 + 0.25 * s * (3.0 - s**2)

    def sample(self, key):
        return self.loc + self.scale * jr.t(key, 4.0, self.loc.shape, self.loc.dtype)


class StudentTLikelihood(AbstractLikelihood):
    """The observations are off by Student's t; its scale is learned."""

    log_scale: Array

    def __init__(self, spec):
        self.log_scale = jnp.full(spec.channels, -2.0)

    def num_raw(self, channels):
        return channels

    def __call__(self, raw):
        return StudentT(raw, jnp.broadcast_to(jnp.exp(self.log_scale), raw.shape))


class Learned(AbstractField):
    """Any autonomous field, as a network of Equinox with a function inside."""

    net: eqx.nn.MLP

    def __init__(self, spec, *, key):
        self.net = eqx.nn.MLP(spec.l_dim, spec.l_dim, spec.h_dim, 1, activation=jnp.tanh, key=key)

    def prepare(self, d):
        return None

    def velocity(self, t, l, prepared):
        return self.net(l)


class Decay(AbstractFlow):
    """l(t) = l(t0)·exp(−(t − t0)), a closed form."""

    t0: float = eqx.field(static=True)

    def __init__(self, spec):
        self.t0 = spec.t0

    def extent(self, low, high):
        return Extent()

    def __call__(self, l0, d, t, extent):
        return Path(l0[None] * jnp.exp(self.t0 - t)[:, None], jnp.ones(t.shape, bool))


class ValuesOnly(AbstractEncoder):
    """Codes of the values alone."""

    net: MLP
    missing: bool = eqx.field(static=True)
    aggregation: str = eqx.field(static=True)

    def __init__(self, spec, *, key):
        self.net = MLP(spec.channels, spec.code_dim, spec.h_dim, 1, "relu", key=key)
        self.missing, self.aggregation = spec.missing, spec.aggregation

    def features(self, series):
        return jax.vmap(self.net.features)(jnp.where(series.mask, series.y, 0.0))


PARTS = {"field": Pendulum, "decoder": Bob, "likelihood": StudentTLikelihood}
SIZES = {"l_dim": 2, "z_dim": 3, "h_dim": 8, "r_dim": 8, "solver": odp.Grid(steps=4, order=2)}


def pendulums(count: int, seed: int) -> odp.Series:
    """Pendulums let go at some angle, seen at twelve random times."""
    rng = np.random.default_rng(seed)
    angle, speed, stiffness = rng.uniform(-1.5, 1.5, count), np.zeros(count), rng.uniform(0.5, 2.0, count)
    times, path = np.linspace(0.0, 10.0, 1001), []
    for _ in times:
        path.append(np.sin(angle))
        speed = speed - 0.01 * (stiffness * np.sin(angle) + 0.1 * speed)
        angle = angle + 0.01 * speed
    t = np.sort(rng.uniform(0.0, 10.0, (count, 12)))
    y = np.stack([np.interp(t[i], times, np.array(path)[:, i]) for i in range(count)])
    return odp.make_series(t, y + 0.05 * rng.standard_t(4, y.shape))
