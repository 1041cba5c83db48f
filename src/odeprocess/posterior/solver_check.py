"""Is the solver good enough? The answer for a posterior and its times, against a tight solve in float64."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from odeprocess.inference import batched
from odeprocess.process import Adaptive, OdeFlow

from .functions import reported
from .posterior import Posterior

TIGHT = Adaptive(method="Dopri8", rtol=1e-9, atol=1e-10, max_steps=65536)


@dataclasses.dataclass(frozen=True)
class SolverError:
    """The error that a solver makes in the decoded mean of each draw.

    Attributes:
        absolute: the largest, in the user's units.
        relative: the largest, over the predictive standard deviation of an observation at that time.
        relative_to_function: the largest, over the standard deviation of the function there, noise left out; infinite where
            the draws do not differ, such as one draw alone.
    """

    absolute: float
    relative: float
    relative_to_function: float


def solver_error(posterior: Posterior, times: Any, n: int | None = None) -> SolverError:
    """Compares the posterior's solver with Diffrax at tight tolerances in float64, draw by draw.

    Arguments:
        posterior: of any model with dynamics.
        times: where to compare.
        n: number of draws.

    Examples:
        >>> import jax, odeprocess as odp
        >>> fitted = odp.fit(odp.data.sines.sample(20, key=jax.random.key(0)), "ndp", options=odp.FitOptions(epochs=1))
        >>> posterior = fitted.model.condition([1.0], [0.5], key=jax.random.key(1))
        >>> odp.solver_error(posterior, [-3.0, 0.0, 3.0]).relative < 0.01
        True
    """
    flow, record = posterior.process.flow, posterior.record
    if not isinstance(flow, OdeFlow):
        raise ValueError("This posterior's process has no dynamics, so there is no solver whose error could be told.")
    got = posterior.functions(n)(times)
    t = record.scaled_query(record.query(times))
    z = np.asarray(posterior.functions(n).z, np.float64)
    exact = eqx.tree_at(lambda p: p.flow, posterior.process, dataclasses.replace(flow, solver=TIGHT))
    with jax.enable_x64(True):
        exact = jax.tree.map(lambda x: np.asarray(x, np.float64), exact)
        predicted, ok = batched.decode(exact, z, np.asarray(t, np.float64), flow.extent(float(t.min()), float(t.max())))
        mean = np.asarray(reported(predicted.mean, ok, "reach every time, even at tight tolerances,"))
    error = np.abs(got - record.squeeze(record.scaling.values_to_user(mean))).max(-3)
    stds = [posterior.std(times, n, of=of) for of in ("observations", "function")]
    shares = [np.divide(error, std, out=np.where(error > 0, np.inf, 0.0), where=std > 0) for std in stds]
    return SolverError(float(error.max()), *(float(share.max()) for share in shares))
