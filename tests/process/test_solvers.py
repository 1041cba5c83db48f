"""The flow against exact solutions: linear fields, controlled fields, fields that blow up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, strategies as st

import odeprocess as odp
from odeprocess.process import AbstractField, Adaptive, Extent, Grid, OdeFlow
from odeprocess.process.runge_kutta import TABLEAUS
from odeprocess.process.solvers import MAX_HORIZONS

SPIN = np.array([[-0.3, -5.0], [5.0, -0.3]])


class LinearField(AbstractField):
    """dl/dt = A l: the solution is a matrix exponential."""

    matrix: jax.Array

    def prepare(self, d):
        return self.matrix

    def velocity(self, t, l, prepared):
        return prepared @ l


class ControlledField(AbstractField):
    """dl/dt = d cos t: the solution is l0 + d (sin t − sin t0)."""

    def prepare(self, d):
        return d

    def velocity(self, t, l, prepared):
        return prepared * jnp.cos(t)


class ExplodingField(AbstractField):
    """dl/dt = l²: from 1 the solution is 1 / (1 − t), gone at t = 1."""

    def prepare(self, d):
        return d

    def velocity(self, t, l, prepared):
        return l**2


def spun(t):
    return np.stack([scipy.linalg.expm(SPIN * s) @ np.array([1.0, 0.5]) for s in t])


run = jax.jit(lambda flow, l0, d, t, extent: flow(l0, d, t, extent), static_argnums=4)


def solve(field, solver, t, extent=Extent(), l0=(1.0, 0.5), d=(0.0, 0.0), t0=0.0, horizon=1.0):
    flow = OdeFlow(field, solver, t0, horizon)
    dtype = jnp.result_type(float)
    return run(flow, jnp.asarray(l0, dtype), jnp.asarray(d, dtype), jnp.asarray(t, dtype), extent)


@pytest.mark.parametrize("order", TABLEAUS)
def test_grid_converges_at_its_order_between_the_steps_too(order):
    with jax.enable_x64(True):
        field = LinearField(jnp.asarray(SPIN))
        t = np.linspace(0, 1, 57)
        counts = np.array([10, 20, 40, 80])
        errors = [np.abs(solve(field, Grid(steps=int(n), order=order), t).states - spun(t)).max() for n in counts]
    slopes = -np.diff(np.log(errors)) / np.log(2)
    assert slopes[-1] > order - 0.25, (errors, slopes)


@pytest.mark.parametrize("solver", [Grid(steps=40), Grid(steps=40, unroll=True), Adaptive(rtol=1e-7, atol=1e-8)])
def test_solvers_reach_1e_4_of_an_exact_solution_in_any_order_with_ties(solver):
    t = np.array([0.9, 0.1, 0.1, 0.0, 1.0, 0.5, 0.5])
    found = solve(LinearField(jnp.asarray(SPIN, jnp.float32)), solver, t)
    assert found.ok.all()
    np.testing.assert_allclose(found.states, spun(t), atol=1e-4)


@pytest.mark.parametrize("solver", [Grid(steps=40), Adaptive(rtol=1e-7, atol=1e-8)])
def test_solvers_go_backwards_and_beyond_the_horizon(solver):
    t = np.array([-0.7, 0.3, 0.0, 1.8, -0.2])
    found = solve(LinearField(jnp.asarray(SPIN, jnp.float32)), solver, t, Extent(1, 2))
    assert found.ok.all()
    np.testing.assert_allclose(found.states, spun(t), atol=3e-4)


@given(seed=st.integers(0, 1000), t0=st.sampled_from([-3.2, 0.0, 1.5]))
def test_grid_takes_the_control_and_the_time(seed, t0):
    rng = np.random.default_rng(seed)
    t, d = t0 + rng.uniform(0, 2, 16), rng.normal(size=2)
    found = solve(ControlledField(), Grid(), t, t0=t0, horizon=2.0, d=d)
    np.testing.assert_allclose(found.states, [1.0, 0.5] + d * (np.sin(t) - np.sin(t0))[:, None], atol=1e-5)


@pytest.mark.parametrize("solver", [Grid(steps=20), Adaptive(max_steps=200)])
def test_a_solution_that_blows_up_is_reported_where_it_does(solver):
    t = np.array([0.25, 0.5, 1.9])
    found = solve(ExplodingField(), solver, t, Extent(0, 2), l0=(1.0, 1.0))
    assert found.ok.tolist() == [True, True, False]
    np.testing.assert_allclose(found.states[:2, 0], 1 / (1 - t[:2]), rtol=1e-2)


@pytest.mark.parametrize("solver", [Grid(), Adaptive()])
def test_times_outside_what_was_integrated_are_reported(solver):
    found = solve(ControlledField(), solver, [-0.5, 0.5, 1.5])
    assert found.ok.tolist() == [False, True, False]


@given(low=st.floats(-50, 50), span=st.floats(0, 50), horizon=st.floats(0.1, 10))
def test_extent_covers_the_times_with_powers_of_two(low, span, horizon):
    extent = Extent.covering(low, low + span, 0.0, horizon)
    assert -extent.before * horizon <= low + 1e-4 * horizon
    assert extent.after * horizon >= low + span - 1e-4 * horizon
    assert all(n == 0 or n & (n - 1) == 0 for n in extent) and extent.after >= 1


def test_extent_refuses_what_would_take_forever():
    with pytest.raises(ValueError, match="unit of the times"):
        Extent.covering(0.0, 2.0 * MAX_HORIZONS, 0.0, 1.0)


@pytest.mark.parametrize("solver", [Grid(), Adaptive()])
def test_gradients_are_those_of_the_exact_solution(solver):
    def end(l0):
        return OdeFlow(LinearField(jnp.asarray(SPIN, jnp.float32)), solver, 0.0, 1.0)(l0, l0, jnp.ones(1), Extent()).states[0]

    np.testing.assert_allclose(jax.jacobian(end)(jnp.array([1.0, 0.5])), scipy.linalg.expm(SPIN), atol=5e-3)


def test_unknown_solver_options_are_refused():
    with pytest.raises(ValueError, match="`order` is 7"):
        odp.Grid(order=7)
    with pytest.raises(ValueError, match="`steps` is 0"):
        odp.Grid(steps=0)
    for options, message in (
        ({"method": "Magic"}, "`method` is 'Magic'; expected one of .*'Tsit5'"),
        ({"rtol": 1e-300}, "`rtol` is 1e-300; expected 1e-13 or more"),
        ({"max_steps": 10**9}, "`max_steps` is 1000000000; expected a whole number from 1 to 65,536"),
    ):
        with pytest.raises(ValueError, match=message):
            Adaptive(**options)


@pytest.mark.parametrize("solver", [Grid(steps=400), Adaptive()])
@pytest.mark.parametrize("extent", [Extent(0, 1), Extent(1, 1)])
def test_slope_in_time_is_the_field_even_at_the_start_and_rounding_past_the_end_is_forgiven(solver, extent):
    def state(t):
        return OdeFlow(ControlledField(), solver, 0.0, 1.0)(jnp.zeros(1), jnp.ones(1), t[None], extent).states[0, 0]

    for t in (0.0, 0.3):
        np.testing.assert_allclose(jax.grad(state)(jnp.asarray(t)), np.cos(t), atol=1e-3)
    ends = solve(ControlledField(), solver, [-9e-6, 1 + 9e-6], extent)
    assert ends.ok.all()
