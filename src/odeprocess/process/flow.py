"""The flow: how the latent state moves from l(t0) to l(t)."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from odeprocess.common import checks

from .field import AbstractField, Velocity
from .solvers import AbstractSolver, Extent, Path


class AbstractFlow(eqx.Module):
    """To write a flow, give it these two methods."""

    @abstractmethod
    def extent(self, low: float, high: float) -> Extent:
        """How far to integrate for times from `low` to `high`."""

    @abstractmethod
    def __call__(self, l0: Float[Array, " l"], d: Float[Array, " d"], t: Float[Array, " n"], extent: Extent) -> Path:
        """The states of one trajectory at `t`, in any order."""


class ConstantFlow(AbstractFlow):
    """No dynamics: l(t) = l(t0). With it the process is a plain neural process."""

    def extent(self, low, high):
        return Extent()

    def __call__(self, l0, d, t, extent):
        return Path(jnp.broadcast_to(l0[None], (t.shape[0], l0.shape[0])), jnp.ones(t.shape, bool))


class OdeFlow(AbstractFlow):
    """l moves by a field from t0; the grid of the solver belongs to the flow, never to the query."""

    field: AbstractField
    solver: AbstractSolver = eqx.field(static=True)
    t0: float = eqx.field(static=True)
    horizon: float = eqx.field(static=True)

    def __check_init__(self):
        checks.positive("horizon", self.horizon)

    def extent(self, low, high):
        return Extent.covering(low, high, self.t0, self.horizon)

    def __call__(self, l0, d, t, extent):
        velocity = Velocity(self.field, self.field.prepare(d))
        return self.solver.solve(velocity, self.t0, self.horizon, l0, t, extent)
