"""Two ways to solve the latent ODE, behind one seam.

`Grid` takes equal Runge–Kutta steps from t0 and reads every time off the piecewise polynomial between them, so each
series has its own times, in any order, at the cost of one integration. `Adaptive` hands the problem to Diffrax.

Either is asked for whole horizons (`Extent`), never for the times of a query: a draw is then one function, whatever
it is asked (to rounding with `Grid`; with `Adaptive`, whose steps see the end, to its tolerances).
"""

import dataclasses
from abc import ABC, abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from odeprocess.common import checks

from .field import Velocity
from .kernels import fused
from .runge_kutta import TABLEAUS, runge_kutta_steps

MAX_HORIZONS = 1024  # before or after t0: beyond, a time is more likely in another unit than meant; chosen by hand
MOST_STEPS = 65_536  # beyond, memory and time run out before anything is answered
LEAST_TOLERANCE = 1e-13  # float64 has sixteen digits
METHODS = (  # of Diffrax: those that estimate their error and solve any ordinary differential equation
    *("Heun", "Midpoint", "Ralston", "Bosh3", "Tsit5", "Dopri5", "Dopri8"),
    *("ImplicitEuler", "Kvaerno3", "Kvaerno4", "Kvaerno5"),
)
SLACK = 1e-4  # of a horizon: float32 may round a time at the very end to just past it


class Extent(NamedTuple):
    """How far to integrate, in whole horizons before t0 and after it."""

    before: int = 0
    after: int = 1

    @classmethod
    def covering(cls, low: float, high: float, t0: float, horizon: float) -> "Extent":
        """The smallest extent, in powers of two, that covers scaled times from `low` to `high`."""

        def horizons(distance: float) -> int:
            count = max(0, -int(-(distance / horizon - SLACK / 2) // 1))
            return 1 << (count - 1).bit_length() if count else 0

        before, after = horizons(t0 - low), max(1, horizons(high - t0))
        checks.require(
            max(before, after) <= MAX_HORIZONS,
            f"A time lies {max((t0 - low), (high - t0)) / horizon:.3g} training horizons from the start; at most {MAX_HORIZONS} "
            "are integrated. Check the unit of the times and where they begin, or train on series that reach further.",
        )
        return cls(before, after)


class Path(eqx.Module):
    """States at the requested times, and whether each of them was reached with finite numbers."""

    states: Float[Array, "n l"]
    ok: Bool[Array, " n"]


class AbstractSolver(ABC):
    """A solver is a frozen dataclass of options with this one method."""

    @abstractmethod
    def solve(
        self, velocity: Velocity, t0: float, horizon: float, l0: Float[Array, " l"], t: Float[Array, " n"], extent: Extent
    ) -> Path:
        """Integrates from `(t0, l0)` and reads off the states at `t`, in any order."""


@dataclasses.dataclass(frozen=True)
class Grid(AbstractSolver):
    """Equal Runge–Kutta steps with dense output.

    The default keeps the decoded mean of every variant, trained on the paper's sines, within 0.5 % of the predictive
    standard deviation of a tight solve; `solver_error` computes it for a model of yours.

    Attributes:
        steps: steps to a horizon.
        order: 1 (Euler), 2 (midpoint), 3 (Bogacki–Shampine), 4 (classical) or 5 (Tsitouras).
        unroll: whether the loop over steps is unrolled; by default on GPUs, where it is faster, and on CPUs, where it would be
            slower to run and to compile, two steps in a round.
        fused: whether all steps of a batch run as one kernel (`process/fused.py`); by default on NVIDIA GPUs where there is
            `nvcc` and the field is a network with two hidden tanh layers, in float32. Without a GPU, `True` takes the same way
            with plain operations, for tests.
    """

    steps: int = 8
    order: int = 5
    unroll: bool | None = None
    fused: bool | None = None

    def __post_init__(self):
        checks.whole("steps", self.steps, 1, MOST_STEPS)
        checks.choice("order", self.order, tuple(TABLEAUS))

    def solve(self, velocity, t0, horizon, l0, t, extent):
        step = horizon / self.steps
        after, before = extent.after * self.steps, extent.before * self.steps
        u = (t - t0) / step
        pieces = self._runge_kutta(velocity, t0, step, l0, after)
        if before:
            pieces = jnp.concatenate([pieces, self._runge_kutta(velocity, t0, -step, l0, before)])
        # `where`, not `abs` or `maximum`: those split the gradient with respect to time at t0.
        distance = jnp.where(u < 0, -u if before else 0.0, u)
        whole = distance.astype(jnp.int32)
        ahead, behind = jnp.clip(whole, 0, after - 1), jnp.clip(whole, 0, max(before - 1, 0))
        index = jnp.where(u < 0, behind, ahead) if before else ahead
        place = jnp.where(u < 0, after + index, index) if before else index
        states = _read(pieces[place], distance - index.astype(t.dtype))
        slack = SLACK * self.steps
        inside = (u > -before - slack) & (u < after + slack)
        return Path(states, inside & jnp.isfinite(states).all(-1))

    def _runge_kutta(self, velocity, t0, step, l0, count):
        """Takes `count` steps and returns the polynomial of each, `[count, 4 or 5, l]`."""
        tableau = TABLEAUS[self.order]
        layers = velocity.layers() if self.fused is not False else None
        if layers is not None and (self.fused or fused.applies(layers, l0)):
            ls, stages, last = fused.runge_kutta_steps(layers, l0, t0, step, count, self.order)
        else:
            unroll = jax.default_backend() != "cpu" if self.unroll is None else self.unroll
            at_once = self.steps if unroll else 2 if self.unroll is None else 1  # two in a round compile as fast as one
            ls, stages, last = runge_kutta_steps(velocity, tableau, t0, step, count, l0, min(count, at_once))
        slopes = step * jnp.concatenate([stages[:, 0], last[None]])
        rise = ls[1:] - ls[:-1]
        bend = slopes[:-1] - rise
        terms = [ls[:-1], rise, bend, rise - slopes[1:] - bend]
        if tableau.quartic is not None:
            *inner, end = tableau.quartic
            inside = jnp.einsum("i,nil->nl", jnp.asarray(inner, l0.dtype), stages)
            terms.append(step * inside + end * slopes[1:])
        return jnp.stack(terms, 1)


@dataclasses.dataclass(frozen=True)
class Adaptive(AbstractSolver):
    """Diffrax, with error control for each series.

    Attributes:
        method: the name of a Diffrax solver, one of `METHODS`: `"Tsit5"`, `"Dopri5"`, `"Dopri8"`, `"Kvaerno5"` (for stiff
            fields), …
        rtol: relative tolerance of a step.
        atol: absolute tolerance of a step.
        max_steps: steps after which a series is given up; its unreached times are reported, not returned as numbers.
    """

    method: str = "Tsit5"
    rtol: float = 1e-4
    atol: float = 1e-5
    max_steps: int = 4096

    def __post_init__(self):
        checks.choice("method", self.method, METHODS)
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            checks.positive(name, value)
            checks.require(value >= LEAST_TOLERANCE, f"`{name}` is {checks.shown(value)}; expected {LEAST_TOLERANCE} or more.")
        checks.whole("max_steps", self.max_steps, 1, MOST_STEPS)

    def solve(self, velocity, t0, horizon, l0, t, extent):
        order = jnp.argsort(t)
        ts = t[order]
        states = self._integrate(velocity, t0, t0 + extent.after * horizon, l0, jnp.where(ts < t0, t0, ts))
        if extent.before:
            earlier = self._integrate(velocity, t0, t0 - extent.before * horizon, l0, jnp.where(ts < t0, ts, t0)[::-1])[::-1]
            states = jnp.where((ts < t0)[:, None], earlier, states)
        states = states[jnp.argsort(order)]
        slack = SLACK * horizon
        inside = (t > t0 - extent.before * horizon - slack) & (t < t0 + extent.after * horizon + slack)
        return Path(states, inside & jnp.isfinite(states).all(-1))

    def _integrate(self, velocity, t0, t1, l0, ts):
        import diffrax as dfx  # half a second to import, and only needed here

        solver = getattr(dfx, self.method)
        low, high = min(t0, t1), max(t0, t1)
        ts = jnp.where(ts < low, low, jnp.where(ts > high, high, ts))
        solution = dfx.diffeqsolve(
            dfx.ODETerm(lambda t, l, args: velocity(t, l)),
            solver(),
            t0,
            t1,
            None,
            l0,
            saveat=dfx.SaveAt(ts=ts),
            stepsize_controller=dfx.PIDController(rtol=self.rtol, atol=self.atol),
            max_steps=self.max_steps,
            throw=False,  # a failed series leaves inf at the times it did not reach; see `Path.ok`
        )
        assert isinstance(solution.ys, jax.Array)
        return solution.ys


SOLVERS: dict[str, type[AbstractSolver]] = {"grid": Grid, "adaptive": Adaptive}


def _read(terms: Float[Array, "n p l"], theta: Float[Array, " n"]) -> Float[Array, "n l"]:
    at, back = theta[:, None], 1.0 - theta[:, None]
    inner = terms[:, 3] + back * terms[:, 4] if terms.shape[1] == 5 else terms[:, 3]
    return terms[:, 0] + at * (terms[:, 1] + back * (terms[:, 2] + at * inner))
