"""Bad input: each kind gets one message that says what came, what was expected and what to do; nothing is compiled."""

import jax
import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from cases import untrained
from odeprocess.inference import batched

KEY, NAN, INF = jr.key(0), float("nan"), float("inf")

CONTEXTS = {
    "a NaN time": (([0.0, NAN], [1.0, 2.0]), "1 NaN or infinite time.*index 1.*drop those"),
    "an infinite time": (([0.0, INF], [1.0, 2.0]), "NaN or infinite time"),
    "an infinite value": (([0.0, 1.0], [1.0, INF]), "infinite at index.*NaN for a missing one"),
    "too few values": (([0.0, 1.0], [1.0]), r"`t` has shape \(2,\) but `y` has shape \(1,\)"),
    "too many channels": (([0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]]), "2 channel.*the model has 1"),
    "times in three dimensions": ((np.zeros((2, 2, 2)), np.zeros((2, 2, 2))), "`t` has 3 dimensions"),
    "words": ((["now"], [1.0]), "could not be read as numbers"),
    "ragged numbers": (([0.0, [1.0, 2.0]], [1.0, 2.0]), "rows of different lengths.*list with an array for each"),
    "a NaN time in a batch": (([[0.0], [1.0, NAN]], [[1.0], [1.0, 2.0]]), "`t` of series 1 holds 1 NaN"),
    "fewer series of values": (([[0.0], [1.0]], [[1.0]]), "`t` holds 2 series but `y` holds 1"),
    "lengths that differ in a batch": (([[0.0], [1.0, 2.0]], [[1.0], [1.0]]), "of series 1"),
    "dates": ((np.array(["2020-01-01"], "datetime64[D]"), [1.0]), "dates.*timedelta64"),
    "nothing for a value": (([0.0, 1.0], [1.0, None]), "NaN for what is missing"),
    "a number for a batch": (([[0.0], [1.0]], 3.0), "list with an array for each series"),
    "values beyond all scales": (([0.0], [1e300]), "too large"),
    "complex numbers": (([0.0], [1j]), "could not be read as numbers"),
}

QUERIES = {
    "a NaN time": (lambda p: p.mean([0.0, NAN]), "`times` holds 1 NaN"),
    "times of a batch": (lambda p: p.mean(np.zeros((2, 3))), r"`times` has shape \(2, 3\); expected \[m\]"),
    "no draws": (lambda p: p.sample([0.0], 0), "`n` is 0; expected a whole number from 1"),
    "half a draw": (lambda p: p.sample([0.0], 2.5), "`n` is 2.5"),
    "ragged times": (lambda p: p.mean([[0.0], [1.0, 2.0]]), "rows of different lengths"),
    "no quantiles": (lambda p: p.quantile([0.0], []), "`q` is \\[\\]"),
    "a quantile of 0": (lambda p: p.quantile([0.0], 0.0), "between 0 and 1"),
    "a level of 90": (lambda p: p.interval([0.0], 90), "0 < level < 1"),
    "an unknown kind": (lambda p: p.std([0.0], of="everything"), "`of` is 'everything'"),
    "an unknown method": (lambda p: p.log_prob([0.0], [0.0], method="magic"), "`method` is 'magic'"),
    "an update of a batch": (lambda p: p.update([[0.0], [1.0]], [[0.0], [1.0]]), "this posterior is of one series"),
    "a time in another unit": (lambda p: p.mean([1.7e9]), "unit of the times"),
}


@pytest.mark.parametrize("kind", CONTEXTS)
def test_bad_contexts_are_refused_before_compilation(sines_model, kind):
    arguments, message = CONTEXTS[kind]
    compiled = batched.observe._cache_size()
    with pytest.raises(ValueError, match=message):
        sines_model.condition(*arguments, key=KEY)
    assert batched.observe._cache_size() == compiled


@pytest.mark.parametrize("kind", QUERIES)
def test_bad_queries_are_refused(sines_model, kind):
    call, message = QUERIES[kind]
    posterior = sines_model.condition([0.0], [0.5], key=KEY)
    compiled = batched.decode._cache_size()
    with pytest.raises(ValueError, match=message):
        call(posterior)
    assert batched.decode._cache_size() == compiled


def test_ties_and_any_order_are_fine(sines_model):
    tied = sines_model.condition([1.0, 0.0, 1.0], [0.8, 0.1, 0.9], key=KEY).mean([0.5])
    sorted_ = sines_model.condition([0.0, 1.0, 1.0], [0.1, 0.9, 0.8], key=KEY).mean([0.5])
    np.testing.assert_allclose(tied, sorted_, atol=1e-5)


def test_static_covariates_and_missing_channels_are_checked(two_channel_model, sines_model):
    t, y = [0.1, 0.2], [[1.0, 0.5], [1.1, 0.6]]
    with pytest.raises(ValueError, match="trained with 2"):
        two_channel_model.condition(t, y, key=KEY)
    with pytest.raises(ValueError, match="NaN or infinite values; fill them in"):
        two_channel_model.condition(t, y, key=KEY, static=[1.0, NAN])
    complete = untrained(odp.variant("np"), odp.data.lotka_volterra.sample(4, key=KEY))
    with pytest.raises(ValueError, match=r"lacks a channel at index 1,.*missing=True"):
        complete.condition(t, [[1.0, 0.5], [NAN, 0.6]], key=KEY)
    with pytest.raises(ValueError, match="Leave `static` out"):
        sines_model.condition([0.0], [0.0], key=KEY, static=[1.0])
    hidden = np.ma.array([1.0, 2.0, 99.0], mask=[0, 0, 1])
    assert odp.make_series(np.arange(3), hidden).mask[0, :, 0].tolist() == [True, True, False]
    with pytest.raises(ValueError, match="expected one random key"):
        sines_model.condition([0.0], [0.0], key=3)


def series(**changes):
    good = {"t": np.zeros((2, 3)), "y": np.ones((2, 3, 1)), "mask": np.ones((2, 3, 1), bool), "static": np.zeros((2, 0))}
    return odp.Series(**{**good, **changes})


FITS = {
    "arrays": (lambda: odp.fit(np.zeros((3, 4)), "ndp"), "make one with make_series"),
    "an unknown variant": (lambda: odp.fit(series(), "gp"), "`model` is 'gp'; expected 'auto', the name of a variant"),
    "an empty series": (lambda: odp.fit(odp.make_series([[0.0], []], [[1.0], []]), "ndp"), "1 of 2 series.*first series 1"),
    "NaN under the mask": (lambda: odp.fit(series(y=np.full((2, 3, 1), NAN)), "ndp"), "not masked"),
    "channels that differ": (lambda: odp.fit(series(), odp.variant("ndp", channels=2)), "`channels` of the spec is 2"),
    "a late start": (lambda: odp.fit(odp.make_series([0.0, 1.0], [1.0, 2.0]), odp.variant("ndp", t0=0.5)), "use an earlier one"),
    "no epochs": (lambda: odp.FitOptions(epochs=0), "`epochs` is 0"),
    "a share of more than all": (lambda: odp.FitOptions(kl_warm_up=2.0), "`kl_warm_up` is 2.0; expected a share"),
    "no KL to warm up": (
        lambda: odp.fit(series(), "np", options=odp.FitOptions(kl_warm_up=0.5, objective="likelihood")),
        "'likelihood' has no KL to warm up",
    ),
    "an unknown aggregation": (lambda: odp.variant("ndp", aggregation="max"), "`aggregation` is 'max'; expected one of 'mean'"),
    "too many waves": (lambda: odp.variant("ndp", waves=99), "`waves` is 99; expected a whole number from 0 to 16"),
    "waves of an image": (lambda: odp.variant("image-np", waves=2), "takes the time as it is"),
    "an unknown optimiser": (lambda: odp.FitOptions(optimiser="sgd"), "`optimiser` is 'sgd'"),
    "the same seed twice": (lambda: odp.fit(series(), "ndp", seeds=[1, 1]), "trains the same model twice"),
    "words for seeds": (lambda: odp.fit(series(), "ndp", seeds="abc"), "`seeds` is 'abc'"),
    "an unknown option": (lambda: odp.variant("ndp", width=3), "Unknown option.*'width'.*h_dim"),
    "l larger than z": (lambda: odp.variant("ndp", l_dim=99), "l_dim ≤ z_dim"),
    "an odd second order": (
        lambda: odp.variant("nd2p", l_dim=3),
        "even number",
    ),
    "a spec with gaps": (lambda: odp.variant("ndp").build(key=KEY), "`fit` sets them from the data"),
    "no floor": (lambda: odp.variant("ndp", latent_floor=0.0), "`latent_floor` is 0.0"),
    "no series": (lambda: odp.make_series(np.zeros((0, 3)), np.zeros((0, 3))), "no series"),
    "a row of covariates missing": (
        lambda: odp.make_series([[0.0], [1.0]], [[0.0], [1.0]], [[1.0]]),
        "one row of covariates a series",
    ),
    "partly missing, told not": (
        lambda: odp.fit(odp.make_series([0.0, 1.0], [[1.0, NAN], [1.0, 2.0]]), odp.variant("np", missing=False)),
        "missing=False",
    ),
    "no dynamics to solve": (lambda: _np_model().with_solver(odp.Grid()), "nothing to solve"),
    "validation of other channels": (
        lambda: odp.fit(series(), "np", validation=series(y=np.ones((2, 3, 2)), mask=np.ones((2, 3, 2), bool))),
        "scaling is for 1 channel",
    ),
    "an option that there is not": (
        lambda: odp.fit(series(), "np", options={"epoch": 3}),
        "`options` holds 'epoch'; expected names among",
    ),
    "a sampler by name": (lambda: odp.fit(series(), "np", sampler="prefix"), "expected a TaskSampler"),
    "a scaling by name": (lambda: odp.fit(series(), "np", scaling="first"), "see also `origin`"),
    "a scaling for other channels": (lambda: odp.fit(series(), "np", scaling=odp.Scaling.identity(3)), "for 3 channel"),
    "a key for a seed": (lambda: odp.fit(series(), "np", seeds=KEY), "expected a whole number"),
    "a negative seed": (lambda: odp.fit(series(), "np", seeds=-1), "from 0"),
    "a solver by name": (lambda: odp.variant("ndp", solver="rk4"), "expected Grid"),
    "the class of a solver": (lambda: odp.variant("ndp", solver=odp.Grid), "made with its options"),
    "an unknown noise": (lambda: odp.variant("ndp", noise="fixd"), "`noise` is 'fixd'"),
    "a negative horizon": (lambda: odp.variant("ndp", horizon=-1.0), "`horizon` is -1.0"),
    "a negative floor": (lambda: odp.variant("ndp", noise_floor=-1.0), "`noise_floor`"),
    "one channel to hide": (lambda: odp.fit(series(), "np", sampler=odp.TaskSampler(split="channel")), "the series have one"),
    "a first observation not given": (lambda: odp.fit(series(), odp.variant("ndp", initial="first")), "first_point=True"),
    "probabilities of 7": (
        lambda: odp.fit(series(y=np.full((2, 3, 1), 7.0)), odp.variant("np", likelihood="bernoulli")),
        "from 0 to 1",
    ),
    "values beyond all scales": (lambda: odp.fit(odp.make_series([0.0, 1.0], [1e300, -1e300]), "np"), "rescaled by hand"),
}


def _np_model():
    spec = odp.variant("np", channels=1, static_dim=0, missing=False, t0=0.0, horizon=1.0)
    return odp.Model(jax.eval_shape(lambda: spec.build(key=KEY)), spec, odp.Scaling.identity(1))


@pytest.mark.parametrize("kind", FITS)
def test_bad_fits_are_refused(kind):
    call, message = FITS[kind]
    with pytest.raises(ValueError, match=message):
        call()
