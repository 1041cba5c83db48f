"""Small tables, and forecasters that know them: one that has been trained, and one whose weights are those it began with."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd

import odeprocess as odp
from odeprocess.forecasting.column_roles import Columns
from odeprocess.forecasting.read_table import read
from odeprocess.forecasting.table_layout import Layout

COLUMNS = {"series": "id", "time": "t", "values": ["level", "speed"], "static": ["dose", "sex"]}
SIZES = {"l_dim": 2, "z_dim": 4, "h_dim": 8, "r_dim": 8}
OPTIONS = {
    "model": "ndp-skip",
    "options": {"epochs": 1, "em_epochs": 0},
    "held_out": 2,
    "sizes": SIZES,
    "draws": 16,
}
TIMES = [0.0, 1.5, 7.0]


def table(series: int = 5, rows: int = 6) -> pd.DataFrame:
    """Positive levels and speeds of any sign, of which some are missing; a number and a category for each series."""
    rng = np.random.default_rng(0)
    parts = []
    for i in range(series):
        t = np.sort(rng.uniform(0, 8, rows)).round(3) + 3.0 * i
        level = np.exp(rng.normal(1, 0.3) - 0.2 * (t - t[0])) + 0.1
        speed = np.sin(t - t[0] + i)
        level[1], speed[3] = np.nan, np.nan
        part = {"id": "abcdefghij"[i], "t": t, "level": level, "speed": speed, "dose": float(i), "sex": "fm"[i % 2]}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def fitted(data, **changes) -> odp.Forecaster:
    """All fits of the tests have the same shapes, so they share what was compiled."""
    return odp.Forecaster(**{**OPTIONS, **changes}).fit(data, **COLUMNS)


def untrained(data=None, **columns) -> odp.Forecaster:
    """A forecaster that reads tables like any other, and knows nothing."""
    roles = {**COLUMNS, **columns}
    layout, long, notes = Layout.learn(
        read(table() if data is None else data),
        Columns(roles["series"], roles["time"], tuple(roles["values"]), tuple(roles["static"]), roles.get("origin", "first")),
    )
    series = long.series(np.arange(len(long)))
    scaling = odp.Scaling.fit(series)
    spec = odp.variant("ndp-skip", missing=True, **SIZES).resolve(scaling.apply(series))
    forecaster = odp.Forecaster(inference="amortised", draws=8)
    # Weights at random, without building them as `fit` does: that takes seconds to compile.
    like, rng = jax.eval_shape(lambda: spec.build(key=jr.key(0))), np.random.default_rng(0)
    process = jax.tree.map(lambda x: jnp.asarray(0.3 * rng.standard_normal(x.shape), x.dtype), like)
    forecaster.model_ = odp.Model(process, spec, scaling)
    forecaster.layout_, forecaster.choices_, forecaster.notes_ = layout, {}, notes
    return forecaster
