"""Vector fields: the right-hand side f(l, d, t) of the latent ODE."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .nets import Layers, SkipMLP, TimedMLP


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
        """The same as plain arrays, if the field can tell."""
        return self.field.layers(self.prepared)


class FirstOrder(AbstractField):
    """dl/dt = f(l, d, t), a tanh network, with a linear path beside it if `skip`."""

    net: TimedMLP | SkipMLP

    def __init__(self, l_dim: int, d_dim: int, width: int, *, skip: bool = False, key: Any):
        self.net = (SkipMLP if skip else TimedMLP)(l_dim, d_dim, l_dim, width, "tanh", key=key)

    def prepare(self, d: Float[Array, " d"]) -> Any:
        return self.net.prepare(d)

    def velocity(self, t, l, prepared):
        return self.net(l, t, prepared)

    def layers(self, prepared):
        return self.net.layers(prepared)


class SecondOrder(AbstractField):
    """l = (position, velocity): the position moves by the velocity, and the velocity by f(l, d, t), as in `FirstOrder`."""

    net: TimedMLP | SkipMLP

    def __init__(self, l_dim: int, d_dim: int, width: int, *, skip: bool = False, key: Any):
        self.net = (SkipMLP if skip else TimedMLP)(l_dim, d_dim, l_dim // 2, width, "tanh", key=key)

    def prepare(self, d: Float[Array, " d"]) -> Any:
        return self.net.prepare(d)

    def velocity(self, t, l, prepared):
        return jnp.concatenate([l[l.shape[0] // 2 :], self.net(l, t, prepared)])

    def layers(self, prepared):
        return self.net.layers(prepared)
