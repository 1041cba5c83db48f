"""The data of a task, split into training, validation and test series."""

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

EXTRAPOLATED = 5  # test frames after the last time of training; chosen by hand


class HeldOut(NamedTuple):
    """Test tasks, and the groups of points over which errors are averaged: every group is a metric of its own.

    With `one_draw` only the error of a single latent draw is computed.
    """

    tasks: Task
    groups: dict[str, np.ndarray]
    one_draw: bool = False


class Splits(NamedTuple):
    """The data of one experiment.

    Attributes:
        train: training series.
        validation: series whose error is recorded after each epoch; they select the epoch where the protocol says so.
        tests: test tasks by name.
    """

    train: Series
    validation: Series
    tests: dict[str, HeldOut]


def split(protocol: Protocol) -> Splits:
    """Loads or simulates the data of a task; they are the same for every variant and seed."""
    if protocol.name in SOURCES:
        return _split_simulated(protocol)
    return _split_digits(protocol) if protocol.name in DIGITS else _split_letters(protocol)


def _split_simulated(protocol: Protocol) -> Splits:
    train, test, fresh, validation_series = (
        protocol.series(count, key=jr.key(i))
        for i, count in enumerate((protocol.train, protocol.test, protocol.fresh, min(100, protocol.fresh)))
    )
    everything = {"": np.ones(train.t.shape[1], bool)}
    # "paper": ten series, as in the paper. "fresh": more, since a mean over ten is noisy. "any": first point not forced in.
    tests = {
        "paper": HeldOut(protocol.test_tasks(test, key=jr.key(10)), everything),
        "fresh": HeldOut(protocol.test_tasks(fresh, key=jr.key(11)), everything),
        "any": HeldOut(protocol.test_tasks(fresh, key=jr.key(11), first_point=False), everything, one_draw=True),
    }
    return Splits(train, validation_series, tests)


def _split_letters(protocol: Protocol) -> Splits:
    series = load_characters().series
    order = shuffle_letters(len(series))
    test, validation, train = (series[part] for part in np.split(order, [protocol.test, protocol.test + protocol.validation]))
    tasks = protocol.test_tasks(test, key=jr.key(11))
    return Splits(train[: protocol.train], validation, {"test": HeldOut(tasks, {"": np.ones(series.t.shape[1], bool)})})


def shuffle_letters(count: int) -> np.ndarray:
    """Indices of the letters in the order in which they are split; the first ones are the test set."""
    return np.random.default_rng(0).permutation(count)


def _split_digits(protocol: Protocol) -> Splits:
    source = DIGITS[protocol.name]
    images = source.images()
    images = images[np.random.default_rng(0).permutation(len(images))]
    sizes = np.cumsum([protocol.train, protocol.validation, protocol.test])
    train, validation, test, _ = np.split(images, sizes)
    keys = jr.split(jr.key(0), 6)
    seen = source.thinned(source.turn(np.repeat(train, protocol.copies, 0), key=keys[0]), key=keys[1])
    validation_series = source.thinned(source.turn(validation, key=keys[2]), key=keys[3])
    tests = {"test": _make_frame_tasks(protocol, test, key=keys[4])}
    if source.removed is not None:
        # What earlier papers seem to test on: training digits, with the frame that training leaves out.
        tests["training-digits"] = _make_frame_tasks(protocol, train[: protocol.test], key=keys[5])
    return Splits(restarted(seen, protocol.restarts), validation_series, tests)


def _make_frame_tasks(protocol: Protocol, images: Any, *, key: Any) -> HeldOut:
    """Test tasks on digits: all frames and some later ones are targets, the context is among the frames seen in training."""
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
