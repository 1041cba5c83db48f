"""Convolutional parts, for observations that are images: flattened to channels, row by row.

Every frame is normalised by itself (group norm where the paper has batch norm): a frame's code must not depend on what
else is in the batch, or it would depend on padding and on the order of the context.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from odeprocess.common import checks
from odeprocess.common.distributions import Normal
from odeprocess.data.series import Series

from .aggregation import AGGREGATIONS
from .amortised_inference import LATENT_START, AbstractHead, Head
from .decoder import AbstractDecoder
from .encoder import AbstractEncoder
from .networks import MLP, Linear

ENCODER_CHANNELS = (16, 32, 64, 128)  # the paper's
DECODER_CHANNELS = (32, 128, 64, 32)
SMALLEST_SIDE = 16  # pixels on a side: below it the four layers of the decoder do not fit
GROUP = 16  # channels normalised together; divides every number of channels above; chosen by hand


class Conv(eqx.Module):
    """A convolution, as one matrix product over patches.

    Written by hand because XLA's own convolution is ten times slower on CPUs inside a compiled loop, which is where training
    happens, and because seeds trained at once make the kernels a batch, which it takes for grouped convolutions.
    """

    weight: Float[Array, "*seeds patch out"]
    bias: Float[Array, "*seeds out"]
    kernel: int = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)

    def __init__(self, ins: int, outs: int, kernel: int, stride: int, padding: int, *, key: Any):
        self.weight = _kernel(key, kernel * kernel * ins, kernel * kernel * ins, outs)
        self.bias = jnp.zeros(outs)
        self.kernel, self.stride, self.padding = kernel, stride, padding

    def __call__(self, x: Float[Array, "h w ins"]) -> Float[Array, "h2 w2 outs"]:
        pad, step = (self.padding, self.padding), self.stride
        x = jnp.pad(x, (pad, pad, (0, 0)))
        height, width = (x.shape[0] - self.kernel) // step + 1, (x.shape[1] - self.kernel) // step + 1
        return _patches(x, self.kernel, step, height, width) @ self.weight + self.bias[None, None]


class Widen(eqx.Module):
    """A transposed convolution, kernel 5, stride 2, padding 1: an image of side n becomes one of 2n + 1 or 2n + 2.

    Each of the four phases of the output (odd and even rows and columns) is an ordinary convolution of the input with every
    other weight of the kernel, so all four are one matrix product over patches of 3 by 3.
    """

    weight: Float[Array, "*seeds ins k k outs"]
    bias: Float[Array, "*seeds outs"]
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, ins: int, outs: int, shape: tuple[int, int], *, key: Any):
        """`shape` is that of the output."""
        self.weight = _kernel(key, 25 * ins // 4, ins, 5, 5, outs)
        self.bias = jnp.zeros(outs)
        self.shape = shape

    def __call__(self, x: Float[Array, "h w ins"]) -> Float[Array, "h2 w2 outs"]:
        ins, outs = self.weight.shape[0], self.weight.shape[-1]
        height, width = x.shape[0] + 2, x.shape[1] + 2
        patches = _patches(jnp.pad(x, ((2, 2), (2, 2), (0, 0))), 3, 1, height, width)
        # Row 2m + f of the output (before the padding is cut off) is the sum over j of input row m − j times weight 2j + f.
        weight = jnp.pad(self.weight, ((0, 0), (0, 1), (0, 1), (0, 0))).reshape(ins, 3, 2, 3, 2, outs)
        weight = weight[:, ::-1, :, ::-1].transpose(3, 1, 0, 2, 4, 5).reshape(9 * ins, 4 * outs)
        phases = (patches @ weight).reshape(height, width, 2, 2, outs)
        whole = phases.transpose(0, 2, 1, 3, 4).reshape(2 * height, 2 * width, outs)
        return whole[1 : 1 + self.shape[0], 1 : 1 + self.shape[1]] + self.bias[None, None]


def _kernel(key: Any, fan_in: int, *shape: int) -> Any:
    limit = (3.0 / fan_in) ** 0.5
    return jr.uniform(key, shape, minval=-limit, maxval=limit)


def _patches(x, kernel, stride, height, width):
    """`[height, width, kernel · kernel · channels]`, ordered by column, row and channel of the patch."""
    rows, columns = stride * (height - 1) + 1, stride * (width - 1) + 1
    x = jnp.concatenate([x[i : i + rows : stride] for i in range(kernel)], -1)  # rows first: fewer pieces to compile
    return jnp.concatenate([x[:, j : j + columns : stride] for j in range(kernel)], -1)


class Block(eqx.Module):
    """A convolution of either kind, then group normalisation, then ReLU."""

    conv: Conv | Widen
    scale: Float[Array, "*seeds outs"]
    shift: Float[Array, "*seeds outs"]

    def __init__(self, conv: Conv | Widen):
        self.conv = conv
        self.scale, self.shift = jnp.ones_like(conv.bias), jnp.zeros_like(conv.bias)

    def __call__(self, x: Float[Array, "h w ins"]) -> Float[Array, "h2 w2 outs"]:
        x = self.conv(x)
        groups = x.reshape(*x.shape[:2], -1, GROUP)
        centred = groups - groups.mean((0, 1, 3), keepdims=True)
        normal = centred * jax.lax.rsqrt((centred**2).mean((0, 1, 3), keepdims=True) + 1e-5)
        return jax.nn.relu(normal.reshape(x.shape) * self.scale[None, None] + self.shift[None, None])


class ConvNet(eqx.Module):
    """Image to features: four convolutions, kernel 5, stride 2."""

    blocks: tuple[Block, ...]
    shape: tuple[int, int, int] = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, layers: int, image: tuple[int, int], *, key: Any):
        """`layers` are those of the input, such as the image and which of its pixels are there."""
        ins = (layers, *ENCODER_CHANNELS[:-1])
        keys = jr.split(key, len(ins))
        self.blocks = tuple(Block(Conv(i, o, 5, 2, 2, key=k)) for i, o, k in zip(ins, ENCODER_CHANNELS, keys, strict=True))
        self.shape = (layers, *image)
        height, width = image
        for _ in self.blocks:
            height, width = -(-height // 2), -(-width // 2)
        self.size = ENCODER_CHANNELS[-1] * height * width

    def __call__(self, pixels: Float[Array, " pixels"]) -> Float[Array, " size"]:
        x = jnp.moveaxis(pixels.reshape(self.shape), 0, -1)
        for block in self.blocks:
            x = block(x)
        return x.reshape(-1)


class ImageEncoder(AbstractEncoder):
    """r_i = f(W·conv(y_i) + b, t_i), f a ReLU network; with missing pixels the convolutions also see which are there.

    Time must meet the image in a hidden layer: joined by a linear map alone, the mean over points would forget which frame
    came at which time, and with it the speed of what moves.
    """

    conv: ConvNet
    code: Linear
    net: MLP
    missing: bool = eqx.field(static=True)
    aggregation: str = eqx.field(static=True)

    def __init__(
        self,
        image: tuple[int, int],
        r_dim: int,
        width: int,
        *,
        missing: bool,
        aggregation: str = "mean",
        depth: int = 2,
        key: Any,
    ):
        conv_key, code_key, net_key = jr.split(key, 3)
        self.conv = ConvNet(2 if missing else 1, image, key=conv_key)
        self.code = Linear(self.conv.size, width, key=code_key)
        self.net = MLP(width + 1, AGGREGATIONS[aggregation].sizes(r_dim)[0], width, depth, "relu", key=net_key)
        self.missing, self.aggregation = missing, aggregation

    def features(self, series: Series) -> Float[Array, "n f"]:
        y = jnp.where(series.mask, series.y, 0.0)
        pixels = jnp.concatenate([y, series.mask.astype(y.dtype)], -1) if self.missing else y
        codes = jax.vmap(lambda x: self.code(self.conv(x)))(pixels)
        return jax.vmap(self.net.features)(jnp.concatenate([codes, series.t[:, None]], -1))


class FrameHead(AbstractHead):
    """A normal distribution over latents from one frame, a mask of its pixels, and static covariates."""

    net: ConvNet
    head: Head

    def __init__(
        self,
        image: tuple[int, int],
        static_dim: int,
        out_dim: int,
        width: int,
        floor: float,
        *,
        depth: int = 1,
        start: float = LATENT_START,
        key: Any,
    ):
        net_key, head_key = jr.split(key)
        self.net = ConvNet(2, image, key=net_key)
        self.head = Head(self.net.size + static_dim, out_dim, width, floor, depth=depth, start=start, key=head_key)

    def __call__(self, x: Float[Array, " in_dim"]) -> Normal:
        pixels = 2 * self.net.shape[1] * self.net.shape[2]
        return self.head(jnp.concatenate([self.net(x[:pixels]), x[pixels:]]))


class ImageDecoder(AbstractDecoder):
    """g(l(t)), or g(l, t) where l stands still: a linear layer, then four transposed convolutions."""

    first: Linear
    blocks: tuple[Block, ...]
    last: Conv
    shape: tuple[int, int, int] = eqx.field(static=True)
    timed: bool = eqx.field(static=True)

    def __init__(self, l_dim: int, image: tuple[int, int], *, timed: bool, key: Any):
        checks.require(
            min(image) >= SMALLEST_SIDE,
            f"`image` is {image}; expected at least {SMALLEST_SIDE} pixels on a side for this decoder.",
        )
        # From the image back: two layers of stride 2 halve a side, then one of kernel 3 takes 2 off: 28, 13, 6, 4.
        half = (image[0] - 1) // 2, (image[1] - 1) // 2
        quarter = (half[0] - 1) // 2, (half[1] - 1) // 2
        a, b, c, d = DECODER_CHANNELS
        keys = jr.split(key, 5)
        self.shape = (quarter[0] - 2, quarter[1] - 2, a)
        self.first = Linear(l_dim + timed, math.prod(self.shape), key=keys[0])
        self.blocks = (
            Block(Conv(a, b, 3, 1, 2, key=keys[1])),  # with stride 1 a transposed convolution is a convolution
            Block(Widen(b, c, half, key=keys[2])),
            Block(Widen(c, d, image, key=keys[3])),
        )
        self.last = Conv(d, 1, 5, 1, 2, key=keys[4])
        self.timed = timed

    def __call__(self, l, d, t):
        return jax.vmap(self._frame)(jnp.concatenate([l, t[:, None]], -1) if self.timed else l)

    def _frame(self, state):
        x = jax.nn.relu(self.first(state)).reshape(self.shape)
        for block in self.blocks:
            x = block(x)
        return self.last(x).reshape(-1)
