"""Decoders: from the state l(t), the control d and the time t to the raw parameters of the likelihood."""

from abc import abstractmethod
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from .networks import Linear, Path, TimedMLP, network

Output = Literal["linear", "relu"]


class AbstractDecoder(eqx.Module):
    """To write a decoder, give it this one method."""

    @abstractmethod
    def __call__(self, l: Float[Array, "n l"], d: Float[Array, " d"], t: Float[Array, " n"]) -> Float[Array, "n out"]:
        """Raw likelihood parameters at every time of one trajectory."""


class PlainDecoder(AbstractDecoder):
    """W·h(l, d, t) + b, with h a ReLU network: the neural process's decoder."""

    net: TimedMLP

    def __init__(self, l_dim: int, d_dim: int, out_dim: int, width: int, *, depth: int = 2, key: Any):
        self.net = TimedMLP(l_dim, d_dim, out_dim, width, "relu", depth=depth, key=key)

    def __call__(self, l, d, t):
        return jax.vmap(self.net, (0, 0, None))(l, t, self.net.prepare(d))


class ResidualDecoder(AbstractDecoder):
    """W·[l ‖ h(l, d, t)] + b, with h a ReLU network: the state is read off linearly, h adds what a linear map cannot.

    The output of h is linear, or goes through another ReLU (`output="relu"`), as in the paper's released code.
    """

    net: TimedMLP
    readout: Linear
    output: Output = eqx.field(static=True)

    def __init__(self, l_dim: int, d_dim: int, out_dim: int, width: int, *, depth: int = 2, output: Output = "linear", key: Any):
        net_key, readout_key = jr.split(key)
        self.net = TimedMLP(l_dim, d_dim, width, width, "relu", depth=depth, key=net_key)
        self.readout = Linear(l_dim + width, out_dim, key=readout_key)
        self.output = output

    def __call__(self, l, d, t):
        h = jax.vmap(self.net, (0, 0, None))(l, t, self.net.prepare(d))
        h = jax.nn.relu(h) if self.output == "relu" else h
        return jax.vmap(self.readout)(jnp.concatenate([l, h], -1))


class SmoothDecoder(AbstractDecoder):
    """A linear map of (l, d, t), alone or with a tanh network beside it that begins at zero: smooth, so that curves are."""

    net: Any

    def __init__(self, l_dim: int, d_dim: int, out_dim: int, width: int, *, path: Path = "both", depth: int = 2, key: Any):
        self.net = network(path, l_dim, d_dim, out_dim, width, "tanh", depth=depth, key=key)

    def __call__(self, l, d, t):
        return jax.vmap(self.net, (0, 0, None))(l, t, self.net.prepare(d))


class LinearDecoder(AbstractDecoder):
    """W·l + b: for dynamics that are observed themselves."""

    readout: Linear

    def __init__(self, l_dim: int, out_dim: int, *, key: Any):
        self.readout = Linear(l_dim, out_dim, key=key)

    def __call__(self, l, d, t):
        return jax.vmap(self.readout)(l)
