"""Active learning: observe where the model is least certain, and measure how fast its error falls."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.common.compilation import compiled
from odeprocess.data.series import Series
from odeprocess.experiments.definitions import Cell
from odeprocess.posterior.model import Model
from odeprocess.posterior.next_measurement import best, spread
from odeprocess.process import Process

DRAWS = 64  # behind the spread and the mean; as in the tables


def measure_errors_by_queries(cell: Cell, folder: Path, queries: int, count: int) -> dict[str, Any]:
    """Measures errors after 0 to `queries` queries on `count` fresh series, for each seed, with active and with random queries.

    Every series starts from its first point. An active query is the grid time, not observed yet, at which the draws have the
    largest spread, as in `suggest(posterior, candidates, by="spread")`, but compiled as one loop.
    """
    series = cell.protocol.series(count, key=jr.key(4))
    found: dict[str, Any] = {"task": cell.task, "variant": cell.variant, "seeds": list(cell.seeds), "queries": queries}
    for way in ("active", "random"):
        one, mean = [], []
        for seed in range(len(cell.seeds)):
            process = Model.load(folder / f"model-{seed}").process
            errors = _run_all(process, series, jr.key(5), queries, way == "active")
            one.append(np.asarray(errors[0]).mean(0).tolist())
            mean.append(np.asarray(errors[1]).mean(0).tolist())
        found[way] = {"mse": one, "mse_mean": mean}
    return found


@compiled(static_argnums=(3, 4))
def _run_all(process: Process, series: Series, key: Any, queries: int, active: bool) -> Any:
    keys = jr.split(key, len(series))
    size = min(50, len(series))
    return jax.lax.map(lambda pair: run_queries(process, pair[0], pair[1], queries, active)[:2], (series, keys), batch_size=size)


def run_queries(process: Process, series: Series, key: Any, queries: int, active: bool) -> tuple[Any, Any, Any]:
    """Runs the queries of one series: errors of one draw and of the mean of all before each query, and the queried places."""

    def ask(observed, key):
        draw_key, random_key = jr.split(key)
        belief = process.infer(Series(series.t, series.y, series.mask & observed[:, None], series.static))
        noise = jr.normal(draw_key, (DRAWS, belief.loc.shape[0]), belief.loc.dtype)
        paths = jax.vmap(lambda eps: process.predict(belief.reparametrise(eps), series.t)[0].mean)(noise)
        interest = spread(paths) if active else jr.uniform(random_key, observed.shape, series.t.dtype)
        place = best(interest, ~observed)
        errors = ((paths[0] - series.y) ** 2).mean(), ((paths.mean(0) - series.y) ** 2).mean()
        return observed.at[place].set(True), (*errors, place)

    start = jnp.zeros(series.t.shape, bool).at[jnp.argmin(series.t)].set(True)
    _, found = jax.lax.scan(ask, start, jr.split(key, queries + 1))
    return found
