"""Vector fields: the right-hand side f(l, d, t) of the latent ODE."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .networks import Layers, Path, Prepared, SkipMLP, TimedMLP, network


class AbstractField(eqx.Module):
    """A controlled vector field. To write one, give it `prepare` and `velocity`.

    `prepare` is called once a trajectory with the control d, and whatever it returns is passed to every `velocity`:
    work that depends on d alone belongs there.
    """

    @abstractmethod
    def prepare(self, d: Float[Array, " d"]) -> Any:
        """Everything about d that stays the same along the trajectory."""

    @abstractmethod
    def velocity(self, t: Float[Array, ""], l: Float[Array, " l"], prepared: Any) -> Float[Array, " l"]:
        """dl/dt."""

    def layers(self, prepared: Any) -> Layers | None:
        """The field as `Layers`, for the fused kernel; `None` if it is no such network, and then the grid steps as usual."""
        return None


class Velocity(eqx.Module):
    """A field with its control in it: dl/dt as a function of (t, l), which is all that a solver sees."""

    field: AbstractField
    prepared: Any

    def __call__(self, t: Float[Array, ""], l: Float[Array, " l"]) -> Float[Array, " l"]:
        return self.field.velocity(t, l, self.prepared)

    def layers(self) -> Layers | None:
        """The same as `Layers`, if the field is of that form."""
        return self.field.layers(self.prepared)


class FirstOrder(AbstractField):
    """dl/dt = f(l, d, t): a tanh network, one with a linear path beside it, or that path alone."""

    net: TimedMLP | SkipMLP
    timed: bool = eqx.field(static=True, default=True)

    def __init__(
        self, l_dim: int, d_dim: int, width: int, *, path: Path = "network", timed: bool = True, depth: int = 2, key: Any
    ):
        self.net = network(path, l_dim, d_dim, l_dim, width, "tanh", depth=depth, key=key)
        self.timed = timed

    def prepare(self, d: Float[Array, " d"]) -> Any:
        return _prepared(self.net, d, self.timed)

    def velocity(self, t, l, prepared):
        return self.net(l, t, prepared)

    def layers(self, prepared):
        return self.net.layers(prepared)


class SecondOrder(AbstractField):
    """l = (position, velocity): the position moves by the velocity, and the velocity by f(l, d, t), as in `FirstOrder`."""

    net: TimedMLP | SkipMLP
    timed: bool = eqx.field(static=True, default=True)

    def __init__(
        self, l_dim: int, d_dim: int, width: int, *, path: Path = "network", timed: bool = True, depth: int = 2, key: Any
    ):
        self.net = network(path, l_dim, d_dim, l_dim // 2, width, "tanh", depth=depth, key=key)
        self.timed = timed

    def prepare(self, d: Float[Array, " d"]) -> Any:
        return _prepared(self.net, d, self.timed)

    def velocity(self, t, l, prepared):
        return jnp.concatenate([l[l.shape[0] // 2 :], self.net(l, t, prepared)])

    def layers(self, prepared):
        return self.net.layers(prepared)


def _prepared(net: TimedMLP | SkipMLP, d: Float[Array, " d"], timed: bool) -> Any:
    """The first layers for one d; the weight of time is zero where the field does not depend on it."""
    found = net.prepare(d)
    if timed:
        return found

    def still(x):
        return eqx.tree_at(lambda p: p.time_weight, x, jnp.zeros_like(x.time_weight))

    return jax.tree.map(still, found, is_leaf=lambda x: isinstance(x, Prepared))
