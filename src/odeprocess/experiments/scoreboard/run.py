"""The runs of the scoreboard: each trains one model on one task where it needs training, and scores it."""

import time
from pathlib import Path
from typing import Any

from odeprocess.experiments.baselines.gaussian_processes import TRUE_KERNELS
from odeprocess.experiments.definitions import Advance, Experiment, Job
from odeprocess.experiments.result_files import run_folder
from odeprocess.posterior.latent_posterior import Inference

from .evaluate import score_attentive, score_gaussian_process, score_model
from .models import GAUSSIAN_PROCESSES, Progress, load_or_train, train_attentive
from .tasks import ScoreboardTask


def list_jobs(experiment: Experiment, out: Path) -> list[Job]:
    """A job for each model on each task, without noise and with it."""
    settings, jobs = experiment.settings, []
    seeds = tuple(range(experiment.seeds))
    for name in settings["quick"]["tasks"] if experiment.quick else settings["tasks"]:
        for noise in settings["noise"]:
            for model in settings["variants"]:
                if model == "gp-oracle" and name not in TRUE_KERNELS:
                    continue
                count = 4 if experiment.quick else settings["gp_series" if model == "gp-series" else "series"]
                task = ScoreboardTask(name, noise, count, experiment.quick)
                trained = "" if model in GAUSSIAN_PROCESSES else f"-{len(seeds)}"
                key = f"accuracy-{name}-{noise}-{model}-{count}{trained}{'-quick' if experiment.quick else ''}"

                def run(advance: Advance, task: ScoreboardTask = task, model: str = model, key: str = key) -> dict[str, Any]:
                    def progress(note: str) -> None:
                        advance(1e-3, f"{model}, {note}")

                    return run_model(task, model, seeds, run_folder(out, key), progress)

                jobs.append(Job(key, 1.0, run))
    return jobs


def run_model(task: ScoreboardTask, name: str, seeds: tuple[int, ...], folder: Path, progress: Progress) -> dict[str, Any]:
    """Trains a model where it needs training, and scores it.

    Returns:
        The content of the run's file: its `scores` are, by variant, a list over seeds of scores by cell, metric and series.
    """
    about = {"task": task.name, "noise": task.noise, "variant": name, "series": task.num_series}
    if name in GAUSSIAN_PROCESSES:
        return {**about, "seeds": 1, "scores": {name: [score_gaussian_process(name, task, progress)]}}
    if name == "anp":
        scores = [score_attentive(train_attentive(task, seed), task, progress) for seed in seeds]
        return {**about, "seeds": len(seeds), "scores": {name: scores}}
    began = time.perf_counter()
    models = load_or_train(task, name, seeds, folder, progress)
    seconds = time.perf_counter() - began
    kinds: dict[str, Inference] = (
        {"default": "auto", "default-amortised": "amortised"} if name == "default" else {name: "amortised"}
    )
    scores = {
        variant: [score_model(model, task, inference=kind, progress=progress) for model in models]
        for variant, kind in kinds.items()
    }
    return {**about, "seeds": len(scores[name]), "scores": scores, "train_seconds": seconds}
