"""Specs: everything that is needed to build a process, as plain data."""

import dataclasses
from typing import Any, Literal

import numpy as np

from .. import checks
from ..plain_data import read_dataclass
from ..series import Series
from .aggregation import AGGREGATIONS
from .assembly import assembled
from .core import Process
from .latent import Mixture
from .nets import Path
from .solvers import SOLVERS, AbstractSolver, Grid

DEFAULT_SOLVER = Grid()
MOST_WAVES = 16  # each is twice as fast as the one before, and float32 has seven digits
WIDEST = 16_384  # units of a layer, numbers in a code or a latent
MOST_CHANNELS = 1_048_576  # an image of 1024 × 1024
MOST_COMPONENTS = 1024


@dataclasses.dataclass(frozen=True)
class Spec:
    """Everything that is needed to build a process, as plain data.

    Attributes:
        variant: the row of the table this came from.
        dynamics: `"none"`, `"first"` or `"second"` order.
        readout: `"plain"`, `"residual"`, `"linear"`, or `"deconvolution"` for images.
        r_dim: size of a point's code.
        z_dim: size of all latents, l and d together.
        l_dim: size of the moving state l; the rest of z is the control d.
        h_dim: width of every hidden layer.
        image: height and width of observations that are images, flattened row by row to channels; convolutional networks
            then read them.
        channels: channels of an observation; from the training data if `None`.
        static_dim: static covariates of a series; from the training data if `None`.
        missing: whether single channels of a point may be missing, and the encoder is told which are there; from the
            training data if `None`.
        aggregation: how codes become one: their `"mean"`, as in the paper, `"attention"` or `"precision"`; see
            `odeprocess.process.aggregation`. All keep sums, so an observation more costs O(1).
        waves: how many waves of the time the encoder is told beside the time itself, the longest twice the horizon, each half as
            long as the one before; for series that change many times within the horizon.
        initial: l(t0) from the whole `"context"`, or from the `"first"` observation, which must then always be given.
        likelihood: `"gaussian"` or `"bernoulli"`.
        noise: σ of a Gaussian from the `"decoder"`, `"shared"` by all times, or `"fixed"`.
        noise_floor: the least σ, in scaled units; 0.1 in the paper's protocols.
        noise_std: the value of a fixed σ, in scaled units.
        noise_start: a learned σ begins near softplus(`noise_start`).
        latent_floor: the least σ of a latent.
        latent_scale: σ of a latent `"bounded"` by 1, or `"free"`: any, and the head is told how many observations there are.
        path: what the field and a residual readout are: a `"network"`, `"linear"`, or `"both"`, a linear path with a network
            beside it that begins at zero.
        timed: whether the field is told the time; if not, dynamics are the same at all times.
        prior: the belief before any observation: the encoder's answer to an `"empty"` context, or a normal distribution
            `"learned"` over all series, with which the process is a generative model; see `FitOptions.objective`.
        components: into how many normal distributions a learned prior is divided at the end of training, the one of all
            series among them; as many as the training series can tell apart if `None`.
        start: how weights begin: `"wide"`, variance 1/in and no biases, which leaves the plateau where σ explains everything
            soonest; or `"pytorch"`, as in the paper's code.
        t0: where the flow starts, in scaled time; the earliest time of the training data if `None`.
        horizon: the scaled time from t0 that the solver's steps divide; to the latest training time if `None`.
        solver: `Grid` or `Adaptive`.
    """

    variant: str
    dynamics: Literal["none", "first", "second"]
    readout: Literal["plain", "residual", "linear", "deconvolution"]
    r_dim: int
    z_dim: int
    l_dim: int
    h_dim: int
    image: tuple[int, int] | None = None
    channels: int | None = None
    static_dim: int | None = None
    missing: bool | None = None
    aggregation: Literal["mean", "attention", "precision"] = "mean"
    waves: int = 0
    initial: Literal["context", "first"] = "context"
    likelihood: Literal["gaussian", "bernoulli"] = "gaussian"
    noise: Literal["decoder", "shared", "fixed"] = "decoder"
    noise_floor: float = 0.01
    noise_std: float = 0.1
    noise_start: float = 0.0
    latent_floor: float = 0.1
    latent_scale: Literal["bounded", "free"] = "bounded"
    path: Path = "network"
    timed: bool = True
    prior: Literal["empty", "learned"] = "empty"
    components: int | None = 1
    start: Literal["wide", "pytorch"] = "wide"
    t0: float | None = None
    horizon: float | None = None
    solver: AbstractSolver = DEFAULT_SOLVER

    def __post_init__(self):
        checks.choice("dynamics", self.dynamics, ("none", "first", "second"))
        checks.choice("readout", self.readout, ("plain", "residual", "linear", "deconvolution"))
        self._check_image()
        checks.choice("aggregation", self.aggregation, tuple(AGGREGATIONS))
        checks.require(
            isinstance(self.waves, int) and 0 <= self.waves <= MOST_WAVES,
            f"`waves` is {checks.shown(self.waves)}; expected a whole number from 0 to {MOST_WAVES}.",
        )
        checks.choice("initial", self.initial, ("context", "first"))
        checks.choice("likelihood", self.likelihood, ("gaussian", "bernoulli"))
        checks.choice("noise", self.noise, ("decoder", "shared", "fixed"))
        checks.choice("start", self.start, ("wide", "pytorch"))
        checks.choice("latent_scale", self.latent_scale, ("bounded", "free"))
        checks.choice("prior", self.prior, ("empty", "learned"))
        checks.choice("path", self.path, ("network", "linear", "both"))
        floor, latent_floor = self.noise_floor, self.latent_floor
        checks.require(
            checks.is_number(floor) and 0.0 <= floor < 1.0,
            f"`noise_floor` is {checks.shown(floor)}; expected 0 ≤ floor < 1, in scaled units.",
        )
        checks.positive("noise_std", self.noise_std)
        checks.require(
            checks.is_number(latent_floor) and 0.0 < latent_floor < 1.0,
            f"`latent_floor` is {checks.shown(latent_floor)}; expected 0 < floor < 1.",
        )
        checks.positive("l_dim", self.l_dim, integer=True)
        checks.require(
            self.dynamics != "second" or self.l_dim % 2 == 0,
            f"`l_dim` is {self.l_dim}; second-order dynamics need an even number (position and velocity).",
        )
        checks.require(
            isinstance(self.solver, AbstractSolver),
            f"`solver` is {checks.shown(self.solver)}; expected Grid(…) or Adaptive(…), made with its options.",
        )
        if self.horizon is not None:
            checks.positive("horizon", self.horizon)
        for name in ("r_dim", "z_dim", "l_dim", "h_dim"):
            checks.whole(name, getattr(self, name), 1, WIDEST)
        checks.whole("components", 1 if self.components is None else self.components, 1, MOST_COMPONENTS)
        checks.whole("channels", 1 if self.channels is None else self.channels, 1, MOST_CHANNELS)
        checks.whole("static_dim", 0 if self.static_dim is None else self.static_dim, 0, WIDEST)
        checks.require(
            self.l_dim <= self.z_dim, f"`l_dim` is {self.l_dim} and `z_dim` is {self.z_dim}; l is part of z, so l_dim ≤ z_dim."
        )
        checks.require(
            self.initial == "context" or self.l_dim < self.z_dim,
            f"`initial='first'` takes l(t0) from the first observation, and with l_dim = z_dim = {self.z_dim} nothing is "
            "left for the rest of the context. Use a smaller `l_dim`, or initial='context'.",
        )

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
            self.readout != "deconvolution" or self.likelihood == "bernoulli" or self.noise != "decoder",
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

    def build(self, *, key: Any) -> Process:
        """A process with fresh weights."""
        if any(getattr(self, name) is None for name in ("channels", "static_dim", "missing", "t0", "horizon")):
            raise ValueError(
                "This spec leaves `channels`, `static_dim`, `missing`, `t0` or `horizon` open. `fit` sets them from the data; "
                "to build a process without data use spec.replace(channels=1, static_dim=0, missing=False, t0=0.0, horizon=1.0)."
            )
        return assembled(self, key=key)

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
        """Plain data, the solver as its name and options."""
        name = next((n for n, kind in SOLVERS.items() if isinstance(self.solver, kind)), None)
        checks.require(name is not None, f"A {type(self.solver).__name__} cannot be saved; only {sorted(SOLVERS)} can.")
        return {**dataclasses.asdict(self), "solver": {"kind": name, **dataclasses.asdict(self.solver)}}  # type: ignore

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Spec":
        """The inverse of `to_json`; a `ValueError` names the field that is wrong."""
        solver = fields.get("solver") if isinstance(fields, dict) else None
        kind = solver.get("kind") if isinstance(solver, dict) else None
        checks.choice("spec.solver.kind", kind, tuple(SOLVERS))
        options = {name: value for name, value in solver.items() if name != "kind"}  # type: ignore[union-attr]
        made = read_dataclass(SOLVERS[kind], options, "spec.solver")  # type: ignore[index]
        return read_dataclass(cls, {name: value for name, value in fields.items() if name != "solver"}, "spec", solver=made)
