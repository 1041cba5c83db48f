"""The process and the parts it is made of."""

from .core import Process as Process
from .decoder import (
    AbstractDecoder as AbstractDecoder,
    LinearDecoder as LinearDecoder,
    PlainDecoder as PlainDecoder,
    ResidualDecoder as ResidualDecoder,
)
from .encoder import PointEncoder as PointEncoder, Summary as Summary
from .field import AbstractField as AbstractField, FirstOrder as FirstOrder, SecondOrder as SecondOrder
from .flow import AbstractFlow as AbstractFlow, OdeFlow as OdeFlow, Still as Still
from .latent import Head as Head, Inference as Inference
from .likelihood import (
    AbstractLikelihood as AbstractLikelihood,
    BernoulliLikelihood as BernoulliLikelihood,
    GaussianLikelihood as GaussianLikelihood,
)
from .solvers import AbstractSolver as AbstractSolver, Adaptive as Adaptive, Extent as Extent, Grid as Grid, Path as Path
from .variants import VARIANTS as VARIANTS, Spec as Spec, variant as variant
