"""Model folders: atomic under kills and full disks, and nothing damaged or foreign is accepted."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import odeprocess as odp
from cases import model
from odeprocess.posterior.model_folder import card_digest

SAVER = """
import sys
sys.path.insert(0, {tests!r})
from cases import model
folder, names = sys.argv[1], ("ndp", "np")
model(names[0]).save(folder)
print("ready", flush=True)
while True:
    for name in names:
        model(name).save(folder)
"""

FULL_DISK = """
import resource, sys
sys.path.insert(0, {tests!r})
from cases import model
wide = model("nd2p")
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
try:
    wide.save(sys.argv[1])
except OSError as error:
    print("refused:", error)
"""


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text.format(tests=str(Path(__file__).parents[1]))]


def test_a_kill_at_any_moment_leaves_a_sound_model(tmp_path):
    folder = tmp_path / "model"
    for attempt in range(3):
        child = subprocess.Popen([*script(SAVER), str(folder)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        time.sleep(random.Random(attempt).uniform(0.0, 0.4))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert odp.load(folder).spec.variant in ("ndp", "np")


def test_a_full_disk_leaves_the_old_model(tmp_path):
    model("ndp").save(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    done = subprocess.run([*script(FULL_DISK), str(tmp_path)], capture_output=True, text=True, check=True)
    assert "refused: [Errno 27]" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert odp.load(tmp_path).spec.variant == "ndp"


def test_saving_again_replaces_and_leaves_nothing_behind(tmp_path):
    for name in ("np", "ndp", "ndp"):
        model(name).save(tmp_path)
    assert odp.load(tmp_path).spec.variant == "ndp"
    assert len(list(tmp_path.iterdir())) == 2


def edited(change, sign=True):
    """A change of the card, with its checksum made right again so that later checks are reached."""

    def damage(folder: Path):
        card = json.loads((folder / "model.json").read_text())
        change(card)
        if sign:
            card["sha256"] = card_digest(card)
        (folder / "model.json").write_text(json.dumps(card))

    return damage


def weights(folder: Path) -> Path:
    return next(folder.glob("*.safetensors"))


def flip(folder: Path):
    content = bytearray(weights(folder).read_bytes())
    content[-3] ^= 1
    weights(folder).write_bytes(content)


def foreign_weights(folder: Path):
    other = folder.parent / "other"
    model("np").save(other)
    card = json.loads((folder / "model.json").read_text())
    card["weights"] = json.loads((other / "model.json").read_text())["weights"]
    card["sha256"] = card_digest(card)
    (folder / "model.json").write_text(json.dumps(card))
    (folder / weights(other).name).write_bytes(weights(other).read_bytes())


def pipe(folder: Path):
    path = weights(folder)
    path.unlink()
    os.mkfifo(path)


def twice(path: Path):
    path.write_text(path.read_text().replace('"format"', '"format": 9, "format"'))


def nested(levels: int) -> list:
    inner: list = []
    for _ in range(levels):
        inner = [inner]
    return inner


def unreadable(folder: Path):
    (folder / "model.json").write_text("[" * 100_000)


DAMAGES = {
    "one bit of the weights": (flip, "checksum"),
    "weights cut short": (lambda f: weights(f).write_bytes(weights(f).read_bytes()[:100]), "checksum"),
    "weights much too long": (lambda f: os.truncate(weights(f), 2**40), "1,099,511,627,776 bytes; expected .* at most"),
    "weights that are a pipe": (pipe, "is not an ordinary file"),
    "weights gone": (lambda f: weights(f).unlink(), "weights file .* is missing"),
    "weights of another model": (foreign_weights, "do not fit the spec"),
    "card cut short": (lambda f: (f / "model.json").write_text((f / "model.json").read_text()[:50]), "not valid JSON"),
    "card not text": (lambda f: (f / "model.json").write_bytes(b"\xff\xfe\x00"), "not valid JSON"),
    "card of another program": (lambda f: (f / "model.json").write_text('{"model": 1}'), "not written by odeprocess"),
    "card that is a list": (lambda f: (f / "model.json").write_text("[]"), "not written by odeprocess"),
    "scaling edited by hand": (edited(lambda c: c["scaling"].update(t_scale=9.0), sign=False), "edited: its checksum"),
    "newer format": (edited(lambda c: c.update(format=99, version="9.0")), "odeprocess 9.0 in format 99.*newer odeprocess"),
    "older format": (edited(lambda c: c.update(format=1)), "in format 1.*Train the model anew"),
    "no format": (edited(lambda c: c.pop("format")), "format is None"),
    "spec missing": (edited(lambda c: c.pop("spec")), "model.json` lacks the field.s. spec"),
    "spec with unknown fields": (edited(lambda c: c["spec"].update(colour="red")), "`spec` has the unknown field.*colour"),
    "impossible spec": (edited(lambda c: c["spec"].update(l_dim=-4)), "damaged: `spec`: `l_dim` is -4"),
    "a million million steps": (edited(lambda c: c["spec"]["solver"].update(steps=10**9)), "`steps` is 1000000000; expected"),
    "a type for another": (edited(lambda c: c["spec"].update(timed=1)), "`spec.timed` is 1; expected true or false"),
    "impossible scaling": (edited(lambda c: c["scaling"].update(t_scale=0.0)), "damaged: `scaling`: `t_scale` is 0.0"),
    "scaling of other channels": (edited(lambda c: c["scaling"].update(y_shift=[1.0])), "`scaling.y_shift` is .1.0.; expected 2"),
    "weights elsewhere": (edited(lambda c: c["weights"].update(file="../x")), "`weights.file` is '../x'; expected weights-"),
    "nested too deeply": (unreadable, "not valid JSON"),
    "nested deeply": (edited(lambda c: c["info"].update(x=nested(200))), "nested more than 100 levels"),
    "a field twice": (lambda f: twice(f / "model.json"), "has the field 'format' twice"),
    "calibrations of no kind": (edited(lambda c: c["calibrations"].update(x={})), "`calibrations` is 'x'"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_folders_are_refused_with_a_reason(kind, tmp_path):
    damage, message = DAMAGES[kind]
    folder = tmp_path / "model"
    model("ndp").save(folder)
    damage(folder)
    with pytest.raises(ValueError, match=message):
        odp.load(folder)


def test_what_could_not_be_loaded_again_is_not_saved(tmp_path):
    other = odp.Model(model("nd2p").process, model("ndp").spec, model("ndp").scaling)
    with pytest.raises(ValueError, match="not what its spec builds"):
        other.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ValueError, match="is a file"):
        model("ndp").save(tmp_path / "taken")


def test_no_model_at_all_is_said_plainly(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=r"No model at .*model\.json is not there"):
            odp.load(place)


def test_scaling_survives_to_the_last_bit(tmp_path):
    scaling = odp.Scaling(
        1.7e9 + 0.1, 1 / 3, np.array([np.pi, -1e-300]), np.array([1e300, 5e-324]), np.zeros(1), np.ones(1), "first"
    )
    odp.Model(model("ndp").process, model("ndp").spec, scaling, {"note": "π"}).save(tmp_path)
    again = odp.load(tmp_path)
    assert again.scaling.to_json() == scaling.to_json() and again.info == {"note": "π"}
