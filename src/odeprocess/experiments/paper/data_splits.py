"""The data of a task, split: what is trained on, what chooses the epoch, and what is tested on."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.data import SOURCES, load_characters
from odeprocess.data.series import Series
from odeprocess.data.sources.images import restarted, without
from odeprocess.data.tasks import Task

from .protocol import DIGITS, Protocol

EXTRAPOLATED = 5  # frames after those of training


class HeldOut(NamedTuple):
    """Tasks to score, and the groups of points over which errors are averaged: every group is a metric of its own.

    A test with `one_draw` is scored on that alone.
    """

    tasks: Task
    groups: dict[str, np.ndarray]
    one_draw: bool = False


class Splits(NamedTuple):
    """The data of one experiment.

    Attributes:
        train: training series.
        validation: series whose error is followed from epoch to epoch; they choose the epoch where the protocol says so.
        tests: by name.
    """

    train: Series
    validation: Series
    tests: dict[str, HeldOut]


def split(protocol: Protocol) -> Splits:
    """The data of a task: the same for every variant and seed."""
    if protocol.name in SOURCES:
        return _drawn(protocol)
    return _digits(protocol) if protocol.name in DIGITS else _letters(protocol)


def _drawn(protocol: Protocol) -> Splits:
    train, test, fresh, watched = (
        protocol.series(count, key=jr.key(i))
        for i, count in enumerate((protocol.train, protocol.test, protocol.fresh, min(100, protocol.fresh)))
    )
    everything = {"": np.ones(train.t.shape[1], bool)}
    # The paper's ten series first; ten are noise, so the same error over many fresh ones; and with no point forced in.
    tests = {
        "paper": HeldOut(protocol.test_tasks(test, key=jr.key(10)), everything),
        "fresh": HeldOut(protocol.test_tasks(fresh, key=jr.key(11)), everything),
        "any": HeldOut(protocol.test_tasks(fresh, key=jr.key(11), first_point=False), everything, one_draw=True),
    }
    return Splits(train, watched, tests)


def _letters(protocol: Protocol) -> Splits:
    series = load_characters().series
    order = letter_order(len(series))
    test, validation, train = (series[part] for part in np.split(order, [protocol.test, protocol.test + protocol.validation]))
    tasks = protocol.test_tasks(test, key=jr.key(11))
    return Splits(train[: protocol.train], validation, {"test": HeldOut(tasks, {"": np.ones(series.t.shape[1], bool)})})


def letter_order(count: int) -> np.ndarray:
    """The order in which letters are dealt out; the first go to the test set."""
    return np.random.default_rng(0).permutation(count)


def _digits(protocol: Protocol) -> Splits:
    source = DIGITS[protocol.name]
    images = source.images()
    images = images[np.random.default_rng(0).permutation(len(images))]
    sizes = np.cumsum([protocol.train, protocol.validation, protocol.test])
    train, validation, test, _ = np.split(images, sizes)
    keys = jr.split(jr.key(0), 6)
    seen = source.thinned(source.turn(np.repeat(train, protocol.copies, 0), key=keys[0]), key=keys[1])
    watched = source.thinned(source.turn(validation, key=keys[2]), key=keys[3])
    tests = {"test": _frames(protocol, test, key=keys[4])}
    if source.removed is not None:
        # What earlier papers seem to test on: training digits, with the removed frame put back.
        tests["training-digits"] = _frames(protocol, train[: protocol.test], key=keys[5])
    return Splits(restarted(seen, protocol.restarts), watched, tests)


def _frames(protocol: Protocol, images: Any, *, key: Any) -> HeldOut:
    """Whole series and some frames beyond; the context comes from frames of training, never from a removed one."""
    source = DIGITS[protocol.name]
    total = source.frames + EXTRAPOLATED
    series = source.turn(images, key=key, frames=total)
    place = np.arange(total)
    hidden = (place >= source.frames) | (place == (-1 if source.removed is None else source.removed))
    visible = without(series, np.broadcast_to(hidden, series.t.shape))
    drawn = protocol.test_tasks(visible, key=jr.key(11))
    given = (np.asarray(drawn.points.t)[:, None, :] == np.asarray(series.t)[:, :, None]) & np.asarray(drawn.context)[
        :, None, :, 0
    ]
    context = np.broadcast_to(given.any(-1)[..., None], series.mask.shape)
    groups = {"": place < source.frames, "extrapolated": place >= source.frames}
    if source.removed is not None:
        groups["held-out angle"] = place == source.removed
    task = Task(jax.tree.map(jnp.asarray, series), jnp.asarray(context), jnp.ones(context.shape, bool))
    return HeldOut(task, groups)
