"""A small network that classifies digits at any angle, to measure whether drawn frames still show their digit."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax

from odeprocess.common.compilation import compiled
from odeprocess.data import load_digits, rotate
from odeprocess.process.images import ConvNet
from odeprocess.process.networks import Linear

BATCH = 256


class Classifier(eqx.Module):
    """Convolutions, then a logit for each of the ten digits."""

    net: ConvNet
    out: Linear

    def __init__(self, *, key: Any):
        net_key, out_key = jr.split(key)
        self.net = ConvNet(1, (28, 28), key=net_key)
        self.out = Linear(self.net.size, 10, key=out_key)

    def __call__(self, pixels: Any) -> Any:
        return self.out(self.net(pixels))


@functools.cache
def train_classifier(steps: int, batch: int = BATCH) -> Classifier:
    """Trains a classifier on MNIST's training digits, each turned by a random angle in every batch."""
    images, labels = load_digits("train")
    optimiser = optax.adam(optax.cosine_decay_schedule(2e-3, steps))
    net = Classifier(key=jr.key(0))

    @compiled
    def step(net, state, key):
        pick_key, angle_key = jr.split(key)
        chosen = jr.randint(pick_key, (batch,), 0, len(pixels))
        turned = rotate(pixels[chosen], jr.uniform(angle_key, (batch, 1), maxval=360.0)).reshape(batch, -1)

        def loss(net):
            return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net)(turned), digits[chosen]).mean()

        with jax.numpy_dtype_promotion("standard"):  # Optax mixes types in places
            updates, state = optimiser.update(jax.grad(loss)(net), state)
        return optax.apply_updates(net, updates), state

    pixels, digits, state = jnp.asarray(images), jnp.asarray(labels), optimiser.init(net)  # pyright: ignore
    for i in range(steps):
        net, state = step(net, state, jr.fold_in(jr.key(1), i))
    return net


def compute_share_read_as(net: Classifier, frames: np.ndarray, digit: int) -> float:
    """The share of frames `[…, pixels]` that are classified as `digit`."""
    flat = jnp.asarray(frames.reshape(-1, frames.shape[-1]))
    return float((np.asarray(_classify(net, flat)) == digit).mean())


@compiled
def _classify(net: Classifier, flat: Any) -> Any:
    return jax.lax.map(lambda x: net(x).argmax(), flat, batch_size=256)
