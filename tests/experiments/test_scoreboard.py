"""The scoreboard: its baselines against formulas, its cells, its verdicts."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("tinygp")

from odeprocess.experiments.baselines import gaussian_processes
from odeprocess.experiments.definitions import experiment
from odeprocess.experiments.reproduce import list_jobs, select_variants
from odeprocess.experiments.scoreboard.report import Scores
from odeprocess.experiments.scoreboard.run import run_model
from odeprocess.experiments.scoreboard.series_scores import score_draws, score_normals
from odeprocess.experiments.scoreboard.tasks import ScoreboardTask


def test_gaussian_processes_predict_by_the_formula():
    rng = np.random.default_rng(0)
    t, y, at = rng.uniform(-2, 2, (3, 6)), rng.standard_normal((3, 6, 1)), rng.uniform(-2, 2, (3, 4))
    raw = np.array([0.1, 0.2, -0.3, 2.0])
    amplitude, length, slope, noise = np.exp(
        gaussian_processes.LOW + (gaussian_processes.HIGH - gaussian_processes.LOW) / (1 + np.exp(-raw))
    )

    def kernel(a, b):
        return amplitude**2 * np.exp(-0.5 * ((a[:, None] - b[None]) / length) ** 2) + slope**2 * (a[:, None] * b[None] + 1.0)

    found = gaussian_processes.predict_with_shared([("rbf + linear", raw)], t, y, at)
    for i in range(3):
        gain = kernel(at[i], t[i]) @ np.linalg.inv(kernel(t[i], t[i]) + noise**2 * np.eye(6))
        np.testing.assert_allclose(found.mean[i, :, 0], gain @ y[i, :, 0], rtol=1e-6, atol=1e-8)
        variance = np.diag(kernel(at[i], at[i]) - gain @ kernel(t[i], at[i]))
        np.testing.assert_allclose(found.std[i, :, 0], np.sqrt(np.maximum(variance, 0)), rtol=1e-4, atol=1e-5)
    assert jnp.result_type(float) == jnp.float32, "float64 must not leak out"


def test_a_gaussian_process_fitted_to_a_line_finds_it():
    t = np.linspace(-2, 2, 5)[None]
    at = np.linspace(-2, 2, 9)[None]
    found = gaussian_processes.predict_each_series(t, (0.5 + 0.8 * t)[..., None], at)
    np.testing.assert_allclose(found.mean[0, :, 0], 0.5 + 0.8 * at[0], atol=1e-3)
    nothing = gaussian_processes.predict_each_series(t[:, :0], np.zeros((1, 0, 1)), at)
    assert (nothing.mean == 0).all() and (nothing.std == 1).all()


def test_a_cell_gives_its_number_of_observations():
    task = ScoreboardTask("lotka-volterra", 0.05, 7)
    for split, context in task.cells():
        given = task.given(split, context)
        assert (given.sum(1) == context).all()
        assert split == "interpolation" or not np.diff(given.astype(int), axis=1).max(initial=0) > 0
    assert len(task.cells()) == 17 and np.array_equal(task.test.y, ScoreboardTask("lotka-volterra", 0.05, 7).test.y)


def test_gaussian_processes_are_scored_on_a_task(tmp_path):
    notes = []
    run = run_model(ScoreboardTask("lines", 0.0, 4, quick=True), "gp-shared", (0,), tmp_path, notes.append)
    scores = run["scores"]["gp-shared"][0]
    assert set(scores) == {"interpolation 0", "interpolation 3", "forecast 3"} and len(notes) == 3
    assert np.mean(scores["interpolation 3"]["mse"]) < 1e-4 < np.mean(scores["interpolation 0"]["mse"])
    assert not jax.config.jax_enable_x64


def test_saved_models_are_not_trained_again(tmp_path):
    task, notes, notes_again = ScoreboardTask("lines", 0.0, 2, quick=True), [], []
    first = run_model(task, "latent-ode", (0,), tmp_path, notes.append)
    again = run_model(task, "latent-ode", (0,), tmp_path, notes_again.append)
    assert again["scores"] == first["scores"]
    assert any("loss" in note for note in notes) and not any("loss" in note for note in notes_again)


def test_some_models_of_the_scoreboard_can_be_run_alone():
    whole = experiment("accuracy")
    part = select_variants(whole, ["default", "gp-shared"])
    keys = [job.key for job in list_jobs(part, Path()) if job.key.startswith("accuracy-sines-0.05-")]
    assert keys == ["accuracy-sines-0.05-default-1000-5", "accuracy-sines-0.05-gp-shared-1000"]
    with pytest.raises(ValueError, match="gp-shared"):
        select_variants(whole, ["gp"])


@pytest.mark.parametrize(
    ("error", "density", "tie", "verdict"),
    [(-1.0, 1.0, False, "won"), (0.1, 1.0, False, "level"), (1.0, 1.0, False, "lost"), (1.0, -9.0, True, "tied")],
)
def test_verdicts(error, density, tie, verdict):
    about = {"task": "sines", "noise": 0.0, "context": 3, "split": "forecast", "stderr": 0.2, "seeds": 1}
    rows = [{**about, "variant": "default", "metric": "mse", "mean": 1.0}]
    for baseline in ("gp-series", "gp-shared"):
        for metric, mean in (("mse", error), ("log_likelihood", density)):
            rows.append({**about, "variant": f"default against {baseline}", "metric": metric, "mean": mean, "tie": tie})
    assert Scores(rows).verdict("sines", 0.0, "forecast", 3) == verdict


def test_many_draws_of_a_normal_score_like_the_normal():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((40, 5, 1))
    draws = rng.standard_normal((40, 2000, 5, 1))
    low, high = (np.full(y.shape, x) for x in (-1.6449, 1.6449))
    chosen = np.ones(y.shape, bool)
    ours = score_draws(draws, np.full((1, 1, 1, 1), 1e-3), low, high, y, chosen)
    theirs = score_normals(0.0 * y, 1.0 + 0.0 * y, y, chosen)
    for name, tolerance in (("mse", 0.02), ("log_likelihood", 0.02), ("crps", 0.02), ("coverage90", 1e-9)):
        assert ours[name].mean() == pytest.approx(theirs[name].mean(), abs=tolerance), name
