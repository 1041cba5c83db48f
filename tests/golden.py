"""Golden numbers: what every part of the library says for fixed seeds, against which a rewrite is compared.

    python tests/golden.py            compares with golden.json and prints what differs; fails if anything does
    python tests/golden.py --write    writes golden.json
    python tests/golden.py stream np  only groups whose names contain one of these, in that order

Everything is computed in float64, where another order of sums changes nothing that is compared: what differs is another
computation. The group `float32` says the same of a few numbers in the precision that is the default.
"""

import argparse
import dataclasses
import functools
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal
from unittest import mock

os.environ["JAX_ENABLE_X64"] = "1"

import conftest  # noqa: F401  the flags that all tests share, before JAX is imported

# isort: split
import jax
import jax.random as jr
import numpy as np
import pandas as pd

import odeprocess as odp
from odeprocess.forecasting import predict
from odeprocess.posterior.series_keys import hash_name
from odeprocess.serving.http import ServedModel, create_app
from odeprocess.training.gauss_newton import can_converge, gauss_newton_fit
from odeprocess.training.train import train

jax.config.update("jax_numpy_dtype_promotion", "standard")  # in float64 whole numbers are of two kinds

FILE = Path(__file__).with_name("golden.json")
TOLERANCE = 1e-5  # of the largest number of an entry
DIGITS = 9
# Numbers that were changed on purpose: the name of an entry, or how several begin, and why. They are told, and do not fail.
EXCEPTIONS = {"recipe: error of ndp-linear": "candidates are compared by log predictive densities, no longer by errors"}

Numbers = dict[str, list[float]]
TIMES = [0.3, 2.0, 4.5, 7.1, 11.0]
OPTIONS = odp.FitOptions(epochs=2, batch_size=4, learning_rate=3e-3)  # of processes without a learned prior
LEARNED = dataclasses.replace(OPTIONS, em_epochs=2)
SAMPLER = odp.TaskSampler(context=(1, 4), extra=(0, 3))
FIRST = odp.TaskSampler(context=(1, 4), extra=(0, 3), first_point=True)
SIZES = {"r_dim": 8, "z_dim": 6, "l_dim": 4, "h_dim": 10}
FEW = odp.Grid(steps=4, order=3)


def flat(values: Any) -> list[float]:
    """Any array, or several, as a list of numbers."""
    parts = values if isinstance(values, (tuple, list)) else [values]
    return [float(x) for part in parts for x in np.asarray(part, np.float64).ravel()]


# --- Series and models -------------------------------------------------------------------------------------------------


def curves(count: int = 12, *, channels: int = 1, partial: bool = False, covariates: int = 0, seed: int = 0) -> odp.Series:
    """Irregular series of 6 to 12 noisy points of waves; without some values, and with covariates, if asked."""
    rng = np.random.default_rng(seed)
    t = [np.sort(rng.uniform(0, 10, length)) for length in rng.integers(6, 13, count)]
    phase, height = rng.uniform(0, 2, (2, count, channels))
    y = [3 + (1 + height[i]) * np.sin(t[i][:, None] / 1.5 + phase[i]) for i in range(count)]
    y = [each + 0.05 * rng.normal(size=each.shape) for each in y]
    if partial:
        for each in y:
            each[1::3, 0], each[2::4, -1] = np.nan, np.nan
    return odp.make_series(t, y, static=rng.normal(size=(count, covariates)) if covariates else None)


def images(count: int = 8, frames: int = 5, side: int = 16) -> odp.Series:
    """Bumps that wander over a small square, flattened."""
    rng = np.random.default_rng(1)
    rows, columns = np.mgrid[:side, :side]
    t = np.broadcast_to(np.linspace(0.0, 2.0, frames), (count, frames))
    turn = t[:, :, None, None] + rng.uniform(0, 3, (count, 1, 1, 1))
    off = (rows - side * (0.5 + 0.2 * np.sin(turn))) ** 2 + (columns - side * (0.5 + 0.2 * np.cos(turn))) ** 2
    return odp.make_series(t, np.exp(-off / 12).reshape(count, frames, -1))


def small(name: str, **changes: Any) -> odp.Spec:
    """A row of the table of variants, with all sizes small."""
    sizes = {**SIZES, "l_dim": SIZES["z_dim"]} if odp.VARIANTS[name].dynamics == "none" else SIZES
    return odp.variant(name, **{**sizes, **({"image": (16, 16)} if name.startswith("image") else {}), **changes})


def data_for(name: str) -> odp.Series:
    return images() if name.startswith("image") else curves()


@functools.cache
def trained(name: str) -> odp.Fit:
    """Two epochs of each half of the training of a variant; groups share it."""
    spec = small(name)
    sampler, options = FIRST if spec.initial == "first" else SAMPLER, LEARNED if spec.prior == "learned" else OPTIONS
    return odp.fit(data_for(name), spec, sampler=sampler, options=options)


def first_points(series: odp.Series, count: int, which: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The first points of a series, NaN where a value is missing."""
    y = np.where(series.mask[which], series.y[which], np.nan)
    return np.asarray(series.t[which][:count]), np.asarray(y[:count])


# --- What is asked of them ---------------------------------------------------------------------------------------------


def training(fit: odp.Fit) -> Numbers:
    """The history, and how far the weights have come."""
    history = fit.history
    found = {"loss": flat(history.loss)}
    if history.em_loss.size:
        found["EM loss"] = flat(history.em_loss)
    if not np.isnan(history.nll).all():
        found["validation"] = flat((history.mse_one, history.mse, history.nll))
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(fit.model.process)]
    return {
        **found,
        "weights": [sum(float((leaf**2).sum()) for leaf in leaves)],
        "best": [fit.best],
        "skipped": flat(fit.skipped),
    }


def answers(posterior: odp.Posterior, times: Any, t: Any, y: Any, pick: Any = slice(None), *, normal: bool = True) -> Numbers:
    """All that a posterior can be asked: at `times`, and about values `y` at `t`; of images some pixels."""
    found = {
        "mean": posterior.mean(times)[..., pick],
        "std": [posterior.std(times, of=of)[..., pick] for of in ("observations", "function")],
        "interval of the function": [x[..., pick] for x in posterior.interval(times, 0.9, of="function")],
        "draws": posterior.sample(times[:2], 3, of="function")[..., pick],
        "functions": posterior.functions(2)(times[:2])[..., pick],
        "log density": posterior.log_prob(t, y),
    }
    if normal:
        found["interval"] = [x[..., pick] for x in posterior.interval(times, 0.9)]
        found["quantile"] = posterior.quantile(times[:2], [0.01, 0.7])[..., pick]
        found["measurements"] = posterior.sample(times[:2], 2)[..., pick]
        found["log density of each"] = posterior.log_prob(t, y, joint=False)[..., pick]
    return {name: flat(value) for name, value in found.items()}


def under(name: str, numbers: Numbers) -> Numbers:
    return {f"{name}, {key}": value for key, value in numbers.items()}


def inference(model: odp.Model, series: odp.Series, times: list[float], pick: Any = slice(None)) -> Numbers:
    """Given three points of a series; after an update with two more; by exact inference, where that can be."""
    t, y = first_points(series, 6)
    static, normal = series.static[0] if series.static.shape[-1] else None, model.spec.likelihood == "gaussian"
    posterior = model.condition(t[:3], y[:3], key=jr.key(3), static=static, draws=16, inference="amortised")
    found = answers(posterior, times, t[3:], y[3:], pick, normal=normal)
    found["log density, importance"] = flat(posterior.log_prob(t[3:], y[3:], method="importance"))
    updated = posterior.update(t[3:5], y[3:5])
    found |= under("updated", {"mean": flat(updated.mean(times)[..., pick]), "log density": flat(updated.log_prob(t[5:], y[5:]))})
    if model.spec.initial == "context" and model.scaling.origin == "absolute":
        nobody = model.condition(key=jr.key(4), static=static, draws=8, inference="amortised")
        found["nothing given, mean"] = flat(nobody.mean(times)[..., pick])
    if model.spec.prior == "learned" and normal:
        exact = posterior.with_inference("exact")
        found |= under("exact", answers(exact, times, t[3:], y[3:], pick))
        found["exact and updated, mean"] = flat(exact.update(t[3:5], y[3:5]).mean(times))
    return found


# --- Groups ------------------------------------------------------------------------------------------------------------


def of_variant(name: str) -> Numbers:
    """Training and inference of one row of the table."""
    fit = trained(name)
    if name.startswith("image"):
        return {**training(fit), **inference(fit.model, images(), [0.1, 1.2], [0, 100, 119, 136, 255])}
    return {**training(fit), **inference(fit.model, curves(), TIMES)}


OTHERS: dict[str, Callable[[], tuple[odp.Spec, odp.Series, dict[str, Any]]]] = {
    "missing values and covariates": lambda: (
        small("nd2p", solver=FEW),
        curves(channels=2, partial=True, covariates=2),
        {"options": dataclasses.replace(OPTIONS, schedule="cosine", clip=1.0)},
    ),
    "first observation": lambda: (
        small("ndp", initial="first", solver=FEW),
        curves(),
        {"origin": "first", "sampler": FIRST},
    ),
    "attention": lambda: (
        small("np", aggregation="attention", waves=2),
        curves(),
        {"options": dataclasses.replace(OPTIONS, objective="importance", samples=3)},
    ),
    "precision": lambda: (
        small("np-residual", aggregation="precision", start="pytorch"),
        curves(),
        {"options": dataclasses.replace(OPTIONS, optimiser="rmsprop", learning_rate=1e-3)},
    ),
    "adaptive": lambda: (small("ndp-l", solver=odp.Adaptive()), curves(), {}),
    "fixed noise": lambda: (
        small("ndp-l", noise="fixed", noise_std=0.2, solver=FEW),
        curves(),
        {"options": dataclasses.replace(OPTIONS, kl_warm_up=0.5, horizon_growth=0.5)},
    ),
    "seeds and validation": lambda: (
        small("np"),
        curves(),
        {"seeds": [0, 1], "validation": curves(5, seed=5), "sampler": dataclasses.replace(SAMPLER, split="prefix")},
    ),
    "bucketed": lambda: (
        small("ndp-linear", solver=FEW),
        curves(covariates=1),
        {"options": dataclasses.replace(OPTIONS, bucketed=True, em_epochs=0)},
    ),
}


def of_other(name: str) -> Numbers:
    """Training and inference with options that no row of the table has."""
    spec, series, how = OTHERS[name]()
    fit = odp.fit(series, spec, **{"sampler": SAMPLER, "options": OPTIONS, **how})
    t, y = first_points(series, 5)
    static = series.static[0] if series.static.shape[-1] else None
    posterior = fit.model.condition(t[:3], y[:3], key=jr.key(3), static=static, draws=16, inference="amortised")
    posterior = posterior.update(t[3], y[3])
    found = {
        "mean": posterior.mean(TIMES),
        "interval": posterior.interval(TIMES),
        "log density": posterior.log_prob(t[4:], y[4:]),
    }
    return {**training(fit), **{name: flat(value) for name, value in found.items()}}


def of_expectation_maximisation() -> Numbers:
    """Expectation–maximisation on enough series for a prior of several parts, and posteriors under it."""
    series = curves(60)
    options = odp.FitOptions(epochs=2, em_epochs=2, batch_size=20, learning_rate=1e-2)
    fit = odp.fit(series, small("ndp-linear", components=3, solver=FEW), sampler=SAMPLER, options=options)
    return {**training(fit), **inference(fit.model, series, TIMES)}


def of_calibration() -> Numbers:
    """Intervals calibrated on held-out series, of exact posteriors and of the encoder's own."""
    held, found = curves(6, seed=7), {}
    t, y = first_points(held, 5)
    kinds: tuple[Literal["exact", "amortised"], ...] = ("exact", "amortised")
    for kind in kinds:
        model = trained("ndp-linear").model.calibrated(held, seen=curves(), inference=kind, key=jr.key(5), draws=16)
        posterior = model.condition(t[:3], y[:3], key=jr.key(6), draws=16, inference=kind)
        found[f"{kind}, interval"] = flat(posterior.interval(TIMES))
        found[f"{kind}, log density of each"] = flat(posterior.log_prob(t[3:], y[3:], joint=False))
    return found


def of_recipe(name: str) -> Numbers:
    """A linear process trained with the options of the recipe, to convergence, and calibrated on series it was not trained on."""
    series, order = curves(12, seed=2), np.random.default_rng(0).permutation(12)
    kept, held = series[np.sort(order[2:])], series[np.sort(order[:2])]
    length = kept.t.shape[1]
    sampler = odp.TaskSampler(context=(0, length // 2), extra=(length - length // 2,) * 2, split="mixed", shared="nothing")
    options = odp.FitOptions(epochs=2, em_epochs=6, batch_size=10, learning_rate=3e-3, schedule="cosine", clip=100.0)
    model = train(name, kept, sampler=sampler, options=options).model
    model = gauss_newton_fit(model, kept, sampler, seed=0) if can_converge(model) else model
    for kind in ("exact", "amortised"):
        model = model.calibrated(held, seen=kept, inference=kind, key=jr.key(0))
    t, y = first_points(curves(1, seed=3), 3)
    posterior = model.condition(t, y, key=jr.key(1), draws=16, inference="exact")
    return {"mean": flat(posterior.mean(TIMES)), "interval": flat(posterior.interval(TIMES))}


def of_chunks() -> Numbers:
    """Posteriors of many series, a few at a time."""
    series, model = curves(9, seed=4), trained("ndp").model
    y = np.where(series.mask, series.y, np.nan)
    chunks = list(model.in_chunks(series.t[:, :4], y[:, :4], key=jr.key(2), draws=8, size=4))
    return {"means": flat([chunk.mean([1.0, 6.0]) for chunk in chunks]), "sizes": [len(chunk) for chunk in chunks]}


def of_solver() -> Numbers:
    """The error of a coarse solver, and what finer ones and tolerances make of the same model."""
    model, found = trained("nd2p").model, {}
    t, y = first_points(curves(), 3)
    solvers = {"coarse": odp.Grid(steps=2, order=2), "fine": odp.Grid(steps=20, order=4), "adaptive": odp.Adaptive(rtol=1e-6)}
    for name, solver in solvers.items():
        posterior = model.with_solver(solver).condition(t, y, key=jr.key(3), draws=8)
        found[f"{name}, mean"] = flat(posterior.mean([-2.0, *TIMES]))
        if name == "coarse":
            error = odp.solver_error(posterior, TIMES)
            found["error"] = [error.absolute, error.relative, error.relative_to_function]
    return found


def of_gradients() -> Numbers:
    """Derivatives of a mean and of a log density, in values and times."""
    model = trained("ndp").model
    t, y = first_points(curves(), 4)

    def mean(values: Any) -> Any:
        return model.condition(t, values, key=jr.key(3), draws=4).mean([5.0]).sum()

    def density(times: Any) -> Any:
        return model.condition(t[:2], y[:2], key=jr.key(3), draws=4).log_prob(times, y[2:])

    found = jax.grad(mean)(jax.numpy.asarray(y)), jax.grad(density)(jax.numpy.asarray(t[2:]))
    return {"of a mean": flat(found[0]), "of a density": flat(found[1])}


def of_folder() -> Numbers:
    """A model that was saved and loaded."""
    t, y = first_points(curves(), 3)
    with tempfile.TemporaryDirectory() as folder:
        trained("ndp-skip").model.save(Path(folder) / "model")
        model = odp.load(Path(folder) / "model")
    return {"mean": flat(model.condition(t, y, key=jr.key(3), draws=8, inference="amortised").mean(TIMES))}


def of_stream() -> Numbers:
    """Observations of several series as they come; and the same stream from its file."""
    model = trained("ndp").model
    stream = odp.Stream(model, key=jr.key(2), draws=8)
    stream.observe(["a", "b", "a", "c"], t=[3.0, 2.0, 8.5, 1.0], y=[2.0, 4.1, 3.2, 2.2])
    stream.observe("b", t=[0.5, 6.0], y=[2.5, 3.5])
    found = {"one": flat(stream.posterior("a").mean(TIMES)), "batch": flat(stream.posterior(["c", "b"]).interval([1.0, 5.0]))}
    with tempfile.TemporaryDirectory() as folder:
        stream.save(Path(folder) / "stream")
        again = odp.Stream.load(Path(folder) / "stream", model)
    again.observe("a", t=[5.0], y=[3.0])
    return {**found, "loaded": flat(again.posterior("a").mean(TIMES)), "counts": [again.count(name) for name in again.ids]}


def of_suggest() -> Numbers:
    """Where to measure next, by either measure, with costs and about certain times."""
    t, y = first_points(curves(), 2)
    posterior = trained("ndp").model.condition(t, y, key=jr.key(3), draws=16)
    candidates = np.linspace(0.0, 10.0, 11)
    ways: dict[str, dict[str, Any]] = {
        "information": {"count": 3},
        "spread": {"by": "spread", "count": 2},
        "about": {"about": [5.0, 9.0], "costs": 1.0 + candidates, "forbidden": [(2.5, 4.5)]},
    }
    found = {name: odp.suggest(posterior, candidates, **how) for name, how in ways.items()}
    times = {f"{name}, times": flat(each.times) for name, each in found.items()}
    return {**times, **{f"{name}, scores": flat(each.scores) for name, each in found.items()}}


def of_server() -> Numbers:
    """What the server answers to a client that opens a series, adds to it and asks."""
    from fastapi.testclient import TestClient  # here it may warn

    found: Numbers = {}
    with TestClient(
        create_app([ServedModel.of("waves", trained("ndp").model)], warm=False), base_url="http://localhost"
    ) as client:

        def said(path: str, body: dict[str, Any]) -> dict[str, Any]:
            answer = client.post(f"/api/v1/series{path}", json=body)
            assert answer.is_success, answer.text
            return answer.json()

        said("", {"id": "one", "observations": [{"t": 1.0, "y": [2.5]}]})
        said("/one/observations", {"observations": [{"t": 4.0, "y": [3.5]}, {"t": 2.5, "y": [3.0]}]})
        prediction = said("/one/predict", {"times": TIMES, "level": 0.8, "draws": 2})
        for name in ("mean", "std", "low", "high", "draws"):
            found[name] = flat(prediction[name])
        wish = said("/one/suggest", {"candidates": [0.0, 3.0, 6.0, 9.0], "count": 2})
    found |= {"suggested times": flat(wish["times"]), "suggested scores": flat(wish["scores"])}
    return {**found, "count": [prediction["count"]], "notes": [len(prediction["notes"])]}


def table(count: int, seed: int) -> pd.DataFrame:
    """Levels and speeds of `count` subjects, some missing, with a dose and a sex."""
    rng, parts = np.random.default_rng(seed), []
    for i in range(count):
        t = np.sort(rng.uniform(0, 8, 7)).round(3) + 3.0 * i
        level, speed = np.exp(rng.normal(1, 0.3) - 0.2 * (t - t[0])) + 0.1, np.sin(t - t[0] + i)
        level[1], speed[3] = np.nan, np.nan
        columns = {"id": f"s{i:02}", "t": t, "level": level, "speed": speed, "dose": rng.uniform(0, 2), "sex": "fm"[i % 2]}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def keys_of_names(names: Iterable[Any], seed: int) -> Any:
    """The keys that tables gave their series before these had those of streams, so that numbers can be compared."""
    return jax.numpy.stack([jr.fold_in(jr.key(seed), hash_name(name)) for name in names])


@mock.patch.object(predict, "series_keys", keys_of_names)
def of_forecaster() -> Numbers:
    """A forecaster on a small table: predictions, draws and scores; and those of one that was saved."""
    how: dict[str, Any] = {"options": {"epochs": 2, "em_epochs": 1}, "sizes": {**SIZES, "l_dim": 2}}
    forecaster = odp.Forecaster(model="ndp-skip", held_out=3, draws=8, verbose=False, **how)
    forecaster.fit(table(10, 0), "id", "t", ["level", "speed"], static=["dose", "sex"])
    new = table(3, 1)
    new = new[new["t"] < 5 + 3.0 * new["id"].str[1:].astype(int)]
    numbers = ["mean", "std", "q0.05", "q0.5", "q0.95"]
    found = {"predict": flat(forecaster.predict(new, [1.0, 6.0])[numbers])}
    found["predict, amortised"] = flat(forecaster.predict(new, [1.0, 6.0], inference="amortised")[numbers])
    found["sample"] = flat(forecaster.sample(new, [6.0], 2)["value"])
    scores = forecaster.evaluate(table(4, 2), 3)
    found |= {f"evaluate, {name}": flat(column) for name, column in scores.select_dtypes("number").items()}
    with tempfile.TemporaryDirectory() as folder:
        forecaster.save(Path(folder) / "kept")
        loaded = odp.Forecaster.load(Path(folder) / "kept")
    return {**found, "loaded": flat(loaded.predict(new, [3.0], quantiles=[0.5])[["mean", "std"]])}


def of_float32() -> Numbers:
    """The default precision: what two epochs come to. Not of expectation–maximisation, in which float32 loses more digits than
    are compared."""
    found: Numbers = {}
    t, y = first_points(curves(), 3)
    with jax.enable_x64(False):
        for name in ("np", "ndp"):
            fit = odp.fit(curves(), small(name), sampler=SAMPLER, options=OPTIONS)
            posterior = fit.model.condition(t, y, key=jr.key(3), draws=16)
            assert jax.tree.leaves(fit.model.process)[0].dtype == np.float32
            found |= under(name, {"loss": flat(fit.history.loss), "mean": flat(posterior.mean(TIMES))})
    return found


GROUPS: dict[str, Callable[[], Numbers]] = {
    **{f"variant {name}": functools.partial(of_variant, name) for name in odp.VARIANTS},
    **{f"options {name}": functools.partial(of_other, name) for name in OTHERS},
    "EM": of_expectation_maximisation,
    "calibration": of_calibration,
    "recipe": functools.partial(of_recipe, "ndp-linear"),
    "chunks": of_chunks,
    "solver": of_solver,
    "gradients": of_gradients,
    "folder": of_folder,
    "stream": of_stream,
    "suggest": of_suggest,
    "server": of_server,
    "forecaster": of_forecaster,
    "float32": of_float32,
}


# --- Comparing ---------------------------------------------------------------------------------------------------------


def computed(groups: Iterable[str], tell: Callable[[str], None] = lambda note: None) -> Numbers:
    """The numbers of groups, by "group: name"."""
    found: Numbers = {}
    for group in groups:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of extrapolation and of few series, which are meant here
            new = {f"{group}: {name}": values for name, values in GROUPS[group]().items()}
        found |= new
        off = [name for name, share in differences(new, [group]).items() if not share <= TOLERANCE and reason(name) is None]
        tell(f"{group}: {time.perf_counter() - began:.1f} s" + "".join(f"\n    {name} differs" for name in off))
    return found


def apart(found: list[float] | None, golden: list[float] | None) -> float:
    """The largest difference, as a share of the entry's largest number; infinite where the numbers are of another kind."""
    if found is None or golden is None or len(found) != len(golden):
        return np.inf
    a, b = np.asarray(found, np.float64), np.asarray(golden, np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(np.where(finite, 0.0, b), np.where(np.isfinite(a), 0.0, a), equal_nan=True):
        return np.inf
    largest = np.abs(b[finite]).max(initial=0.0)
    return float(np.abs(a - b)[finite].max(initial=0.0) / (largest or 1.0))


def differences(found: Numbers, groups: Iterable[str]) -> dict[str, float]:
    """How far each entry of some groups is from the golden one."""
    golden, asked = json.loads(FILE.read_text()) if FILE.exists() else {}, set(groups)
    names = dict.fromkeys([*(name for name in golden if name.split(":")[0] in asked), *found])
    return {name: apart(found.get(name), golden.get(name)) for name in names}


def reason(name: str) -> str | None:
    """Why an entry may differ, if it may."""
    return next((why for beginning, why in EXCEPTIONS.items() if name.startswith(beginning)), None)


def written(numbers: Numbers) -> str:
    """As JSON, a line for each entry."""
    lines = [f"{json.dumps(name)}: {json.dumps([float(f'{x:.{DIGITS}g}') for x in values])}" for name, values in numbers.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help="parts of the names of groups; by default all")
    parser.add_argument("--write", action="store_true", help="writes what is found, which is then the truth")
    parser.add_argument("--reversed", action="store_true", help="the groups in the opposite order: it should change nothing")
    parser.add_argument("--dump", type=Path, help="another file to write all digits of what is found to")
    asked = parser.parse_args()
    groups = list(dict.fromkeys(g for part in asked.groups or [""] for g in GROUPS if part in g))
    groups = groups[:: -1 if asked.reversed else 1]
    found = computed(groups, lambda note: print(note, file=sys.stderr, flush=True))
    if asked.dump:
        asked.dump.write_text(json.dumps(found))
    if asked.write:
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}
        kept = {name: values for name, values in kept.items() if name.split(":")[0] not in groups} | found
        order = list(GROUPS)
        FILE.write_text(written(dict(sorted(kept.items(), key=lambda item: order.index(item[0].split(":")[0])))))
        return 0
    off = {name: share for name, share in differences(found, groups).items() if not share <= TOLERANCE}
    for name, share in sorted(off.items(), key=lambda item: -item[1]):
        print(f"{share:9.1e}  {name}" + (f"  (meant: {why})" if (why := reason(name)) else ""))
    failed = sum(reason(name) is None for name in off)
    print(f"{len(found)} entries; {len(off)} differ by more than {TOLERANCE:g}, {len(off) - failed} of them on purpose")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
