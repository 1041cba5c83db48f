"""Irregular series: padded arrays with a mask for every value.

`Series` is one series. A batch is the same type with one more leading axis on every field; the functions of the model are written
for one series and mapped over the batch by `jax.vmap`.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from odeprocess.common import checks

Array = Any  # NumPy on the host (float64, user's units), JAX inside the model


class Series(eqx.Module):
    """Observations of one series, or of a batch of them.

    Padding has the time of an observation and zeros as values, so that no NaN enters the model; `mask` is false there. A point
    counts as observed if any of its channels is.
    """

    t: Float[Array, "*batch n"]
    y: Float[Array, "*batch n channels"]
    mask: Bool[Array, "*batch n channels"]
    static: Float[Array, "*batch k"]

    @property
    def observed(self) -> Bool[Array, "*batch n"]:
        """Whether any channel was measured, by point."""
        return self.mask.any(-1)

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.y.shape[-1]

    def __len__(self) -> int:
        """Number of series in a batch."""
        if self.t.ndim != 2:
            raise TypeError("len() of a single series: only a batch of series has a length.")
        return self.t.shape[0]

    def __getitem__(self, index: Any) -> "Series":
        """The chosen series of a batch."""
        return Series(self.t[index], self.y[index], self.mask[index], self.static[index])


def make_series(t: Any, y: Any, static: Any = None) -> Series:
    """A batch of padded series from arrays, in the user's units and in float64.

    Arguments:
        t: times. `[n]` for one series, `[series, n]` for many of one length, or a list of arrays of any lengths. Any
            order, ties allowed.
        y: values, shaped like `t`, with a last axis for channels where there are several. NaN marks a missing value.
        static: covariates that do not change in time, `[series, k]`, or `[k]` for one series.

    Returns:
        A batch of series (of one, if one series was given).

    Raises:
        ValueError: where the arrays do not match; the message names the series.

    Examples:
        >>> import odeprocess as odp
        >>> odp.make_series([[0.0, 1.0], [0.5, 2.0, 3.0]], [[1.0, 2.0], [0.0, float("nan"), 1.0]]).observed.sum(-1)
        array([2, 2])
    """
    t, y, _, single = read_arrays(t, y)
    checks.require(t.shape[0] > 0, "`t` holds no series; expected at least one.")
    return pack(t, y, read_static(static, t.shape[0], single=single))


def read_arrays(t: Any, y: Any, channels: int | None = None) -> tuple[Any, Any, np.ndarray, bool]:
    """Times and values in any accepted form, checked.

    Returns:
        `t [series, n]`, `y [series, n, channels]` with NaN where missing or padded, the length of each series, and
        whether one series was given rather than a batch.
    """
    if isinstance(t, (list, tuple)) and len(t) > 0 and np.ndim(t[0]) > 0:
        return *_read_list(t, y, channels), False
    t, y = checks.as_times("t", t), checks.as_array("y", y)
    if t.ndim == 0:
        t, y = t[None], y[None]
    single = t.ndim == 1
    checks.require(
        t.ndim in (1, 2),
        f"`t` has {t.ndim} dimensions; expected [n] for one series, [series, n] for several, or a list with an array a series.",
    )
    if t.size == 0 and y.size == 0:
        y = np.zeros((*t.shape, channels or 1))
    checks.same_lengths(t, y)
    y = y[..., None] if y.ndim == t.ndim else y
    checks.require(
        y.ndim == t.ndim + 1, f"`y` has shape {y.shape}; expected the shape of `t`, with a last axis for channels if several."
    )
    checks.channel_count(y.shape[-1], channels)
    checks.finite_times("t", t)
    checks.finite_values(y)
    if single:
        t, y = t[None], y[None]
    return t, y, np.full(t.shape[0], t.shape[1]), single


def _read_list(t: Sequence[Any], y: Sequence[Any], channels: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    checks.require(
        isinstance(y, (list, tuple)) or np.ndim(y) > 0,
        f"`y` is {checks.shown(y)}; expected a list with an array for each series.",
    )
    checks.require(
        len(t) == len(y), f"`t` holds {len(t)} series but `y` holds {len(y)}; expected as many of one as of the other."
    )
    read = []
    for i, (times, values) in enumerate(zip(t, y, strict=True)):
        where = f" of series {i}"
        times, values = checks.as_times(f"t{where}", times), checks.as_array(f"y{where}", values)
        values = values[:, None] if values.ndim == 1 else values
        if times.size == 0 and values.size == 0:
            values = np.zeros((0, channels or _widest(y)))
        good = times.ndim == 1 and values.ndim == 2
        checks.require(
            good, f"`t`{where} has shape {times.shape} and `y`{where} {values.shape}; expected [n], and [n] or [n, channels]."
        )
        checks.same_lengths(times, values, where)
        checks.channel_count(values.shape[1], channels, where)
        checks.finite_times("t", times, where)
        checks.finite_values(values, where)
        read.append((times, values))
    widths = {v.shape[1] for _, v in read}
    checks.require(
        len(widths) == 1, f"The series have different numbers of channels: {sorted(widths)}. Expected one number for all."
    )
    lengths = np.array([len(times) for times, _ in read])
    padded_t, padded_y = np.zeros((len(read), lengths.max())), np.full((len(read), lengths.max(), widths.pop()), np.nan)
    for i, (times, values) in enumerate(read):
        padded_t[i, : len(times)], padded_y[i, : len(times)] = times, values
    return padded_t, padded_y, lengths


def _widest(y: Sequence[Any]) -> int:
    """The number of channels of the first series that has values."""
    return next((np.shape(v)[1] for v in y if np.ndim(v) == 2 and np.size(v)), 1)


def read_static(static: Any, count: int, expected: int | None = None, *, single: bool = False) -> np.ndarray:
    """Checks static covariates and returns them as `[count, k]`."""
    checks.require(not checks.is_traced(static), "`static` is traced; static covariates must be concrete numbers.")
    array = np.zeros((count, 0)) if static is None else np.asarray(checks.as_array("static", static))
    if single and array.ndim == 1:
        array = array[None]
    checks.require(
        array.ndim == 2 and array.shape[0] == count,
        f"`static` has shape {array.shape}; expected [{count}, k], one row of covariates a series.",
    )
    checks.require(bool(np.isfinite(array).all()), "`static` holds NaN or infinite values; fill them in first.")
    checks.require(
        expected in (None, array.shape[1]),
        f"`static` has {array.shape[1]} covariate(s) a series; the model was trained with {expected}. "
        + (f"Pass [{expected}], or [series, {expected}] for several series." if expected else "Leave `static` out."),
    )
    return array


def pack(t: Any, y: Any, static: np.ndarray, length: int | None = None) -> Series:
    """Series from checked arrays, padded at the end to `length` points; NaN values become zeros under the mask."""
    extra = max(1, t.shape[1] if length is None else length) - t.shape[1]
    # A concrete `t` stays in float64 on the host even where `y` is traced: large times must not pass through float32.
    t = _numpy_for(t).pad(t, ((0, 0), (0, extra)), mode="edge" if t.shape[1] else "constant")
    xp = _numpy_for(y)
    y = xp.pad(y, ((0, 0), (0, extra), (0, 0)), constant_values=np.nan)
    mask = ~xp.isnan(y)
    if not checks.is_traced(t, y):
        # Unobserved points take the time of an observation, so that they do not extend the range of times.
        observed = mask.any(-1)
        t = np.where(observed, t, np.take_along_axis(t, observed.argmax(-1, keepdims=True), -1))
    return Series(t, xp.where(mask, y, 0.0), mask, static)


def _numpy_for(x: Any) -> Any:
    return jnp if checks.is_traced(x) else np


def filled_up(series: Series, count: int, length: int) -> Series:
    """The series padded to `length` points, and the batch to `count` series by series without observations."""
    more = ((0, count - len(series)), (0, length - series.t.shape[1]))
    t = np.pad(np.pad(series.t, ((0, 0), more[1]), mode="edge"), (more[0], (0, 0)), mode="edge")
    y, mask = (np.pad(x, (*more, (0, 0))) for x in (series.y, series.mask))
    return Series(t, y, mask, np.pad(series.static, (more[0], (0, 0))))


def bucket(n: int, least: int = 1, *, powers: int = 64, parts: int = 4) -> int:
    """The padded length for `n` points: a power of two up to `powers`, and beyond it one of `parts` equal steps between powers.

    All lengths with the same padded length share one compilation. Four steps keep the padding of long queries under a fifth.
    """
    n = max(n, least)
    power = 1 << (n - 1).bit_length()
    if power <= powers:
        return power
    step = power // (2 * parts)
    return -(-n // step) * step
