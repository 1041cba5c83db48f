"""From a spec to a process with fresh weights."""

from collections.abc import Callable
from typing import Any

import jax.random as jr

from .aggregation import AGGREGATIONS
from .amortised_inference import AbstractHead, Head, Inference, SeparateHeads
from .decoder import AbstractDecoder, LinearDecoder, PlainDecoder, ResidualDecoder, SmoothDecoder
from .encoder import AbstractEncoder, PointEncoder
from .field import AbstractField, FirstOrder, SecondOrder
from .flow import AbstractFlow, ConstantFlow, OdeFlow
from .images import FrameHead, ImageDecoder, ImageEncoder
from .likelihood import AbstractLikelihood, BernoulliLikelihood, GaussianLikelihood
from .networks import with_wide_start
from .neural_process import Process
from .parts import check_shapes, make_part
from .prior import Mixture, Prior


def build_process(spec: Any, *, key: Any, check: bool = True) -> Process:
    """The parts that `spec`, a `Spec` without gaps, asks for, put together.

    Arguments:
        spec: what to build.
        key: of the weights.
        check: whether parts of one's own are tried on arrays of zeros; see `check_shapes`.
    """
    encoder_key, head_key, first_key, flow_key, decoder_key = jr.split(key, 5)
    encoder = _own_or("encoder", _encoder, spec, encoder_key)
    head = _started(_head, spec, head_key)
    first = _started(_first_head, spec, first_key) if spec.initial == "first" else None
    flow = _flow(spec, flow_key)
    decoder = _own_or("decoder", _decoder, spec, decoder_key)
    likelihood = build_likelihood(spec, key=jr.fold_in(decoder_key, 1))
    if spec.parts and check:
        check_shapes(encoder, flow, decoder, likelihood, spec)
    inference = Inference(encoder, head, first, counted=spec.latent_scale == "free")
    prior = Prior.standard(spec.z_dim, spec.static_dim) if spec.prior == "learned" else None
    mixture = None if prior is None else Mixture.of(prior, spec.components or 1).with_members()
    return Process(inference, flow, decoder, likelihood, spec.l_dim, spec.z_dim, prior, mixture)


def build_likelihood(spec: Any, *, key: Any) -> AbstractLikelihood:
    """The likelihood alone: it says how many numbers the decoder must give."""
    return _own_or("likelihood", _likelihood, spec, key)


def _own_or(option: str, ours: Callable[[Any, Any], Any], spec: Any, key: Any) -> Any:
    """The user's part, where the spec has one, with the weights it begins with; otherwise ours, started as the spec says."""
    if option in spec.parts:
        return make_part(option, spec.parts[option], spec, key)
    return _started(ours, spec, key)


def _started(ours: Callable[[Any, Any], Any], spec: Any, key: Any) -> Any:
    made = ours(spec, key)
    return with_wide_start(made) if spec.start == "wide" else made


def _encoder(spec: Any, key: Any) -> AbstractEncoder:
    options = {"missing": spec.missing, "aggregation": spec.aggregation, "depth": spec.encoder_depth, "key": key}
    if spec.image is not None:
        return ImageEncoder(spec.image, spec.r_dim, spec.h_dim, **options)
    longest = 2.0 * float(spec.horizon)
    return PointEncoder(spec.channels, spec.r_dim, spec.h_dim, waves=spec.waves, slowest=longest, **options)


def _head(spec: Any, key: Any) -> AbstractHead:
    counted = spec.latent_scale == "free"
    inputs = AGGREGATIONS[spec.aggregation].sizes(spec.r_dim)[2] + spec.static_dim + counted
    options = {"depth": spec.head_depth, "free": counted, "start": spec.latent_start}
    if spec.initial == "first":
        return Head(inputs, spec.d_dim, spec.h_dim, spec.latent_floor, **options, key=key)
    if spec.heads == "separate":
        return SeparateHeads(inputs, (spec.l_dim, spec.d_dim), spec.h_dim, spec.latent_floor, **options, key=key)
    return Head(inputs, spec.z_dim, spec.h_dim, spec.latent_floor, **options, key=key)


def _first_head(spec: Any, key: Any) -> AbstractHead:
    options = {"depth": spec.head_depth, "start": spec.latent_start, "key": key}
    if spec.image is not None:
        return FrameHead(spec.image, spec.static_dim, spec.l_dim, spec.h_dim, spec.latent_floor, **options)
    return Head(2 * spec.channels + spec.static_dim, spec.l_dim, spec.h_dim, spec.latent_floor, **options)


def _flow(spec: Any, key: Any) -> AbstractFlow:
    if "flow" in spec.parts:
        return make_part("flow", spec.parts["flow"], spec, key)
    if spec.dynamics == "none":
        return ConstantFlow()
    field = _own_or("field", _field, spec, key)
    return OdeFlow(field, spec.solver, float(spec.t0), float(spec.horizon))


def _field(spec: Any, key: Any) -> AbstractField:
    order = {"first": FirstOrder, "second": SecondOrder}[spec.dynamics]
    options = {"path": spec.path, "timed": spec.timed, "depth": spec.field_depth}
    return order(spec.l_dim, spec.d_dim, spec.h_dim, **options, key=key)


def _decoder(spec: Any, key: Any) -> AbstractDecoder:
    if spec.readout == "deconvolution":
        return ImageDecoder(spec.l_dim, spec.image, timed=spec.dynamics == "none", key=key)
    if spec.readout == "linear":
        return LinearDecoder(spec.l_dim, spec.out_dim, key=key)
    sizes = (spec.l_dim, spec.d_dim, spec.out_dim, spec.h_dim)
    if spec.readout == "plain":
        return PlainDecoder(*sizes, depth=spec.decoder_depth, key=key)
    if spec.path != "network":
        return SmoothDecoder(*sizes, path=spec.path, depth=spec.decoder_depth, key=key)
    return ResidualDecoder(*sizes, depth=spec.decoder_depth, output=spec.residual_output, key=key)


def _likelihood(spec: Any, key: Any) -> AbstractLikelihood:
    if spec.likelihood == "bernoulli":
        return BernoulliLikelihood()
    noise = {"noise": spec.noise, "floor": spec.noise_floor, "std": spec.noise_std, "start": spec.noise_start}
    return GaussianLikelihood(spec.channels, **noise)
