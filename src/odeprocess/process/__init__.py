"""The generative model and its encoder, written for one series and one draw: `Process` and the parts it is made of.

Networks, encoders, fields, flows, solvers, decoders, likelihoods. A `Spec` says as data what a process is built from, and names
the parts that a user wrote (`parts`); `build` puts the parts together; `variants` is a table of specs. May import `common` and
`data`.
"""

from odeprocess.common.distributions import (
    AbstractContinuous as AbstractContinuous,
    AbstractDistribution as AbstractDistribution,
    Normal as Normal,
)

from .aggregation import AGGREGATIONS as AGGREGATIONS, AbstractAggregation as AbstractAggregation
from .amortised_inference import AbstractHead as AbstractHead, Head as Head, Inference as Inference
from .decoder import (
    AbstractDecoder as AbstractDecoder,
    LinearDecoder as LinearDecoder,
    PlainDecoder as PlainDecoder,
    ResidualDecoder as ResidualDecoder,
)
from .encoder import AbstractEncoder as AbstractEncoder, PointEncoder as PointEncoder, Summary as Summary
from .field import AbstractField as AbstractField, FirstOrder as FirstOrder, SecondOrder as SecondOrder
from .flow import AbstractFlow as AbstractFlow, ConstantFlow as ConstantFlow, OdeFlow as OdeFlow
from .images import ImageDecoder as ImageDecoder, ImageEncoder as ImageEncoder
from .likelihood import (
    AbstractLikelihood as AbstractLikelihood,
    BernoulliLikelihood as BernoulliLikelihood,
    GaussianLikelihood as GaussianLikelihood,
)
from .networks import MLP as MLP, Linear as Linear
from .neural_process import Process as Process
from .solvers import AbstractSolver as AbstractSolver, Adaptive as Adaptive, Extent as Extent, Grid as Grid, Path as Path
from .spec import Spec as Spec
from .variants import VARIANTS as VARIANTS, variant as variant
