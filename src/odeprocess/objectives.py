"""Training objectives: functions of a process, one task and standard normal noise."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .process import Process
from .process.solvers import Extent
from .tasks import Task


def elbo(process: Process, task: Task, noise: Float[Array, "samples z"], extent: Extent = Extent()) -> Float[Array, ""]:
    """The paper's lower bound on log p(target | context), for one task.

    E_q(z|target)[Σ log p(y_i | z, t_i)] − KL(q(z | target) ‖ q(z | context)), the expectation over the given samples and
    the KL in closed form. NaN if the solver did not reach a target time, so that training can skip and count the step.

    Arguments:
        process: the process.
        task: one task, in scaled units.
        noise: standard normal numbers, one row a latent sample.
        extent: how far the flow is integrated; it must cover the task's times.
    """
    q_context, q_target = process.inference.beliefs(task)

    def log_likelihood(eps):
        predicted, ok = process.predict(q_target.reparametrise(eps), task.points.t, extent)
        log_prob = jnp.where(ok[:, None], predicted.log_prob(task.points.y), jnp.nan)
        return jnp.where(task.target, log_prob, 0.0).sum()

    return jax.vmap(log_likelihood)(noise).mean() - q_target.kl(q_context).sum()
