"""Odd numbers in every public place: what comes out is finite, or one line says what is wrong with them.

Shapes are always the same, and so are the horizons that are integrated: what is tried is arithmetic, not compiling.
"""

import dataclasses
import functools
import random
import warnings
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax
import jax.random as jr
import numpy as np
import pandas as pd

import odeprocess as odp
import table_cases
from cases import model as case_model, untrained
from odeprocess.cli.common import parse_numbers as parsed
from odeprocess.posterior.functions import SolverWarning
from odeprocess.serving.playground import ModelView
from odeprocess.serving.playground.page_state import PageState

from .outcomes import outcome

KEY, DRAWS = jr.key(0), 8
USUAL = (0.0, -0.0, 0.1, 0.5, 0.9, 1.0, 5e-324, 1e-320, 1e-46, 1e-8)
FAR = (1e6, 1e8, 1e9, -1e9, 1.1e9, 1e10, 1e15, 1e19, 1e38, -1e38, 1e100, 1e150, 1e154, 1e300, -1e300, 1.7e308, -1.7e308)
BAD = (float("nan"), float("inf"), float("-inf"))
STRANGE = (
    *(10**400, -(10**5000), 2**63, True, False, None, "1", "0.5", "x", "", 1j, np.complex128(2.0), b"1", object(), {}, set(), []),
    *(Decimal("0.5"), Fraction(1, 3), np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.float32(0.25), np.float16(0.5)),
    *(
        np.int64(1),
        np.uint8(1),
        np.bool_(True),
        np.float64(0.75),
        np.longdouble("1e400"),
        np.str_("0.1"),
        [0.5, [1.0]],
        np.array([None]),
    ),
)
COUNTS = (0, -1, -(10**400), 2.5, 10**7, 10**9, 10**400, 2**63, float("nan"), float("inf"), "8", None, True, 8, np.int64(8), [8])
LEVELS = (0.5, 0.9, 1 - 1e-8, 1 - 1e-16, 1e-8, 1e-46, 1e-300, 5e-324, 0.0, 1.0, -0.1, 1.1, 2.0, *BAD)


class Odds(random.Random):
    """Chance, and how many kinds of models it may choose from."""

    kinds = 9


def odd_numbers(seed: int, count: int, kinds: int = Odds.kinds, places: tuple[str, ...] = ()) -> Counter:
    """Numbers of every size and kind, to everything that takes numbers."""
    compile_all(kinds)
    rng, found = Odds(seed), Counter()
    rng.kinds = kinds
    for _ in range(count):
        name = rng.choice(places or list(PLACES))
        found[_outcome(name, functools.partial(PLACES[name], rng))] += 1
    return found


def _outcome(name: str, act: Callable[[], Any]) -> str:
    """What comes of asking somewhere: a failure says where."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        said = outcome(lambda: finite(act(), unreached=any(issubclass(w.category, SolverWarning) for w in caught)))
    odd = [str(w.message) for w in caught if not issubclass(w.category, (UserWarning, DeprecationWarning))]
    said = f"failure: warns: {odd[0]}" if odd and not said.startswith("failure") else said
    return f"{said} ({name})" if said.startswith("failure") else said


def finite(result: Any, *, unreached: bool = False) -> bool:
    """Whether all numbers of a result are finite, as they must be unless a warning says that a solver did not reach them."""
    leaves = jax.tree.leaves(result, is_leaf=lambda x: isinstance(x, (pd.DataFrame, pd.Series)))
    for leaf in leaves:
        if isinstance(leaf, pd.DataFrame):
            leaf = leaf.select_dtypes("number").to_numpy()
        if isinstance(leaf, (float, np.ndarray, np.generic, jax.Array)) and np.asarray(leaf).dtype.kind == "f":
            good = np.isfinite(np.asarray(leaf)) | (np.isnan(np.asarray(leaf)) & unreached)
            if not good.all():
                return False
    return True


def number(rng: Odds, *, strange: float = 0.1) -> Any:
    """One number, or what somebody may take for one."""
    kind = rng.random()
    if kind < strange:
        return rng.choice(STRANGE)
    if kind < strange + 0.05:
        return rng.choice(BAD)
    return rng.choice(USUAL if kind < 0.6 else FAR)


def written(rng: Odds) -> str:
    """A number as text, or what stands where one should."""
    return rng.choice(
        (*map(str, (*USUAL, *FAR, *BAD)), "", "x", "1e999", "9" * 5000, "1_0", "٣", "3", "-1", "1000000000", "\x1b[31m")
    )


def numbers(rng: Odds, *shape: int, strange: float = 0.02, usual: float = 0.6) -> Any:
    """An array, or nested lists, of mostly usual numbers."""
    size = int(np.prod(shape))
    cells = [rng.choice((0.1, 0.5, 0.9)) if rng.random() < usual else number(rng, strange=strange) for _ in range(size)]
    kind = rng.random()
    if all(type(x) is float for x in cells) and kind < 0.7:
        array = np.array(cells).reshape(shape)
        return array if kind < 0.6 else np.ma.masked_greater(array, 1e12) if kind < 0.65 else array.astype(object)
    nested: Any = cells
    for width in reversed(shape[1:]):
        nested = [nested[i : i + width] for i in range(0, len(nested), width)]
    return nested


def times(rng: Odds, count: int) -> Any:
    """Times within the horizon or before it, or much too far away."""
    return numbers(rng, count, usual=0.85) if rng.random() < 0.6 else [rng.choice((0.0, 0.5, 1.0, -0.5)) for _ in range(count)]


@functools.cache
def models() -> tuple[odp.Model, ...]:
    """Models of every kind: without and with dynamics, with noise of every kind, binary, and counting from the first time."""
    names = ("np", "ndp", "nd2p-l", "ndp-skip", "ndp, bernoulli", "np, precision", "np, attention")
    first = case_model("ndp")
    first = dataclasses.replace(first, scaling=odp.Scaling.identity(2, 1, origin="first"))
    series = odp.make_series(
        np.linspace(0.0, 48.0, 6)[None] + np.zeros((4, 1)), np.random.default_rng(0).random((4, 6, 2)), np.ones((4, 1))
    )
    scaled = case_model("ndp")
    scaled = dataclasses.replace(
        scaled, scaling=dataclasses.replace(odp.Scaling.fit(series), t_shift=0.0, t_scale=48.0).with_training_range(series)
    )
    return (*map(case_model, names), first, scaled)


@functools.cache
def sound() -> tuple[odp.Posterior, ...]:
    """A posterior of each model, given two usual observations."""
    known: dict[str, Any] = {"static": [0.0], "key": KEY, "draws": DRAWS, "inference": "amortised"}
    origins = [0.0 if each.scaling.origin == "first" else None for each in models()]
    y = [[0.1, 0.9], [0.5, 0.1]]
    return tuple(each.condition([0.1, 0.5], y, origin=start, **known) for each, start in zip(models(), origins, strict=True))


@functools.cache
def compile_all(kinds: int) -> None:
    """Asks every model all that will be asked, so that no attempt waits for a compilation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for posterior in sound()[:kinds]:
            for at in ([0.1, 0.5, 0.9], [-0.5, 0.5, 0.9]):
                y = [[0.1, 0.9], [0.5, 0.1]]
                found = described(posterior.update(at[:2], y))
                for of in ("observations", "function"):
                    found += [posterior.quantile(at, q, of=of) for q in (0.5, [0.1, 0.2])]
                found += [posterior.log_prob(at[:2], y, joint=joint) for joint in (True, False)]
                found += [posterior.log_prob(at[:2], [[1e30, 0.0]] * 2, joint=joint) for joint in (True, False)]
                found += [posterior.log_prob(at[:2], y, joint=joint, method="importance") for joint in (True, False)]
                found += [odp.suggest(posterior, at, by=by) for by in ("spread", "information")]
                if posterior.process.prior is not None:
                    described(posterior.update(at[:2], y).with_inference("exact"))
        for model in models()[:kinds]:
            stream = odp.Stream(model, key=KEY, draws=DRAWS, inference="amortised")
            stream.open("a", static=[0.0])
            for t in ([0.5, 0.9], [0.1, 0.2], [0.3]):  # the second lies before the first
                stream.observe("a", t, [[0.1, 0.9]] * len(t))
            described(stream.posterior("a"))
        for hole in (0.0, np.nan):
            _trained(odp.make_series([[0.0, 0.5, 1.0]] * 4, np.full((4, 3, 1), [[0.0], [1.0], [hole]]), np.zeros((4, 1))))
        forecaster, table = _forecaster(), table_cases.table(series=2)
        for rows in (table, table[1:]):
            forecaster.predict(rows, table_cases.TIMES, quantiles=[0.5])
            forecaster.predict(rows, table_cases.TIMES, quantiles=[0.1, 0.5])
            forecaster.evaluate(rows, 3)


def model_of(rng: Odds) -> odp.Model:
    return rng.choice(models()[: rng.kinds])


def posterior_of(rng: Odds) -> odp.Posterior:
    """A sound posterior, or one that was given odd numbers and took them."""
    if rng.random() < 0.7:
        return rng.choice(sound()[: rng.kinds])
    return conditioned(rng)


def conditioned(rng: Odds) -> odp.Posterior:
    model = model_of(rng)
    origin = number(rng) if model.scaling.origin == "first" and rng.random() < 0.5 else None
    draws = rng.choice(COUNTS[:-4]) if rng.random() < 0.05 else DRAWS
    t, y, static = times(rng, 2), numbers(rng, 2, 2), numbers(rng, 1)
    return model.condition(t, y, static=static, origin=origin, key=KEY, draws=draws, inference="amortised")


def described(posterior: odp.Posterior) -> list[Any]:
    """All that a posterior says without being asked anything odd."""
    at = (
        [0.0, 0.5, 0.9]
        if np.isfinite(posterior.record.origins).all() is False
        else posterior.record.origins[0] + np.array([0.0, 0.5, 0.9])
    )
    return [posterior.mean(at), posterior.std(at), posterior.sample(at), *posterior.interval(at)]


def _log_prob(rng: Odds) -> Any:
    posterior, t, y = posterior_of(rng), times(rng, 2), numbers(rng, 2, 2)
    joint, method = rng.random() < 0.5, rng.choice(("samples", "samples", "importance"))
    found = posterior.log_prob(t, y, joint=joint, method=method)
    array = np.ma.filled(np.ma.asarray(y, np.float64), np.nan)
    if np.abs(np.nan_to_num(array)).max() > 1e150:
        return np.nan_to_num(found)  # below what float64 holds, as its documentation says
    return found if joint else np.where(np.isnan(array), 0.0, found)


def _suggest(rng: Odds) -> Any:
    options: dict[str, Any] = {"by": rng.choice(("spread", "information"))}
    if rng.random() < 0.5:
        options["costs"] = numbers(rng, 3)
    if rng.random() < 0.3:
        options["forbidden"] = [numbers(rng, 2)]
    if rng.random() < 0.2:
        options["count"] = rng.choice((*COUNTS[:-4], 1))
    found = odp.suggest(rng.choice(sound()[: rng.kinds]), times(rng, 3), **options)
    return found.times, found.scores


def _stream(rng: Odds) -> Any:
    stream = odp.Stream(model_of(rng), key=KEY, draws=DRAWS, inference="amortised")
    stream.open("a", static=numbers(rng, 1))
    stream.observe("a", times(rng, 2), numbers(rng, 2, 2))
    stream.observe("a", number(rng), numbers(rng, 1, 2))
    return described(stream.posterior("a")) if stream.count("a") else None


def _scaling(rng: Odds) -> Any:
    series = odp.make_series(numbers(rng, 2, 3), numbers(rng, 2, 3, 2), numbers(rng, 2, 1))
    scaled = odp.Scaling.fit(series).apply(series)
    return scaled.t, scaled.y, scaled.static


def _fit(rng: Odds) -> Any:
    if rng.random() > 0.02:  # a training takes as long as a hundred of the others
        return None
    series = odp.make_series(numbers(rng, 4, 3, usual=0.95), numbers(rng, 4, 3, 1, usual=0.9), numbers(rng, 4, 1))
    try:
        model = _trained(series)
    except odp.TrainingError as error:  # every step broke down, as it says
        raise ValueError(str(error)) from None
    return jax.tree.leaves(model.process), model.condition(static=[0.0], key=KEY, draws=4).mean([series.t[0, 0]])


def _trained(series: odp.Series) -> odp.Model:
    # Whatever the times are: with a span of its own each training would compile anew.
    spec = odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4, t0=-2.0, horizon=4.0)
    return odp.fit(series, spec, options=odp.FitOptions(epochs=1, batch_size=2), progress=False).model


def _options(rng: Odds) -> None:
    value = number(rng, strange=0.5) if rng.random() < 0.7 else rng.choice(COUNTS)
    kind, names = rng.choice(
        (
            (odp.FitOptions, [x.name for x in dataclasses.fields(odp.FitOptions)]),
            (odp.TaskSampler, [x.name for x in dataclasses.fields(odp.TaskSampler)]),
            (odp.Grid, ["steps", "order"]),
            (odp.Adaptive, ["rtol", "atol", "max_steps", "method"]),
            (
                functools.partial(odp.variant, "ndp"),
                ["l_dim", "z_dim", "h_dim", "r_dim", "waves", "noise_floor", "noise_std", "latent_floor", "horizon", "t0"],
            ),
        )
    )
    kind(**{rng.choice(names): value})


@functools.cache
def _forecaster() -> odp.Forecaster:
    return table_cases.untrained()


def _table(rng: Odds) -> Any:
    """A cell or two of a table, the times that are asked, and the quantiles."""
    table = table_cases.table(series=2).astype({"t": object, "level": object, "speed": object, "dose": object})
    for _ in range(rng.choice((0, 1, 2))):
        name = rng.choice(("t", "level", "speed", "dose"))
        table.loc[rng.randrange(len(table)), name] = rng.choice((*USUAL, *FAR, *BAD, None, "x", "1e999", True))
    table = table.infer_objects()
    asked = rng.choice((table_cases.TIMES, [0.0, number(rng), 1.0], [0.0, 0.5, number(rng)]))
    if rng.random() < 0.2:
        return _forecaster().evaluate(table, 3, rng.choice((None, "forecast"))).select_dtypes("number").fillna(0.0)
    quantiles = [rng.choice(LEVELS), rng.choice(LEVELS)] if rng.random() < 0.5 else [0.5, number(rng)]
    return _forecaster().predict(table, asked, quantiles=quantiles)


@functools.cache
def _view() -> ModelView:
    return ModelView.of(
        "sines", untrained(odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4), odp.data.sines.sample(8, key=KEY))
    )


def _page(rng: Odds) -> Any:
    state = PageState({"sines": _view()})
    state.set_row(-1, _real(rng), [_real(rng)])
    state.drag(0, _real(rng), 0, _real(rng))
    state.load_csv(f"t,y\n{written(rng)},{written(rng)}\n0,0.5".encode())
    state.settings.noise = rng.choice((0.0, 0.5))
    return state.predict()


def _real(rng: Odds) -> float:
    """A number as a browser sends it."""
    return rng.choice((*USUAL, *FAR, *BAD, 0.5, 0.5, 0.5, 0.5))


def _quantile(rng: Odds) -> Any:
    posterior, of = posterior_of(rng), rng.choice(("observations", "function"))
    if rng.random() < 0.5:
        return posterior.interval([0.0, 0.5, 0.9], rng.choice((*LEVELS, number(rng, strange=0.5))), of=of)
    q = rng.choice((rng.choice(LEVELS), [rng.choice(LEVELS), 0.5], number(rng, strange=0.5), numbers(rng, 2)))
    return posterior.quantile([0.0, 0.5, 0.9], q, of=of)


def _sample(rng: Odds) -> Any:
    ask = rng.choice(("sample", "mean", "std"))
    n = rng.choice(COUNTS) if rng.random() < 0.3 else DRAWS
    return getattr(posterior_of(rng), ask)(times(rng, 3), n)


def _exact(rng: Odds) -> Any:
    model = models()[3]
    known = {"static": numbers(rng, 1), "key": KEY, "draws": DRAWS}
    posterior = model.condition(times(rng, 2), numbers(rng, 2, 2), inference="amortised", **known)
    steps = rng.choice((-1, 2.5, 10**9, 10**400, "3", None)) if rng.random() < 0.1 else 3
    return described(posterior.with_inference("exact", steps=steps))


PLACES: dict[str, Callable[[Odds], Any]] = {
    "condition": lambda rng: described(conditioned(rng)),
    "update": lambda rng: described(posterior_of(rng).update(times(rng, 2), numbers(rng, 2, 2))),
    "sample, mean, std": _sample,
    "quantile, interval": _quantile,
    "log_prob": _log_prob,
    "functions": lambda rng: posterior_of(rng).functions(rng.choice(COUNTS) if rng.random() < 0.2 else DRAWS)(times(rng, 3)),
    "exact inference": _exact,
    "suggest": _suggest,
    "Stream": _stream,
    "Scaling": _scaling,
    "fit": _fit,
    "options": _options,
    "Forecaster": _table,
    "playground": _page,
    "--times": lambda rng: parsed(rng.choice((written(rng), f"0:{written(rng)}:{written(rng)}")), "--times"),
}
