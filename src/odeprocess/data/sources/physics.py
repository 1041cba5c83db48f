"""Dynamical systems: Lotka–Volterra."""

import dataclasses
from typing import Any

import jax.random as jr
import numpy as np

from odeprocess.data.series import Series


@dataclasses.dataclass(frozen=True)
class LotkaVolterra:
    """Predator–prey: u̇ = αu − βuv, v̇ = δuv − γv, from (u, v) = (2E, E) with E uniform on (1/4, 1).

    Attributes:
        alpha: growth of the prey.
        beta: loss of the prey to predators.
        gamma: death of predators.
        delta: growth of predators on prey.
        end: the last time, before `time_scale`.
        time_scale: times are divided by it.
        num_points: evenly spaced points of a series, both ends included.
        t0: where the flow starts in the paper's protocol.
    """

    name: str = "lotka-volterra"
    alpha: float = 2 / 3
    beta: float = 4 / 3
    gamma: float = 1.0
    delta: float = 1.0
    end: float = 15.0
    time_scale: float = 10.0
    num_points: int = 100
    t0: float = -0.1

    def sample(self, num_series: int, *, key: Any, noise: float = 0.0) -> Series:
        """A batch of series with channels (u, v), with normal noise of standard deviation `noise` if asked."""
        energy_key, noise_key = jr.split(key)
        energy = np.asarray(jr.uniform(energy_key, (num_series,), minval=0.25, maxval=1.0), np.float64)
        y = self.solve(np.stack([2 * energy, energy], -1))
        y = y + noise * np.asarray(jr.normal(noise_key, y.shape), np.float64)
        t = np.broadcast_to(np.linspace(0.0, self.end, self.num_points) / self.time_scale, y.shape[:2])
        return Series(t, y, np.ones(y.shape, bool), np.zeros((num_series, 0)))

    def solve(self, start: np.ndarray, substeps: int = 20) -> np.ndarray:
        """Trajectories from `start [series, 2]`, `[series, num_points, 2]`, by classical Runge–Kutta in float64.

        All series move together, so this takes milliseconds; with 20 substeps the conserved quantity stays within 1e-9.
        """
        h = self.end / (self.num_points - 1) / substeps
        state, out = np.asarray(start, np.float64), []
        for i in range(self.num_points):
            out.append(state)
            for _ in range(substeps if i < self.num_points - 1 else 0):
                k1 = self._velocity(state)
                k2 = self._velocity(state + h / 2 * k1)
                k3 = self._velocity(state + h / 2 * k2)
                k4 = self._velocity(state + h * k3)
                state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.stack(out, 1)

    def conserved(self, y: Any) -> Any:
        """V = δu − γ ln u + βv − α ln v, constant along a trajectory; `y [..., 2]`."""
        u, v = y[..., 0], y[..., 1]
        return self.delta * u - self.gamma * np.log(u) + self.beta * v - self.alpha * np.log(v)

    def _velocity(self, state):
        u, v = state[:, 0], state[:, 1]
        return np.stack([self.alpha * u - self.beta * u * v, self.delta * u * v - self.gamma * v], -1)


lotka_volterra = LotkaVolterra()
