"""Tasks: which points of a series are given (context) and which are predicted (target).

The context is part of the target by construction. Shapes depend on the sampler's ranges alone, so all draws share one
compilation, and tasks are drawn inside the compiled training loop.
"""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int

from odeprocess.common import checks

from .series import Series

FORECAST_SHARE = 0.3  # of the tasks with split="mixed"; chosen by hand
DEFAULT_EMPTY = 0.1  # probability of a task without context, where the first point is not always in it; chosen by hand


class Task(eqx.Module):
    """Points of one series, and two masks over their values."""

    points: Series
    context: Bool[Array, "*batch n channels"]
    target: Bool[Array, "*batch n channels"]

    def given(self) -> Series:
        """The points with only the context unmasked."""
        return self.masked(self.context)

    def asked(self) -> Series:
        """The points with only the target unmasked."""
        return self.masked(self.target)

    def masked(self, mask: Bool[Array, "n channels"]) -> Series:
        """The points with only the values of `mask` unmasked."""
        p = self.points
        return Series(p.t, jnp.where(mask, p.y, 0.0), mask, p.static)


class Selection(eqx.Module):
    """The random choices of a batch of tasks: small arrays, so that a whole epoch of them is drawn at once."""

    index: Int[Array, "*batch points"]
    num_context: Int[Array, "*batch"]
    num_target: Int[Array, "*batch"]
    hidden: Int[Array, "*batch"]  # the channel hidden from the context, or -1


@dataclasses.dataclass(frozen=True)
class TaskSampler:
    """Draws tasks from a batch of series.

    Attributes:
        context: smallest and largest number of context points, both included; cut to what a series has.
        extra: smallest and largest number of target points beyond the context; `None` takes all that are left.
        first_point: whether each series' first observation is always in the context (it counts among them).
        shared: what the series of a batch share: their `"sizes"` (the paper), also which `"points"`, or `"nothing"`.
        empty: the probability that a task has no context at all; by default 0.1, and 0 where the first point is always in.
        split: `"random"` points; `"prefix"`: the context is the earliest of the target, a forecast; `"mixed"`: a forecast in
            three of ten tasks, random points in the others; `"channel"`: one channel is hidden from the context.
    """

    context: tuple[int, int] = (1, 10)
    extra: tuple[int, int] | None = (0, 5)
    first_point: bool = False
    shared: Literal["sizes", "points", "nothing"] = "sizes"
    empty: float | None = None
    split: Literal["random", "prefix", "mixed", "channel"] = "random"

    def __post_init__(self):
        for name in ("context", "extra"):
            if (pair := getattr(self, name)) is not None or name == "context":
                pair = tuple(pair) if isinstance(pair, (tuple, list)) else pair
                object.__setattr__(self, name, pair)
                good = (
                    isinstance(pair, tuple)
                    and len(pair) == 2
                    and all(isinstance(x, int) for x in pair)
                    and 0 <= pair[0] <= pair[1]
                )
                checks.require(
                    good, f"`{name}` is {checks.shown(pair)}; expected (least, most), whole numbers with 0 ≤ least ≤ most."
                )
        if self.extra is not None:
            checks.require(self.context[1] + self.extra[1] > 0, "`context` and `extra` are both (0, 0): no targets are left.")
        checks.choice("shared", self.shared, ("sizes", "points", "nothing"))
        checks.choice("split", self.split, ("random", "prefix", "mixed", "channel"))
        if self.empty is None:
            object.__setattr__(self, "empty", 0.0 if self.first_point else DEFAULT_EMPTY)
        checks.require(
            checks.is_number(self.empty) and 0.0 <= self._empty < 1.0,
            f"`empty` is {checks.shown(self.empty)}; expected a probability, 0 ≤ empty < 1.",
        )
        checks.require(
            not (self.first_point and self._empty),
            "`first_point` puts the first point into every context, but `empty` is above 0.",
        )
        checks.require(
            not (self.first_point and self.context[0] < 1),
            "`first_point` needs at least one context point, but `context` starts at 0. Use context=(1, …).",
        )

    @property
    def _empty(self) -> float:
        assert self.empty is not None
        return self.empty

    def num_points(self, length: int) -> int:
        """The number of points of a task, for series padded to `length`."""
        return length if self.extra is None else min(length, self.context[1] + self.extra[1])

    def draw(self, series: Series, *, key: Any) -> Task:
        """One task for each series of a batch, as in one step of training."""
        series = jax.tree.map(jnp.asarray, series)
        return jax.vmap(take)(series, self.select(series, key=key))

    def select(self, series: Series, *, key: Any) -> Selection:
        """The choices for one task of each series; `take` gathers the points."""
        observed, t = series.observed, series.t
        batch, length = observed.shape
        sizes_key, points_key, channel_key = jr.split(key, 3)
        # A few large draws: each call of a random function takes compile time.
        u = jr.uniform(sizes_key, (1 if self.shared != "nothing" else batch, 3), t.dtype)
        score = jr.uniform(points_key, (1 if self.shared == "points" else batch, length), t.dtype)
        num_context, num_target = self._sizes(u, observed.sum(-1, dtype=jnp.int32))
        forecast = jnp.full(batch, self.split == "prefix")
        if self.split == "mixed":
            forecast = jr.bernoulli(channel_key, FORECAST_SHARE, (batch,))
        order = jax.vmap(self._order)(jnp.broadcast_to(score, t.shape), t, observed, num_target, forecast)
        hidden = jnp.full((batch,), -1, jnp.int32)
        if self.split == "channel":
            hidden = jr.randint(channel_key, (batch,), 0, series.channels, jnp.int32)
        return Selection(order, num_context, num_target, hidden)

    def _sizes(self, u: Float[Array, "draws 3"], available: Int[Array, " batch"]):
        """Numbers of context and target points from uniform numbers."""
        num_context = _between(u[:, 0], *self.context)
        if self._empty > 0.0:
            num_context = jnp.where(u[:, 1] < self._empty, 0, num_context)
        num_context = jnp.minimum(num_context, available)
        if self.extra is None:
            return num_context, available
        # A task needs a target: an empty context has at least one extra point.
        num_extra = jnp.maximum(_between(u[:, 2], *self.extra), (num_context == 0).astype(num_context.dtype))
        return num_context, jnp.minimum(num_context + num_extra, available)

    def _order(self, score, t, observed, num_target, forecast):
        """The points of one series: the context, then the other targets, then the rest."""
        # Sorted random scores are a random permutation. Padding comes last, and a first point that must be in the context first.
        score = jnp.where(observed, score, 2.0)
        if self.first_point:
            score = score.at[jnp.argmin(jnp.where(observed, t, jnp.inf))].add(-1.0)
        order = jax.lax.top_k(-score, self.num_points(t.shape[0]))[1]  # XLA's sort is slow on CPUs, and few points are needed
        if self.split in ("prefix", "mixed"):
            chosen = jnp.arange(order.shape[0], dtype=jnp.int32) < num_target
            order = order[jnp.argsort(jnp.where(chosen & forecast, t[order], jnp.inf), stable=True)]
        return order


def _between(u: Float[Array, " n"], least: int, most: int) -> Int[Array, " n"]:
    """Whole numbers from `least` to `most`, both included, from uniform numbers."""
    return least + jnp.minimum((u * (most - least + 1)).astype(jnp.int32), most - least)


def take(series: Series, selection: Selection) -> Task:
    """The task that `selection` describes, for one series."""
    i, place = selection.index, jnp.arange(selection.index.shape[0], dtype=jnp.int32)
    points = Series(series.t[i], series.y[i], series.mask[i], series.static)
    target = points.mask & (place < selection.num_target)[:, None]
    context = points.mask & (place < selection.num_context)[:, None]
    context = context & (jnp.arange(series.channels, dtype=jnp.int32) != selection.hidden)[None]
    return Task(points, context, target)
