"""From a spec to a process with fresh weights."""

from typing import Any

import jax.random as jr

from .aggregation import AGGREGATIONS
from .amortised_inference import Head, Inference
from .decoder import LinearDecoder, PlainDecoder, ResidualDecoder, SmoothDecoder
from .encoder import PointEncoder
from .field import FirstOrder, SecondOrder
from .flow import ConstantFlow, OdeFlow
from .images import FrameHead, ImageDecoder, ImageEncoder
from .likelihood import BernoulliLikelihood, GaussianLikelihood
from .networks import widened
from .neural_process import Process
from .prior import Mixture, Prior


def build_process(spec: Any, *, key: Any) -> Process:
    """The parts that `spec`, a `Spec` without gaps, asks for, put together."""
    channels, static_dim = spec.channels, spec.static_dim
    encoder_key, head_key, first_key, field_key, decoder_key = jr.split(key, 5)
    d_dim = spec.z_dim - spec.l_dim
    likelihood = (
        BernoulliLikelihood()
        if spec.likelihood == "bernoulli"
        else GaussianLikelihood(channels, noise=spec.noise, floor=spec.noise_floor, std=spec.noise_std, start=spec.noise_start)
    )
    from_first = spec.initial == "first"
    width, floor, first = spec.h_dim, spec.latent_floor, None
    known = {"missing": spec.missing, "aggregation": spec.aggregation}
    if spec.image is None:
        waves = {"waves": spec.waves, "slowest": 2.0 * float(spec.horizon)}
        encoder = PointEncoder(channels, spec.r_dim, width, **known, **waves, key=encoder_key)
        if from_first:
            first = Head(2 * channels + static_dim, spec.l_dim, width, floor, key=first_key)
    else:
        encoder = ImageEncoder(spec.image, spec.r_dim, width, **known, key=encoder_key)
        if from_first:
            first = FrameHead(spec.image, static_dim, spec.l_dim, width, floor, key=first_key)
    free = spec.latent_scale == "free"
    read = AGGREGATIONS[spec.aggregation].sizes(spec.r_dim)[2]
    head_in, head_out = read + static_dim + free, d_dim if from_first else spec.z_dim
    head = Head(head_in, head_out, width, floor, free=free, key=head_key)
    flow = ConstantFlow()
    if spec.dynamics != "none":
        order = {"first": FirstOrder, "second": SecondOrder}[spec.dynamics]
        field = order(spec.l_dim, d_dim, spec.h_dim, path=spec.path, timed=spec.timed, key=field_key)
        flow = OdeFlow(field, spec.solver, float(spec.t0), float(spec.horizon))
    out_dim = likelihood.num_raw(channels)
    if spec.image is not None and spec.readout == "deconvolution":
        decoder = ImageDecoder(spec.l_dim, spec.image, timed=spec.dynamics == "none", key=decoder_key)
    elif spec.readout == "linear":
        decoder = LinearDecoder(spec.l_dim, out_dim, key=decoder_key)
    elif spec.readout == "residual" and spec.path != "network":
        decoder = SmoothDecoder(spec.l_dim, d_dim, out_dim, spec.h_dim, path=spec.path, key=decoder_key)
    else:
        kind = PlainDecoder if spec.readout == "plain" else ResidualDecoder
        decoder = kind(spec.l_dim, d_dim, out_dim, spec.h_dim, key=decoder_key)
    inference = Inference(encoder, head, first, counted=free)
    prior = Prior.standard(spec.z_dim, static_dim) if spec.prior == "learned" else None
    mixture = None if prior is None else Mixture.of(prior, spec.components or 1).with_members()
    process = Process(inference, flow, decoder, likelihood, spec.l_dim, spec.z_dim, prior, mixture)
    return widened(process) if spec.start == "wide" else process
