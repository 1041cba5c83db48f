"""The networks that the parts are made of: small multilayer perceptrons.

Activations are named, so that a network is a pure tree of arrays: it can be passed to `jax.jit` and saved as it is.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from odeprocess.common import checks

Path = Literal["network", "linear", "both"]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
}


class Linear(eqx.Module):
    """x ↦ Wx + b, with W and b uniform within ±1/√in at first, as PyTorch has it; see also `with_wide_start`."""

    weight: Float[Array, "*seeds out_dim in_dim"]
    bias: Float[Array, "*seeds out_dim"]

    def __init__(self, in_dim: int, out_dim: int, *, key: Any):
        weight_key, bias_key = jr.split(key)
        limit = in_dim**-0.5
        self.weight = jr.uniform(weight_key, (out_dim, in_dim), minval=-limit, maxval=limit)
        self.bias = jr.uniform(bias_key, (out_dim,), minval=-limit, maxval=limit)

    def __call__(self, x: Float[Array, " in_dim"]) -> Float[Array, " out_dim"]:
        return x @ self.weight.T + self.bias


def with_wide_start(tree: Any) -> Any:
    """The tree with every `Linear` in it started otherwise: weights of variance 1/in, biases zero."""

    def one(x):
        return eqx.tree_at(lambda x: (x.weight, x.bias), x, (x.weight * 3**0.5, 0.0 * x.bias)) if isinstance(x, Linear) else x

    return jax.tree.map(one, tree, is_leaf=lambda x: isinstance(x, Linear))


class MLP(eqx.Module):
    """A multilayer perceptron with `depth` hidden layers; linear at the end."""

    layers: tuple[Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, in_dim: int, out_dim: int, width: int, depth: int, activation: str, *, key: Any):
        checks.choice("activation", activation, tuple(ACTIVATIONS))
        sizes = [in_dim, *[width] * depth, out_dim]
        keys = jr.split(key, depth + 1)
        self.layers = tuple(Linear(a, b, key=k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True))
        self.activation = activation

    def __call__(self, x: Float[Array, " in_dim"]) -> Float[Array, " out_dim"]:
        return self.layers[-1](self.features(x))

    def features(self, x: Float[Array, " in_dim"]) -> Float[Array, " width"]:
        """The input of the last layer, which is linear; there must be a hidden one."""
        activation = ACTIVATIONS[self.activation]
        return activation(_rest(self.layers[1:-1], activation, self.layers[0](x)))


class Prepared(eqx.Module):
    """The first layer of a `TimedMLP` with the control already in it."""

    state_weight: Float[Array, "width l"]
    time_weight: Float[Array, " width"]
    offset: Float[Array, " width"]


class Layers(NamedTuple):
    """A network of (l, t) with two hidden tanh layers, as five arrays: the form that the fused kernel takes.

    With x = [l ‖ t] and a bias in the last column of `second` and `last`:
    h = tanh(first·x + offset), h ← tanh(second·[h ‖ 1]), and the output is last·[h ‖ 1] or, where there is a linear path
    beside the network, last·[h ‖ 1 ‖ x] + skip_offset. What depends on d is in the offsets alone.
    """

    first: Float[Array, "*seeds width l+1"]
    second: Float[Array, "*seeds width width+1"]
    last: Float[Array, "*seeds out columns"]
    offset: Float[Array, "*batch width"]
    skip_offset: Float[Array, "*batch skip"]  # empty without a linear path


class TimedMLP(eqx.Module):
    """A multilayer perceptron of (l, d, t) whose first layer takes the constant d only once.

    It equals an `MLP` of the joined vector. `prepare(d)` does the part of the first layer that is the same at every
    time; the call then costs nothing for d, however many steps or times follow.
    """

    net: MLP
    l_dim: int = eqx.field(static=True)

    def __init__(self, l_dim: int, d_dim: int, out_dim: int, width: int, activation: str, *, depth: int = 2, key: Any):
        self.net = MLP(l_dim + d_dim + 1, out_dim, width, depth, activation, key=key)
        self.l_dim = l_dim

    def prepare(self, d: Float[Array, " d"]) -> Prepared:
        """The first layer for one d."""
        first = self.net.layers[0]
        l, weight = self.l_dim, first.weight
        return Prepared(weight[:, :l], weight[:, -1], weight[:, l:-1] @ d + first.bias)

    def __call__(self, l: Float[Array, " l"], t: Float[Array, ""], prepared: Prepared) -> Float[Array, " out"]:
        x = l @ prepared.state_weight.T + (prepared.offset + t * prepared.time_weight)
        return _rest(self.net.layers[1:], ACTIVATIONS[self.net.activation], x)

    def layers(self, prepared: Prepared) -> Layers | None:
        """The network as `Layers`, if it is of that form."""
        if len(self.net.layers) != 3 or self.net.activation != "tanh":
            return None
        _, second, last = map(_with_bias, self.net.layers)
        return Layers(_timed(prepared), second, last, prepared.offset, jnp.zeros(0, prepared.offset.dtype))


class SkipMLP(eqx.Module):
    """A linear map of (l, d, t) plus a `TimedMLP` that begins at zero: what is linear is found first, and exactly."""

    net: TimedMLP
    skip: TimedMLP

    def __init__(self, l_dim: int, d_dim: int, out_dim: int, width: int, activation: str, *, depth: int = 2, key: Any):
        net_key, skip_key = jr.split(key)
        net = TimedMLP(l_dim, d_dim, out_dim, width, activation, depth=depth, key=net_key)
        self.net = eqx.tree_at(lambda n: n.net.layers[-1], net, replace_fn=lambda x: jax.tree.map(jnp.zeros_like, x))
        self.skip = TimedMLP(l_dim, d_dim, out_dim, width, activation, depth=0, key=skip_key)

    def prepare(self, d: Float[Array, " d"]) -> tuple[Prepared, Prepared]:
        """The first layers for one d."""
        return self.net.prepare(d), self.skip.prepare(d)

    def __call__(self, l: Float[Array, " l"], t: Float[Array, ""], prepared: tuple[Prepared, Prepared]) -> Float[Array, " out"]:
        return self.net(l, t, prepared[0]) + self.skip(l, t, prepared[1])

    def layers(self, prepared: tuple[Prepared, Prepared]) -> Layers | None:
        """The network and the linear path as `Layers`, if the network is of that form."""
        found, skip = self.net.layers(prepared[0]), prepared[1]
        return found and found._replace(last=jnp.concatenate([found.last, _timed(skip)], 1), skip_offset=skip.offset)


def network(
    path: Path, l_dim: int, d_dim: int, out_dim: int, width: int, activation: str, *, depth: int = 2, key: Any
) -> TimedMLP | SkipMLP:
    """A function of (l, d, t): a network with `depth` hidden layers, the linear path alone, or both."""
    if path == "both":
        return SkipMLP(l_dim, d_dim, out_dim, width, activation, depth=depth, key=key)
    return TimedMLP(l_dim, d_dim, out_dim, width, activation, depth=depth if path == "network" else 0, key=key)


def _with_bias(layer):
    return jnp.concatenate([layer.weight, layer.bias[:, None]], 1)


def _timed(prepared):
    return jnp.concatenate([prepared.state_weight, prepared.time_weight[:, None]], 1)


def _rest(layers, activation, x):
    for layer in layers:
        x = layer(activation(x))
    return x
