"""The numerics that are our own: least squares by QR, the optimiser of the second half, and the noise of single series."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from scipy import stats

from odeprocess.common.linear_algebra import cholesky, orthonormal, orthonormalise, project, solve_positive, solve_triangular
from odeprocess.inference.noise_scale import NoiseScale
from odeprocess.posterior.calibration import fit_noise_scale
from odeprocess.training.soap import soap, update_eigenbases


def matrix(seed: int, rows: int, columns: int, condition: float) -> np.ndarray:
    """A random matrix whose singular values fall from 1 to 1/condition."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(n, columns)))[0] for n in (rows, columns))
    return (left * np.geomspace(1, 1 / condition, columns)) @ right.T


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
def test_qr_takes_a_matrix_apart_and_solves_least_squares(condition):
    a = np.stack([matrix(seed, 20, 6, condition) for seed in range(8)]).astype(np.float32)
    wanted = np.random.default_rng(1).normal(size=(8, 20)).astype(np.float32)
    q, r = (np.asarray(x, np.float64) for x in jax.vmap(orthonormalise)(a))
    np.testing.assert_allclose(q @ r, a, atol=1e-6)
    np.testing.assert_array_equal(np.tril(r, -1), 0.0)
    rounding = 1e-6 * condition  # what float32 leaves of orthogonality, in this form of Gram–Schmidt
    np.testing.assert_allclose(np.swapaxes(q, 1, 2) @ q, np.broadcast_to(np.eye(6), (8, 6, 6)), atol=rounding)
    values = np.asarray(jax.vmap(project)(jnp.asarray(q, jnp.float32), wanted), np.float64)
    for i in range(8):
        solution = np.linalg.lstsq(a[i].astype(np.float64), wanted[i].astype(np.float64), rcond=None)[0]
        found = np.linalg.solve(r[i], values[i])
        left, least = (np.linalg.norm(a[i] @ x - wanted[i]) for x in (found, solution))
        assert left <= least * (1 + 1e-5)
        # As far as rounding in the matrix itself would move the solution (Björck).
        assert np.linalg.norm(found - solution) <= 1e-6 * condition * (np.linalg.norm(solution) + condition * least)


def test_qr_of_a_matrix_with_an_empty_column_is_finite():
    q, r = orthonormalise(jnp.asarray(matrix(0, 9, 3, 1.0), jnp.float32).at[:, 1].set(0.0))
    assert np.isfinite(q).all() and np.isfinite(r).all() and float(r[1, 1]) == 0.0


def test_soap_solves_a_turned_ill_conditioned_problem_better_than_adam():
    a, b = (jnp.asarray(matrix(seed, 12, 12, 30.0), jnp.float32) for seed in range(2))
    goal = jr.normal(jr.key(0), (12, 12))
    rate = optax.cosine_decay_schedule(0.1, 1000)

    def loss(w, inputs):
        return ((a @ (w - goal) @ b @ inputs) ** 2).mean()

    def left(optimiser, turn):
        def step(carry, number):
            w, state = carry
            state = jax.lax.cond(number % 9 == 0, turn, lambda s: s, state)
            batch = jr.normal(jr.fold_in(jr.key(1), number), (12, 4))
            with jax.numpy_dtype_promotion("standard"):
                updates, state = optimiser.update(jax.grad(loss)(w, batch), state, w)
            return (w + updates, state), None

        start = jnp.zeros((12, 12))
        (w, _), _ = jax.jit(lambda: jax.lax.scan(step, (start, optimiser.init(start)), jnp.arange(1000)))()
        return float(loss(w, jnp.eye(12)))

    assert left(soap(rate), update_eigenbases) < left(optax.adam(rate), lambda state: state) / 4


def test_noise_of_a_series_is_drawn_by_its_posterior():
    noise_scale, cost, count = NoiseScale(6.0, 0.5), 9.0, 5.0
    for share in (0.05, 0.5, 0.95):
        expected = np.sqrt((6.0 * 0.5 + cost) / stats.chi2.ppf(share, 6.0 + count))
        assert float(noise_scale.sample(cost, count, stats.norm.ppf(share))) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("freedom", "least", "most"), [(4.0, 2.5, 6.5), (16.0, 8.0, 32.0), (1e6, 60.0, np.inf)])
def test_the_noise_of_series_is_found_again(freedom, least, most):
    rng = np.random.default_rng(0)
    counts = rng.integers(5, 30, 1000)
    noise = 2.0 * freedom / rng.chisquare(freedom, 1000)
    found = fit_noise_scale(noise * rng.chisquare(counts), counts)
    assert least <= found.freedom <= most and found.scale == pytest.approx(2.0, rel=0.15)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_triangular_and_positive_systems_are_solved_as_numpy_solves_them(size):
    rng = np.random.default_rng(size)
    a = rng.normal(size=(5, size, size + 2)).astype(np.float32)
    a = a @ np.swapaxes(a, 1, 2) + 0.1 * np.eye(size, dtype=np.float32)
    b = rng.normal(size=(5, size, 3)).astype(np.float32)
    root = np.asarray(jax.vmap(cholesky)(a))
    np.testing.assert_allclose(root, np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)
    close = {"rtol": 1e-3, "atol": 1e-4}
    lower = jax.vmap(lambda a, b: solve_triangular(a, b, lower=True))(root, b)
    np.testing.assert_allclose(lower, np.linalg.solve(root, b), **close)
    upper = jax.vmap(solve_triangular)(np.swapaxes(root, 1, 2), b[..., 0])
    np.testing.assert_allclose(upper, np.linalg.solve(np.swapaxes(root, 1, 2), b)[..., 0], **close)
    np.testing.assert_allclose(jax.vmap(solve_positive)(a, b), np.linalg.solve(a, b), rtol=1e-2, atol=1e-3)


def test_the_other_half_of_a_triangular_matrix_neither_counts_nor_learns():
    a = jnp.asarray(matrix(3, 4, 4, 2.0), jnp.float32)
    b = 1.0 + jnp.arange(4.0)
    np.testing.assert_array_equal(solve_triangular(a, b), solve_triangular(jnp.triu(a), b))
    slopes = jax.grad(lambda a: (solve_triangular(a, b, lower=True) ** 2).sum())(a)
    np.testing.assert_array_equal(np.triu(slopes, 1), 0.0)
    assert (np.tril(np.abs(slopes)).max(0) > 0).all()


def test_a_matrix_without_a_root_gives_nan():
    assert np.isnan(cholesky(jnp.asarray([[1.0, 2.0], [2.0, 1.0]]))).any()


def test_bases_are_orthonormal_in_batches_too():
    a = jnp.asarray(np.stack([matrix(seed, 20, 20, 1e3) for seed in range(3)]), jnp.float32)
    q = np.asarray(jax.jit(jax.vmap(orthonormal))(a))
    np.testing.assert_allclose(np.swapaxes(q, 1, 2) @ q, np.broadcast_to(np.eye(20), (3, 20, 20)), atol=1e-5)
