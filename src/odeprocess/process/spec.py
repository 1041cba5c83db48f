"""Specs: everything that is needed to build a process, as plain data and the names of parts."""

import dataclasses
import functools
import typing
from collections.abc import Iterable
from typing import Any, Literal

import jax
import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_dataclass
from odeprocess.data.series import Series

from .aggregation import AGGREGATIONS
from .amortised_inference import LATENT_START
from .build import build_likelihood, build_process
from .decoder import Output
from .networks import Path
from .neural_process import Process
from .parts import KINDS, Part, find_parts, is_name, name_of
from .prior import Mixture
from .solvers import SOLVERS, AbstractSolver, Grid

DEFAULT_SOLVER = Grid()
# Bounds, so that a damaged or hostile model folder cannot ask for all memory; none is near what anybody has used.
MOST_WAVES = 16  # each is twice as fast as the one before, and float32 has seven digits
WIDEST = 16_384  # units of a layer, numbers in a code or a latent
DEEPEST = 64  # hidden layers of a network
MOST_CHANNELS = 1_048_576  # an image of 1024 × 1024
MOST_COMPONENTS = 1024  # of a mixture prior
LIKELIHOODS = ("gaussian", "bernoulli")
FROM_DATA = ("channels", "static_dim", "missing", "t0", "horizon")  # fields that `resolve` fills in


@dataclasses.dataclass(frozen=True)
class Spec:
    """Everything that is needed to build a process: plain data, and parts of one's own.

    Sizes, dynamics and readout make the model; the other options are grouped as: sizes and data, networks, encoder and
    latents, likelihood, prior, solver. Parts of one's own (`encoder`, `field`, `flow`, `decoder`, `likelihood`) are classes,
    or functions, that are called with `spec` and `key`, as far as they have parameters of these names, and return the part
    with fresh weights; see the page *Write your own part*.

    Attributes:
        variant: the row of the table this came from.
        dynamics: `"none"`, `"first"` or `"second"` order.
        readout: `"plain"`, `"residual"`, `"linear"`, or `"deconvolution"` for images.
        r_dim: size of a point's code.
        z_dim: size of all latents, l and d together.
        l_dim: size of the moving state l; the rest of z is the control d.
        h_dim: width of every hidden layer.
        channels: channels of an observation; from the training data if `None`.
        static_dim: static covariates of a series; from the training data if `None`.
        missing: whether single channels of a point may be missing, so that the encoder also takes which are there; from the
            training data if `None`.
        image: height and width of observations that are images, flattened row by row to channels; convolutional networks
            then read them.
        encoder_depth: hidden layers of the point encoder.
        head_depth: hidden layers of the network from the aggregate to the latents.
        field_depth: hidden layers of the vector field. The fused kernel takes two.
        decoder_depth: hidden layers of the decoder's network.
        residual_output: the output of the network in a residual readout: `"linear"`, or another `"relu"` layer.
        start: how weights begin: `"wide"`, variance 1/in and no biases, which leaves the plateau where σ explains everything
            soonest; or `"pytorch"`, as in the paper's code.
        path: what the field and a residual readout are: a `"network"`, `"linear"`, or `"both"`, a linear path with a network
            beside it that begins at zero.
        timed: whether the field takes the time; if not, dynamics are the same at all times.
        field: a vector field of one's own.
        flow: a flow of one's own: field and solver in one, such as a closed form.
        decoder: a decoder of one's own, in place of `readout`.
        encoder: an encoder of one's own.
        aggregation: how codes become one: their `"mean"`, as in the paper, `"attention"` or `"precision"`; see
            `odeprocess.process.aggregation`. All keep sums, so an observation more costs O(1).
        waves: the number of sine waves of the time that the encoder takes beside the time itself, the longest twice the
            horizon, each half as long as the one before; for series that change many times within the horizon.
        initial: l(t0) from the whole `"context"`, or from the `"first"` observation, which must then always be given.
        heads: one head for all latents, `"shared"`, as in the paper, or `"separate"` ones for l(t0) and for d, as in its code.
        latent_floor: the least σ of a latent.
        latent_scale: σ of a latent `"bounded"` by 1, or `"free"`: any, and the head takes the number of observations too.
        latent_start: σ of a latent begins near sigmoid(`latent_start`) (softplus if `"free"`); 0 in the paper's code.
        likelihood: `"gaussian"`, `"bernoulli"` or one's own.
        noise: σ of a Gaussian from the `"decoder"`, `"shared"` by all times, or `"fixed"`.
        noise_floor: the least σ, in scaled units; 0.1 in the paper's protocols.
        noise_std: the value of a fixed σ, in scaled units.
        noise_start: a learned σ begins near softplus(`noise_start`).
        prior: the distribution of latents before any observation: the encoder's answer to an `"empty"` context, or a normal
            distribution `"learned"` over all series, with which the process is a generative model; see `FitOptions.objective`.
        components: into how many normal distributions a learned prior is divided at the end of training, the one of all
            series among them; as many as the training series can tell apart if `None`.
        t0: where the flow starts, in scaled time; the earliest time of the training data if `None`.
        horizon: the scaled time from t0 that the solver's steps divide; to the latest training time if `None`.
        solver: `Grid` or `Adaptive`.
    """

    variant: str
    dynamics: Literal["none", "first", "second"]
    readout: Literal["plain", "residual", "linear", "deconvolution"]
    # sizes, and what the data decide
    r_dim: int
    z_dim: int
    l_dim: int
    h_dim: int
    channels: int | None = None
    static_dim: int | None = None
    missing: bool | None = None
    image: tuple[int, int] | None = None
    # networks
    encoder_depth: int = 2
    head_depth: int = 1
    field_depth: int = 2
    decoder_depth: int = 2
    residual_output: Output = "linear"
    start: Literal["wide", "pytorch"] = "wide"
    path: Path = "network"
    timed: bool = True
    field: Part | None = None
    flow: Part | None = None
    decoder: Part | None = None
    # encoder and latents
    encoder: Part | None = None
    aggregation: Literal["mean", "attention", "precision"] = "mean"
    waves: int = 0
    initial: Literal["context", "first"] = "context"
    heads: Literal["shared", "separate"] = "shared"
    latent_floor: float = 0.1
    latent_scale: Literal["bounded", "free"] = "bounded"
    latent_start: float = LATENT_START
    # likelihood
    likelihood: Literal["gaussian", "bernoulli"] | Part = "gaussian"
    noise: Literal["decoder", "shared", "fixed"] = "decoder"
    noise_floor: float = 0.01
    noise_std: float = 0.1
    noise_start: float = 0.0
    # prior
    prior: Literal["empty", "learned"] = "empty"
    components: int | None = 1
    # solver
    t0: float | None = None
    horizon: float | None = None
    solver: AbstractSolver = DEFAULT_SOLVER

    def __post_init__(self):
        for name, choices in _choices().items():
            checks.choice(name, getattr(self, name), choices)
        self._check_parts()
        self._check_sizes()
        self._check_image()
        self._check_numbers()
        checks.require(
            isinstance(self.solver, AbstractSolver),
            f"`solver` is {checks.shown(self.solver)}; expected Grid(…) or Adaptive(…), made with its options.",
        )

    def _check_parts(self) -> None:
        checks.require(
            callable(self.likelihood) or (isinstance(self.likelihood, str) and self.likelihood in LIKELIHOODS),
            f"`likelihood` is {checks.shown(self.likelihood)}; expected one of {', '.join(map(repr, LIKELIHOODS))}, or a class "
            "of your own.",
        )
        names = {option: name_of(option, part) for option, part in self.parts.items()}
        for option, name in names.items():
            alike = [other for other in names if names[other] == name and self.parts[other] is not self.parts[option]]
            checks.require(not alike, f"`{option}` and {alike} are both called {name}. Give each part a name of its own.")
        moving = [option for option in ("field", "flow") if option in self.parts]
        checks.require(
            len(moving) < 2, "Both `field` and `flow` are given, but a flow replaces the field and its solver. Give one of them."
        )
        checks.require(
            not moving or self.dynamics != "none",
            f"`{''.join(moving)}` is given, but variant {checks.shown(self.variant)} has no dynamics. Start from one that has: "
            f"variant('ndp', {''.join(moving)}=…).",
        )

    def _check_sizes(self) -> None:
        for name in ("r_dim", "z_dim", "l_dim", "h_dim"):
            checks.whole(name, getattr(self, name), 1, WIDEST)
        for name in ("encoder_depth", "head_depth", "field_depth", "decoder_depth"):
            checks.whole(name, getattr(self, name), 1, DEEPEST)
        checks.whole("waves", self.waves, 0, MOST_WAVES)
        checks.whole("components", 1 if self.components is None else self.components, 1, MOST_COMPONENTS)
        checks.whole("channels", 1 if self.channels is None else self.channels, 1, MOST_CHANNELS)
        checks.whole("static_dim", 0 if self.static_dim is None else self.static_dim, 0, WIDEST)
        checks.require(
            self.dynamics != "second" or self.l_dim % 2 == 0,
            f"`l_dim` is {self.l_dim}; second-order dynamics need an even number (position and velocity).",
        )
        checks.require(
            self.l_dim <= self.z_dim, f"`l_dim` is {self.l_dim} and `z_dim` is {self.z_dim}; l is part of z, so l_dim ≤ z_dim."
        )
        checks.require(
            self.initial == "context" or self.l_dim < self.z_dim,
            f"`initial='first'` takes l(t0) from the first observation, and with l_dim = z_dim = {self.z_dim} nothing is "
            "left for the rest of the context. Use a smaller `l_dim`, or initial='context'.",
        )

    def _check_numbers(self) -> None:
        floor, latent_floor = self.noise_floor, self.latent_floor
        checks.require(
            checks.is_number(floor) and 0.0 <= floor < 1.0,
            f"`noise_floor` is {checks.shown(floor)}; expected 0 ≤ floor < 1, in scaled units.",
        )
        checks.require(
            checks.is_number(latent_floor) and 0.0 < latent_floor < 1.0,
            f"`latent_floor` is {checks.shown(latent_floor)}; expected 0 < floor < 1.",
        )
        checks.positive("noise_std", self.noise_std)
        for name in ("noise_start", "latent_start"):
            value = getattr(self, name)
            good = checks.is_number(value) and bool(np.isfinite(value))
            checks.require(good, f"`{name}` is {checks.shown(value)}; expected a finite number.")
        if self.horizon is not None:
            checks.positive("horizon", self.horizon)

    def _check_image(self) -> None:
        if self.image is None:
            checks.require(
                self.readout != "deconvolution",
                "`readout` is 'deconvolution' but `image` is None; expected its height and width.",
            )
            return
        image = tuple(self.image)
        object.__setattr__(self, "image", image)
        good = len(image) == 2 and all(isinstance(side, int) and side > 0 for side in image)
        checks.require(good, f"`image` is {checks.shown(self.image)}; expected (height, width) in pixels.")
        checks.require(
            not self.waves, f"`waves` is {self.waves}, but an encoder of images takes the time as it is: leave it at 0."
        )
        checks.require(
            self.readout != "deconvolution" or self.likelihood != "gaussian" or self.noise != "decoder" or bool(self.decoder),
            "A deconvolution gives one number a pixel, so σ cannot come from it: use likelihood='bernoulli', or "
            "noise='shared' or 'fixed'.",
        )
        checks.require(
            self.channels in (None, image[0] * image[1]),
            f"`channels` is {self.channels} but an image of {image} has {image[0] * image[1]} pixels.",
        )

    @property
    def sums(self) -> int:
        """How many numbers the encoder sums up over the observations of a series."""
        return AGGREGATIONS[self.aggregation].sizes(self.r_dim)[1]

    @property
    def code_dim(self) -> int:
        """How many numbers the encoder gives for one observation: `r_dim`, or twice that where they carry weights."""
        return AGGREGATIONS[self.aggregation].sizes(self.r_dim)[0]

    @property
    def d_dim(self) -> int:
        """The size of the control d."""
        return self.z_dim - self.l_dim

    @property
    def out_dim(self) -> int:
        """How many raw numbers the decoder gives for each time: as many as the likelihood takes."""
        checks.require(self.channels is not None, "`out_dim` depends on `channels`, which this spec leaves open.")
        return jax.eval_shape(lambda: build_likelihood(self, key=jr.key(0))).num_raw(self.channels)  # type: ignore[arg-type]

    @property
    def parts(self) -> dict[str, Part]:
        """The parts of one's own, by the option that holds them."""
        values = {option: getattr(self, option) for option in KINDS}
        if isinstance(self.likelihood, str):
            del values["likelihood"]
        return {option: value for option, value in values.items() if value is not None}

    @property
    def linear(self) -> bool:
        """Whether curves are linear in the latents: then the likelihood of a series has a closed form."""
        ours = not {"field", "flow", "decoder", "likelihood"} & set(self.parts)
        return ours and self.path == "linear" and self.readout in ("residual", "linear")

    @property
    def scales_values(self) -> bool:
        """Whether `fit` standardises the observed values: where the likelihood is one of real numbers."""
        return bool(getattr(self.parts.get("likelihood"), "scales_values", self.likelihood != "bernoulli"))

    def build(self, *, key: Any) -> Process:
        """A process with fresh weights."""
        if any(getattr(self, name) is None for name in FROM_DATA):
            raise ValueError(
                "This spec leaves `channels`, `static_dim`, `missing`, `t0` or `horizon` open. `fit` sets them from the data; "
                "to build a process without data use spec.replace(channels=1, static_dim=0, missing=False, t0=0.0, horizon=1.0)."
            )
        return build_process(self, key=key)

    def resolve(self, series: Series, count: int | None = None) -> "Spec":
        """This spec with everything that was left open taken from scaled training series.

        With `count` it goes by that number of series instead, and rounds times to nine digits, so that trainings on
        other series can have the same spec, and share what is compiled for it.
        """
        mask, observed = np.asarray(series.mask), np.asarray(series.observed)
        partial = bool((mask.any(-1) & ~mask.all(-1)).any())
        times = np.asarray(series.t)[observed]
        digits = 17 if count is None else 9
        t0 = float(f"{times.min():.{digits}g}") if self.t0 is None else self.t0
        horizon = float(f"{float(times.max()) - t0:.{digits}g}") or 1.0 if self.horizon is None else self.horizon
        found = {"channels": series.channels, "static_dim": series.static.shape[-1]}
        for name, value in found.items():
            asked = getattr(self, name)
            checks.require(
                asked in (None, value),
                f"`{name}` of the spec is {asked}, but the series have {value}. Leave it open or make it {value}.",
            )
        checks.require(
            not (partial and self.missing is False),
            "Some points lack a channel but the spec says missing=False. Leave `missing` open or make it True.",
        )
        checks.require(
            float(times.min()) >= t0 - 1e-6 * horizon,
            f"`t0` is {t0} but the earliest training time is {times.min()} (scaled). The flow starts at t0: use an earlier one.",
        )
        missing = partial if self.missing is None else self.missing
        components = Mixture.parts_for(count or len(series)) if self.components is None else self.components
        return self.replace(**found, missing=missing, components=components, t0=t0, horizon=horizon)

    def replace(self, **changes: Any) -> "Spec":
        """A copy with some fields changed."""
        unknown = set(changes) - {f.name for f in dataclasses.fields(self)}
        checks.require(
            not unknown,
            f"Unknown option(s) {sorted(unknown)}; a process has: {', '.join(f.name for f in dataclasses.fields(self))}.",
        )
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Plain data: the solver as its name and options, parts of one's own by their names alone."""
        name = next((n for n, kind in SOLVERS.items() if isinstance(self.solver, kind)), None)
        checks.require(name is not None, f"A {type(self.solver).__name__} cannot be saved; only {sorted(SOLVERS)} can.")
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        own = {option: {"part": part.__name__} for option, part in self.parts.items()}
        return {**fields, **own, "solver": {"kind": name, **dataclasses.asdict(self.solver)}}  # type: ignore

    @staticmethod
    def part_names(fields: Any) -> dict[str, str]:
        """The names of the parts of one's own in plain data, by option; `from_json` needs the parts."""
        found = {}
        for option in KINDS:
            value = fields.get(option) if isinstance(fields, dict) else None
            if isinstance(value, dict):
                name = value.get("part")
                good = set(value) == {"part"} and is_name(name)
                checks.require(good, f"`spec.{option}` is {checks.shown(value)}; expected the name of a part.")
                found[option] = name
        return found

    @classmethod
    def from_json(cls, fields: dict[str, Any], parts: Iterable[Part] = ()) -> "Spec":
        """The inverse of `to_json`; a `ValueError` names the field that is wrong.

        Arguments:
            fields: plain data.
            parts: of one's own, which the data name.
        """
        solver = fields.get("solver") if isinstance(fields, dict) else None
        kind = solver.get("kind") if isinstance(solver, dict) else None
        checks.choice("spec.solver.kind", kind, tuple(SOLVERS))
        options = {name: value for name, value in solver.items() if name != "kind"}  # type: ignore[union-attr]
        made: dict[str, Any] = {"solver": read_dataclass(SOLVERS[kind], options, "spec.solver")}  # type: ignore[index]
        made |= {option: fields[option] for option in KINDS if option in fields}  # checked by the spec itself
        made |= find_parts(cls.part_names(fields), parts)
        return read_dataclass(cls, {name: value for name, value in fields.items() if name not in made}, "spec", **made)


@functools.cache
def _choices() -> dict[str, tuple[Any, ...]]:
    """The choices of each field that has some, as its annotation lists them."""
    hints = typing.get_type_hints(Spec)
    return {name: typing.get_args(hint) for name, hint in hints.items() if typing.get_origin(hint) is Literal}
