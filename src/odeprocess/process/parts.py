"""Parts of one's own: encoders, fields, flows, decoders and likelihoods that a user writes and names in a `Spec`.

A part is a class, or a function, that makes the part with fresh weights. It is called with `spec` and `key`, each only if
it has a parameter of that name: `Part(spec, key=key)`, `Part(spec)`, `Part()`. Model folders hold the names of such parts,
never their code; whoever loads a model passes the parts again.
"""

import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.common.distributions import AbstractDistribution, Normal
from odeprocess.data.series import Series

from .decoder import AbstractDecoder
from .encoder import AbstractEncoder
from .field import AbstractField
from .flow import AbstractFlow
from .likelihood import AbstractLikelihood
from .solvers import Extent, Path

Part = Callable[..., Any]
KINDS: dict[str, type] = {
    "encoder": AbstractEncoder,
    "field": AbstractField,
    "flow": AbstractFlow,
    "decoder": AbstractDecoder,
    "likelihood": AbstractLikelihood,
}
LONGEST_NAME = 64  # characters of a part's name; chosen by hand, so that a damaged file cannot fill a message


def name_of(option: str, part: Any) -> str:
    """The name under which model folders keep a part; `option` is the field of the spec that holds it."""
    name = getattr(part, "__name__", None)
    checks.require(
        callable(part) and not isinstance(part, eqx.Module),
        f"`{option}` is {checks.shown(part)}; expected a class, or a function that makes one from `spec` and `key`.",
    )
    checks.require(
        is_name(name),
        f"`{option}` is {checks.shown(part)}, whose name is {checks.shown(name)}. Model folders keep parts by name: write a "
        f"class or a `def` with a name of at most {LONGEST_NAME} letters, digits and underscores.",
    )
    return str(name)


def is_name(name: Any) -> bool:
    """Whether a part may be called so: a Python identifier of bounded length."""
    return isinstance(name, str) and len(name) <= LONGEST_NAME and name.isidentifier() and not keyword.iskeyword(name)


def find_parts(names: Mapping[str, str], parts: Iterable[Part]) -> dict[str, Part]:
    """The part for each option, of those that were passed.

    Arguments:
        names: of the parts, by option of the spec, as a model folder has them.
        parts: those that the user passed; others than the named ones are ignored.

    Raises:
        ValueError: where one is missing, or two that were passed share a name.
    """
    known: dict[str, Part] = {}
    given = list(parts) if isinstance(parts, Iterable) else [parts]
    for part in given:
        name = name_of("parts", part)
        checks.require(known.setdefault(name, part) is part, f"`parts` has two parts called {name}. Pass the one that is meant.")
    missing = {option: name for option, name in names.items() if name not in known}
    told = " and ".join(f"the {option} `{name}`" for option, name in missing.items())
    listed = ", ".join(dict.fromkeys(names.values()))
    checks.require(
        not missing,
        f"This model has parts that are not odeprocess's own: {told}. Its folder holds their names and weights, not their code. "
        f"Pass the classes: odp.load(folder, parts=[{listed}]).",
    )
    return {option: known[name] for option, name in names.items()}


def make_part(option: str, part: Part, spec: Any, key: Any) -> Any:
    """The part with fresh weights, checked: it is of the right kind, and each of its fields is an array or static."""
    name = part.__name__
    parameters = inspect.signature(part).parameters
    needed = [x.name for x in parameters.values() if x.default is x.empty and x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)]
    unknown = [x for x in needed if x not in ("spec", "key")]
    checks.require(
        not unknown,
        f"`{name}` needs {', '.join(f'`{x}`' for x in unknown)}, but a part is made with `spec` and `key` alone, each if it has "
        "a parameter of that name. Take sizes from the spec: def __init__(self, spec, *, key).",
    )
    made = part(**{x: value for x, value in (("spec", spec), ("key", key)) if x in parameters})
    kind = KINDS[option]
    checks.require(
        isinstance(made, kind),
        f"`{option}` is `{name}`, which makes {_a(type(made).__name__)}; expected a part that is {_a(kind.__name__)}.",
    )
    leaves, structure = jax.tree_util.tree_flatten_with_path(made)
    return structure.unflatten([_array_or_static(name, path, leaf) for path, leaf in leaves])


def _array_or_static(name: str, path: Any, leaf: Any) -> Any:
    """The leaf of a part if it can be trained; a function, such as an activation, as a tree without leaves."""
    place = f"{name}{jax.tree_util.keystr(path)}"
    if isinstance(leaf, (jax.Array, np.ndarray)) and jnp.issubdtype(leaf.dtype, jnp.floating):
        return jnp.asarray(leaf)
    if callable(leaf):
        return jax.tree_util.Partial(leaf)
    raise ValueError(
        f"`{place}` is {checks.shown(leaf)}, which cannot be trained: every field of a part is an array of floating-point "
        "numbers, or static. Use jnp.asarray(…) for a number that is learned, and equinox.field(static=True) for one that is not."
    )


def check_shapes(encoder: Any, flow: Any, decoder: Any, likelihood: Any, spec: Any) -> None:
    """Raises where a part of one's own gives other shapes than the rest of the process takes.

    Parts are traced, not run, so it takes milliseconds.
    """
    checkers = {
        "encoder": lambda: _check_encoder(encoder, spec),
        "field": lambda: _check_field(flow.field, spec),
        "flow": lambda: _check_flow(flow, spec),
        "likelihood": lambda: _check_likelihood(likelihood, spec),  # first: it says what the decoder must give
        "decoder": lambda: _check_decoder(decoder, likelihood, spec),
    }
    for option, check in checkers.items():
        if option in spec.parts:
            try:
                check()
            except Exception as error:
                error.add_note(f"This happened while the {option} `{spec.parts[option].__name__}` was tried on arrays of zeros.")
                raise


def _check_encoder(encoder: Any, spec: Any) -> None:
    name, n = spec.parts["encoder"].__name__, _unusual(spec)
    for field in ("missing", "aggregation"):
        found, expected = getattr(encoder, field), getattr(spec, field)
        checks.require(found == expected, f"`{name}.{field}` is {checks.shown(found)}; expected that of the spec, {expected!r}.")
    mask = jnp.ones((n, spec.channels), bool)
    series = Series(jnp.zeros(n), jnp.zeros((n, spec.channels)), mask, jnp.zeros(spec.static_dim))
    found = jax.eval_shape(lambda: encoder.features(series))
    last = encoder.net.layers[-1].weight.shape
    _require_shape(f"{name}.features(series)", found, (n, last[-1]), "[points, features], as the last layer of `net` takes them")
    checks.require(
        last[0] == spec.code_dim,
        f"The last layer of `{name}.net` gives {last[0]} numbers; expected `spec.code_dim`, {spec.code_dim}.",
    )


def _check_field(field: Any, spec: Any) -> None:
    l, d, t = jnp.zeros(spec.l_dim), jnp.zeros(spec.d_dim), jnp.zeros(())
    found = jax.eval_shape(lambda: field.velocity(t, l, field.prepare(d)))
    name = spec.parts["field"].__name__
    _require_shape(f"{name}.velocity(t, l, prepared)", found, (spec.l_dim,), "[l_dim], as l is")


def _check_flow(flow: Any, spec: Any) -> None:
    name, n = spec.parts["flow"].__name__, _unusual(spec)
    extent = flow.extent(float(spec.t0), float(spec.t0 + spec.horizon))
    checks.instance(f"{name}.extent(low, high)", extent, Extent, "an Extent")
    found = jax.eval_shape(lambda: flow(jnp.zeros(spec.l_dim), jnp.zeros(spec.d_dim), jnp.zeros(n), extent))
    checks.instance(f"{name}(l0, d, t, extent)", found, Path, "a Path(states, ok)")
    _require_shape(f"{name}(l0, d, t, extent).states", found.states, (n, spec.l_dim), "[times, l_dim]")
    _require_shape(f"{name}(l0, d, t, extent).ok", found.ok, (n,), "[times], true or false", jnp.bool_)


def _check_decoder(decoder: Any, likelihood: Any, spec: Any) -> None:
    name, n = spec.parts["decoder"].__name__, _unusual(spec)
    found = jax.eval_shape(lambda: decoder(jnp.zeros((n, spec.l_dim)), jnp.zeros(spec.d_dim), jnp.zeros(n)))
    raw = likelihood.num_raw(spec.channels)
    _require_shape(f"{name}(l, d, t)", found, (n, raw), f"[times, {raw}], the raw numbers that the likelihood takes")


def _check_likelihood(likelihood: Any, spec: Any) -> None:
    name, n, channels = spec.parts["likelihood"].__name__, _unusual(spec), spec.channels
    raw = likelihood.num_raw(channels)
    checks.require(
        isinstance(raw, int) and raw > 0,
        f"`{name}.num_raw({channels})` is {checks.shown(raw)}; expected how many numbers it takes.",
    )
    found = jax.eval_shape(lambda: likelihood(jnp.zeros((n, raw))))
    checks.instance(f"{name}(raw)", found, AbstractDistribution, "a distribution (AbstractDistribution)")
    checks.require(
        not likelihood.normal or isinstance(found, Normal),
        f"`{name}.normal` is True, but `{name}(raw)` is {_a(type(found).__name__)}. Set it for likelihoods that return a Normal.",
    )
    for path, leaf in jax.tree_util.tree_flatten_with_path(found)[0]:
        _require_shape(f"{name}(raw){jax.tree_util.keystr(path)}", leaf, (n, channels), "[times, channels], as the observations")
    key, y, q = jr.key(0), jnp.zeros((n, channels)), jnp.zeros(())
    made = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), found)
    gives = {
        "mean": (lambda made: made.mean, (n, channels)),
        "std": (lambda made: made.std, (n, channels)),
        "log_prob(y)": (lambda made: made.log_prob(y), (n, channels)),
        "sample(key)": (lambda made: made.sample(key), (n, channels)),
        "mixture_quantile(q)": (lambda made: made.mixture_quantile(q), (channels,)),
    }
    for what, (method, shape) in gives.items():
        _require_shape(f"{name}(raw).{what}", jax.eval_shape(method, made), shape, "elementwise, as its parameters are")


def _unusual(spec: Any) -> int:
    """A number of points that is no size of the spec, so that axes in the wrong order are noticed."""
    return 1 + spec.z_dim + spec.r_dim + spec.h_dim + 4 * spec.channels


def _require_shape(what: str, found: Any, shape: tuple[int, ...], expected: str, dtype: Any = jnp.floating) -> None:
    came = getattr(found, "shape", None)
    checks.require(came is not None, f"`{what}` is {_a(type(found).__name__)}; expected an array {expected}.")
    checks.require(came == shape, f"`{what}` has shape {came}; expected {shape}: {expected}.")
    checks.require(
        bool(jnp.issubdtype(found.dtype, dtype)),
        f"`{what}` is of type {found.dtype}; expected {dtype.__name__} numbers: {expected}.",
    )


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
