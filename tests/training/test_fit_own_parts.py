"""Models with parts that a user wrote: trained, calibrated, saved, loaded elsewhere, stopped and resumed."""

import json
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
import own_parts
from odeprocess.posterior.model_folder import card_digest

SPEC = odp.variant("ndp-l", **own_parts.SIZES, **own_parts.PARTS)
OPTIONS = odp.FitOptions(epochs=2, batch_size=50, learning_rate=3e-3)
TIMES = [0.5, 3.0, 9.0]
OTHER_PROCESS = """
import sys
sys.path.insert(0, {tests!r})
import jax, numpy as np, odeprocess as odp
{imports}
model = odp.load(sys.argv[1], parts=[{parts}])
posterior = model.condition([1.0, 2.0, 4.0], [0.5, 0.1, -0.4], key=jax.random.key(2))
found = {{"mean": posterior.mean({times}), "interval": posterior.interval({times}), "sample": posterior.sample({times}, n=3)}}
np.savez(sys.argv[2], **{{name: np.asarray(x) for name, x in found.items()}})
"""


@pytest.fixture(scope="module")
def trained() -> odp.Fit:
    """Two seeds, each trained on 100 series."""
    return odp.fit(own_parts.pendulums(100, 0), SPEC, options=OPTIONS, seeds=[3, 4])


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory) -> Path:
    """A calibrated model."""
    place = tmp_path_factory.mktemp("own") / "model"
    trained.model.calibrated(own_parts.pendulums(8, 1), draws=8).save(place)
    return place


def test_every_seed_trains_the_parts(trained):
    assert np.isfinite(trained.history.loss).all() and len(trained.models) == 2
    before = SPEC.resolve(own_parts.pendulums(100, 0)).build(key=jr.key(0))
    damping = {float(before.flow.field.log_damping), *(float(m.process.flow.field.log_damping) for m in trained.models)}
    scales = {float(m.process.likelihood.log_scale[0]) for m in trained.models}
    assert len(damping) == 3 and len(scales) == 2


def test_calibration_widens_the_users_distribution(trained, folder):
    model = odp.load(folder, parts=own_parts.PARTS.values())
    assert set(model.calibrations) == {"amortised"}
    given = {"t": [1.0, 2.0, 4.0], "y": [0.5, 0.1, -0.4], "key": jr.key(2)}
    plain, posterior = trained.model.condition(**given), model.condition(**given)
    np.testing.assert_allclose(posterior.mean(TIMES), plain.mean(TIMES), rtol=1e-4, atol=1e-5)
    assert not np.allclose(posterior.std(TIMES), plain.std(TIMES))
    low, high = posterior.interval(TIMES)
    assert np.all(low < high) and np.isfinite(posterior.log_prob(TIMES, np.zeros(3))).all()
    assert posterior.inference == "amortised"


def test_another_process_predicts_the_same_bit_by_bit(folder, tmp_path):
    names = ", ".join(part.__name__ for part in own_parts.PARTS.values())
    fields = {"tests": str(Path(own_parts.__file__).parent), "parts": names, "times": TIMES}
    script = OTHER_PROCESS.format(imports=f"import conftest\nfrom own_parts import {names}", **fields)
    subprocess.run([sys.executable, "-c", script, str(folder), str(tmp_path / "found.npz")], check=True)
    model = odp.load(folder, parts=own_parts.PARTS.values())
    posterior = model.condition([1.0, 2.0, 4.0], [0.5, 0.1, -0.4], key=jr.key(2))
    expected = {"mean": posterior.mean(TIMES), "interval": posterior.interval(TIMES), "sample": posterior.sample(TIMES, n=3)}
    with np.load(tmp_path / "found.npz") as found:
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], np.asarray(value), err_msg=name)


def test_without_a_part_the_error_says_what_to_pass(folder):
    message = r"the field `Pendulum` and the decoder `Bob`.*Pass the classes: odp.load\(folder, parts=\[Pendulum, Bob, Student"
    with pytest.raises(ValueError, match=message):
        odp.load(folder)
    with pytest.raises(ValueError, match="not odeprocess's own: the likelihood `StudentTLikelihood`"):
        odp.load(folder, parts=[own_parts.Pendulum, own_parts.Bob])
    with pytest.raises(ValueError, match="`parts` has two parts called Bob"):
        odp.load(folder, parts=[own_parts.Bob, type("Bob", (own_parts.Bob,), {})])
    spare = odp.load(folder, parts=[own_parts.Decay, *own_parts.PARTS.values()])
    assert isinstance(spare.process.decoder, own_parts.Bob)


class _Heavier(own_parts.Pendulum):
    """Another class of the same name, with weights of other shapes."""

    def __init__(self):
        self.log_damping = jnp.zeros(3)

    def velocity(self, t, l, prepared):
        return l * self.log_damping[0]


class _NotAField(own_parts.Bob):
    """Another class of the same name, which is no field."""


_Heavier.__name__ = _NotAField.__name__ = "Pendulum"


@pytest.mark.parametrize(
    "part, message",
    [
        (
            _Heavier,
            r"another field `Pendulum` than the one that was passed: `log_damping` is \(\) in the folder and \(3,\) in the",
        ),
        (_NotAField, "`field` is `Pendulum`, which makes a Pendulum; expected a part that is an AbstractField"),
    ],
)
def test_another_part_of_the_same_name_is_refused(part, message, folder):
    with pytest.raises(ValueError, match=message) as caught:
        odp.load(folder, parts=[part, own_parts.Bob, own_parts.StudentTLikelihood])
    assert "damaged" not in str(caught.value)


@pytest.mark.parametrize(
    "value, message",
    [
        ({"part": "this"}, "the field `this`"),  # a module that prints when it is imported
        ({"part": "os.system"}, "damaged: `spec.field` is .* expected the name of a part"),
        ({"part": "x" * 65}, "damaged: `spec.field` is .* expected the name of a part"),
        ({"part": 3}, "damaged: `spec.field`"),
        ({"part": "Pendulum", "module": "this"}, "damaged: `spec.field`"),
        ("this", "damaged: `spec`: `field` is 'this'"),
        ([1], "damaged: `spec`: `field`"),
    ],
)
def test_a_folder_never_causes_an_import(value, message, folder, tmp_path):
    card = json.loads((folder / "model.json").read_text())
    card["spec"]["field"] = value
    card["sha256"] = card_digest(card)
    (tmp_path / "model.json").write_text(json.dumps(card))
    before = set(sys.modules)
    with pytest.raises(ValueError, match=message):
        odp.load(tmp_path, parts=own_parts.PARTS.values())
    assert "this" not in set(sys.modules) - before


def test_a_stopped_training_goes_on_as_if_it_had_not_been(trained, tmp_path):
    class Stopped(Exception):
        """In place of a kill."""

    def stop(note):
        raise Stopped

    series, place = own_parts.pendulums(100, 0), tmp_path / "run"
    run = {"options": OPTIONS, "seeds": [3, 4], "checkpoint": place, "checkpoint_every": 0.0}
    with pytest.raises(Stopped):
        odp.fit(series, SPEC, progress=stop, **run)
    assert list(place.iterdir())
    other = SPEC.replace(field=type("Swing", (own_parts.Pendulum,), {}))
    with pytest.raises(ValueError, match=r"another run: `spec\.field\.part` is 'Swing', and was 'Pendulum'"):
        odp.fit(series, other, resume=True, **run)
    again = odp.fit(series, SPEC, resume=True, **run)
    assert eqx.tree_equal(again.models[0].process, trained.models[0].process)
    assert eqx.tree_equal(again.models[1].process, trained.models[1].process)


def test_parts_put_in_by_hand_are_not_saved_and_the_error_says_how_they_would_be(trained, tmp_path):
    model = trained.model
    process = eqx.tree_at(lambda p: p.decoder, model.process, own_parts.Bob(model.spec))
    by_hand = odp.Model(process, model.spec.replace(decoder=None), model.scaling)
    with pytest.raises(ValueError, match=r"not what its spec builds.*variant\(…, field=Pendulum\)"):
        by_hand.save(tmp_path / "model")


def test_gradients_reach_the_parts():
    process = SPEC.resolve(own_parts.pendulums(5, 0)).build(key=jr.key(0))
    gradient = jax.grad(lambda p: p.predict(jnp.ones(3), jnp.linspace(-1.0, 1.0, 4))[0].log_prob(jnp.zeros((4, 1))).sum())(
        process
    )
    own = (gradient.flow.field.log_damping, gradient.decoder.log_length, gradient.likelihood.log_scale)
    assert all(np.all(np.asarray(x) != 0) for x in own)
