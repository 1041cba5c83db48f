"""Training objectives: functions of a process, one task and standard normal noise; training maximises them.

Section 7 of `docs/inference.md`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from odeprocess.common.distributions import Normal
from odeprocess.data.tasks import Task
from odeprocess.process import Process
from odeprocess.process.solvers import Extent


def elbo(
    process: Process, task: Task, noise: Float[Array, "samples z"], extent: Extent = Extent(), kl_weight: Any = 1.0
) -> Float[Array, ""]:
    """The paper's lower bound on log p(target | context), for one task (eq. 20).

    E_q(z|target)[Σ log p(y_i | z, t_i)] − KL(q(z | target) ‖ q(z | context)), the expectation over the given samples and
    the KL in closed form. NaN if the solver did not reach a target time, so that training can skip and count the step.

    Arguments:
        process: the process.
        task: one task, in scaled units.
        noise: standard normal numbers, one row a latent sample.
        extent: how far the flow is integrated; it must cover the task's times.
        kl_weight: of the KL; less than 1 while it is warmed up (`FitOptions.kl_warm_up`).
    """
    q_context, q_target = process.inference.beliefs(task)
    return _log_likelihoods(process, task, q_target, noise, extent).mean() - kl_weight * q_target.kl(q_context).sum()


def generative(
    process: Process, task: Task, noise: Float[Array, "samples z"], extent: Extent = Extent(), kl_weight: Any = 1.0
) -> Float[Array, ""]:
    """The lower bound on log p(target) for a process with a prior, and a term that trains the encoder on contexts (eq. 21).

    E_q(z|target)[Σ log p(y_i | z, t_i)] − KL(q(z | target) ‖ prior) − KL(q̄(z | target) ‖ q(z | context)), where q̄ has no
    gradient: q given the context is trained towards q given the target, and not the other way round. `kl_weight` is the weight of
    the first KL.
    """
    q_context, q_target = process.inference.beliefs(task)
    prior = jax.lax.stop_gradient(process.prior)
    assert prior is not None
    follow = jax.lax.stop_gradient(q_target).kl(q_context).sum()
    kl = prior.kl_from(q_target, task.points.static)
    return _log_likelihoods(process, task, q_target, noise, extent).mean() - kl_weight * kl - follow


def renyi(alpha: float) -> Callable[..., Float[Array, ""]]:
    """Rényi's bound of order `alpha` on log p(target | context) (eq. 22): importance-weighted for 0; `elbo` in the limit of 1.

    (1/(1 − α))·log mean exp((1 − α)·log w) over samples of q(z | target), w = p(target | z)·q(z | context)/q(z | target).
    """

    def bound(process: Process, task: Task, noise: Float[Array, "samples z"], extent: Extent = Extent()) -> Float[Array, ""]:
        q_context, q_target = process.inference.beliefs(task)
        z = jax.vmap(q_target.reparametrise)(noise)
        weights = jax.vmap(lambda z: (q_context.log_prob(z) - q_target.log_prob(z)).sum())(z)
        weights = (1.0 - alpha) * (weights + _log_likelihoods(process, task, q_target, noise, extent))
        return (jax.nn.logsumexp(weights) - jnp.log(noise.shape[0])) / (1.0 - alpha)

    return bound


def likelihood(process: Process, task: Task, noise: Float[Array, "samples z"], extent: Extent = Extent()) -> Float[Array, ""]:
    """Log p(target | context) by samples of q(z | context) (eq. 23): maximum likelihood, which needs several samples."""
    q_context, _ = process.inference.beliefs(task)
    return jax.nn.logsumexp(_log_likelihoods(process, task, q_context, noise, extent)) - jnp.log(noise.shape[0])


WITH_KL = ("elbo", "generative")  # objectives with a KL whose weight can be warmed up
OBJECTIVES: dict[str, Any] = {
    "elbo": elbo,
    "generative": generative,
    "importance": renyi(0.0),
    "renyi": renyi(0.5),
    "likelihood": likelihood,
}


def _log_likelihoods(process: Process, task: Task, q: Normal, noise: Any, extent: Extent) -> Float[Array, " samples"]:
    """Log p(target | z) for each sample of q; NaN where the solver did not reach a target time."""

    def one(eps):
        predicted, ok = process.predict(q.reparametrise(eps), task.points.t, extent)
        log_prob = jnp.where(ok[:, None], predicted.log_prob(task.points.y), jnp.nan)
        return jnp.where(task.target, log_prob, 0.0).sum()

    return jax.vmap(one)(noise)
