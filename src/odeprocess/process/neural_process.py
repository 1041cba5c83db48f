"""The one model class: a process made of inference, flow, decoder and likelihood."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from odeprocess.common.distributions import AbstractDistribution, Normal
from odeprocess.data.series import Series

from .amortised_inference import Inference
from .decoder import AbstractDecoder
from .flow import AbstractFlow
from .likelihood import AbstractLikelihood
from .prior import Mixture, Prior
from .solvers import Extent, Path

ONE_HORIZON = Extent()


class Process(eqx.Module):
    """A random function of time, given a context.

    Written for one series and one latent draw z = (l(t0), d); batches and draws come from `jax.vmap`. Times and
    values are scaled ones; `Model` speaks the user's units.
    """

    inference: Inference
    flow: AbstractFlow
    decoder: AbstractDecoder
    likelihood: AbstractLikelihood
    l_dim: int = eqx.field(static=True)
    z_dim: int = eqx.field(static=True)
    prior: Prior | None = None
    mixture: Mixture | None = None  # of which the prior is made, in the coordinates in which that is standard

    def infer(self, series: Series) -> Normal:
        """The amortised posterior over z given the unmasked observations of `series`."""
        return self.inference.belief(self.inference.summarise(series), series.static)

    def path(self, z: Float[Array, " z"], t: Float[Array, " n"], extent: Extent = ONE_HORIZON) -> Path:
        """The latent trajectory of one draw."""
        return self.flow(z[: self.l_dim], z[self.l_dim :], t, extent)

    def predict(
        self, z: Float[Array, " z"], t: Float[Array, " n"], extent: Extent = ONE_HORIZON
    ) -> tuple[AbstractDistribution, Bool[Array, " n"]]:
        """The distribution of observations along one draw, `[n, channels]`, and which times the solver reached."""
        path = self.path(z, t, extent)
        return self.likelihood(self.decoder(path.states, z[self.l_dim :], t)), path.ok

    def before(self, static: Float[Array, " k"], channels: int) -> Mixture:
        """The prior over z: the learned one, or the amortised posterior given an empty context."""
        if self.prior is not None:
            return Mixture.of(self.prior) if self.mixture is None else self.mixture.within(self.prior)
        nothing = jnp.zeros((1, channels), static.dtype)
        empty = self.infer(Series(jnp.zeros(1, static.dtype), nothing, nothing > 0, static))
        slope = jnp.zeros((empty.loc.shape[0], static.shape[0]), static.dtype)
        return Mixture.of(Prior(empty.loc, slope, jnp.diag(empty.scale)))
