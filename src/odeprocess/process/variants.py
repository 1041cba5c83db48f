"""Variants are rows of a table, and a process is built from a row.

| variant     | l moves by          | read out by               |
|-------------|---------------------|---------------------------|
| np          | nothing (`ConstantFlow`)   | h(l, t)                   |
| np-residual | nothing (`ConstantFlow`)   | [l ‖ h(l, t)]             |
| ndp         | dl/dt = f(l, d, t)  | [l ‖ h(l, d, t)]          |
| nd2p        | d²l/dt² = f(…)      | [l ‖ h(l, d, t)]          |
| ndp-l       | dl/dt = f(l, d, t)  | l                         |
| nd2p-l      | d²l/dt² = f(…)      | l                         |
| ndp-skip    | dl/dt = A + f(l, d, t) | C + h(l, d, t)          |
| ndp-linear  | dl/dt = A(l, d, t)  | C(l, d, t)                |
| ndp-state   | dl/dt = A + f(l)    | l                         |
| latent-ode  | dl/dt = f(l, t)     | h(l, t)                   |
| image-np    | nothing (`ConstantFlow`)   | deconvolution of (l, t)   |
| image-ndp   | dl/dt = f(l, d, t)  | deconvolution of l        |

The image variants have convolutional encoders, and the image NDP takes l(t0) from the first frame alone.

`ndp-skip` and the two after it are ours, not the paper's: small, smooth, with a prior over their latents, for accurate
posteriors (docs/inference.md). The field and the readout of the first are linear maps of (l, d, t) with networks beside
them. `latent-ode` is the latent ODE of Rubanova et al. (2019), a variational autoencoder without a control d; its
observations are summed up, not read in order by a recurrent network. Sizes of the others are those of the paper's released
code.

To make a variant of your own, start from a row and change fields: `variant("ndp", channels=2, l_dim=4)`; parts that no
field names are put together by hand with `Process(...)`.
"""

from typing import Any

from odeprocess.common import checks

from .solvers import Grid
from .spec import Spec

# Our own: one σ that may become small, and a learned prior. Loops stay loops: unrolled, inference compiles for minutes on a GPU.
GENERATIVE: dict[str, Any] = {
    "noise": "shared",
    "noise_start": -1.2,
    "noise_floor": 1e-4,
    "latent_floor": 1e-3,
    "latent_scale": "free",
    "prior": "learned",
    "components": None,
}
VARIANTS: dict[str, Spec] = {
    spec.variant: spec
    for spec in (
        Spec("np", "none", "plain", r_dim=60, z_dim=60, l_dim=60, h_dim=60),
        Spec("np-residual", "none", "residual", r_dim=60, z_dim=60, l_dim=60, h_dim=60),
        Spec("ndp", "first", "residual", r_dim=50, z_dim=50, l_dim=10, h_dim=50),
        Spec("nd2p", "second", "residual", r_dim=50, z_dim=50, l_dim=14, h_dim=50),
        Spec("ndp-l", "first", "linear", r_dim=60, z_dim=60, l_dim=10, h_dim=60),
        Spec("nd2p-l", "second", "linear", r_dim=60, z_dim=60, l_dim=14, h_dim=60),
        Spec("ndp-skip", "first", "residual", *(64, 8, 4, 48), path="both", solver=Grid(8, 4, unroll=False), **GENERATIVE),
        Spec("ndp-linear", "first", "residual", *(64, 8, 4, 48), path="linear", solver=Grid(8, unroll=False), **GENERATIVE),
        Spec(
            "ndp-state", "first", "linear", *(64, 4, 4, 48), path="both", timed=False, solver=Grid(18, unroll=False), **GENERATIVE
        ),
        Spec(
            "latent-ode",
            "first",
            "plain",
            *(64, 16, 16, 64),
            noise="shared",
            noise_start=-1.2,
            noise_floor=1e-3,
            latent_floor=1e-3,
            latent_scale="free",
            prior="learned",
            solver=Grid(steps=8, order=4),
        ),
        Spec("image-np", "none", "deconvolution", 100, 50, 50, 100, image=(28, 28), likelihood="bernoulli"),
        Spec(
            "image-ndp",
            "first",
            "deconvolution",
            *(100, 50, 25, 100),
            image=(28, 28),
            likelihood="bernoulli",
            initial="first",
            # The flow is a small part of the work here: a loop compiles in half the time and a lower order is enough.
            solver=Grid(steps=10, order=4, unroll=False),
        ),
    )
}


def variant(name: str, **changes: Any) -> Spec:
    """The row `name` of the table, with some fields changed.

    Examples:
        >>> import odeprocess as odp
        >>> odp.variant("ndp", channels=2, l_dim=4).l_dim
        4
    """
    checks.choice("variant", name, tuple(VARIANTS))
    return VARIANTS[name].replace(**changes)
