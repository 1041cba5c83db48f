"""Rotating digits: series of images made from MNIST."""

import dataclasses
import functools
import gzip
from typing import Any, Literal

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.scipy.ndimage import map_coordinates

from odeprocess.common.compilation import compiled
from odeprocess.data.series import Series

from .files import MNIST

SIDE = 28  # pixels of MNIST's images


def load_digits(split: Literal["train", "test"] = "train") -> tuple[np.ndarray, np.ndarray]:
    """MNIST: images `[n, 28, 28]` with values from 0 to 1 in float32, and their labels."""
    images = np.frombuffer(gzip.decompress(MNIST[split, "images"].path().read_bytes()), np.uint8, offset=16)
    labels = np.frombuffer(gzip.decompress(MNIST[split, "labels"].path().read_bytes()), np.uint8, offset=8)
    return images.reshape(-1, SIDE, SIDE).astype(np.float32) / np.float32(255.0), labels.astype(np.int32)


@compiled
def rotate(images: Any, degrees: Any) -> Any:
    """Images `[n, h, w]` turned anticlockwise by `degrees [n, k]` about their centre, bilinearly: `[n, k, h, w]`."""
    height, width = images.shape[1:]
    middle = jnp.array([(height - 1) / 2, (width - 1) / 2], images.dtype)
    rows, columns = jnp.meshgrid(jnp.arange(height, dtype=images.dtype), jnp.arange(width, dtype=images.dtype), indexing="ij")
    down, right = rows - middle[0], columns - middle[1]

    def one(image, angle):
        sine, cosine = jnp.sin(jnp.deg2rad(angle)), jnp.cos(jnp.deg2rad(angle))
        source = jnp.stack([cosine * down + sine * right + middle[0], cosine * right - sine * down + middle[1]])
        return map_coordinates(image, list(source), order=1)

    return jax.vmap(jax.vmap(one, (None, 0)))(images, degrees.astype(images.dtype))


@dataclasses.dataclass(frozen=True)
class RotatingDigits:
    """Images of a digit that rotates at a constant speed, one every 0.1 units of time.

    Attributes:
        name: of the task.
        digit: which digit.
        frames: frames of a series.
        speed: lowest and highest rotation in degrees a second; a frame lasts 1/16 s.
        any_start: whether the first angle is random; otherwise digits start upright.
        dropped: how many random frames a training series lacks (never the first).
        removed: a frame that every training series lacks, or `None`.
    """

    name: str
    digit: int = 3
    frames: int = 16
    speed: tuple[float, float] = (360.0, 360.0)
    any_start: bool = False
    dropped: int = 0
    removed: int | None = None

    def images(self) -> np.ndarray:
        """All images of the digit in MNIST's training file."""
        images, labels = load_digits("train")
        return images[labels == self.digit]

    def turn(self, images: Any, *, key: Any, frames: int | None = None) -> Series:
        """A whole series for each image, with `frames` frames if that many are asked for."""
        frames, count = frames or self.frames, len(images)
        speed_key, start_key = jr.split(key)
        speed = jr.uniform(speed_key, (count, 1), minval=self.speed[0], maxval=self.speed[1])
        start = jr.uniform(start_key, (count, 1), maxval=360.0) if self.any_start else jnp.zeros((count, 1))
        angles = start + speed / 16.0 * jnp.arange(frames, dtype=speed.dtype)[None]
        y = np.asarray(rotate(jnp.asarray(images), angles), np.float32).reshape(count, frames, -1).clip(0.0, 1.0)
        t = np.broadcast_to(np.arange(frames) / 10, (count, frames)).astype(np.float32)
        return Series(t, y, np.ones(y.shape, bool), np.zeros((count, 0), np.float32))

    def thinned(self, series: Series, *, key: Any) -> Series:
        """The series without the frames that are held back from training."""
        count, frames = series.t.shape
        keep = np.ones((count, frames), bool)
        if self.dropped:
            order = np.asarray(jax.vmap(functools.partial(jr.permutation, x=frames - 1))(jr.split(key, count)))
            np.put_along_axis(keep, order[:, : self.dropped] + 1, False, axis=1)
        if self.removed is not None:
            keep[:, self.removed] = False
        return without(series, ~keep)


def restarted(series: Series, starts: int) -> Series:
    """Each series once from each of its first `starts` observed points, which becomes its time zero.

    A model that takes l(t0) from the first frame otherwise has one initial state a series to learn from. Points before the start
    are masked.
    """
    t, mask = np.asarray(series.t), np.asarray(series.mask)
    observed = mask.any(-1)
    order = np.argsort(~observed, axis=1, kind="stable")[:, :starts]  # the places of the first observed points
    parts = []
    for place in order.T:
        start = np.take_along_axis(t, place[:, None], 1)
        kept = without(series, t < start)
        parts.append(Series(np.where(t < start, 0.0, t - start).astype(t.dtype), kept.y, kept.mask, series.static))
    return jax.tree.map(lambda *xs: np.concatenate(xs), *parts)


def without(series: Series, gone: np.ndarray) -> Series:
    """The series with some points `[series, n]` masked out."""
    mask = np.asarray(series.mask) & ~gone[..., None]
    return Series(series.t, np.where(mask, series.y, 0.0).astype(series.y.dtype), mask, series.static)


rotating = RotatingDigits("rotating-mnist", removed=3)
variable_rotating = RotatingDigits("variable-rotating-mnist", speed=(300.0, 420.0), any_start=True, dropped=5)
