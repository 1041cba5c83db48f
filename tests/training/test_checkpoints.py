"""Checkpoints: a run that was stopped anywhere ends as one that never was, and nothing damaged or foreign is gone on from."""

import dataclasses
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import jax
import jax.random as jr
import numpy as np
import pytest

import odeprocess as odp
from odeprocess.common.storage import write_record
from odeprocess.training.checkpoints import Checkpoints, _Damaged, _read, discard

# Small, but with all there is: two seeds, validation that stops the first half early, and a second half.
SINES = odp.data.sines.sample(16, key=jr.key(0))
RUN = {
    "model": odp.variant("np", r_dim=6, z_dim=4, l_dim=4, h_dim=6, prior="learned"),
    "series": SINES,
    "validation": SINES[:4],
    "options": odp.FitOptions(
        epochs=20, em_epochs=20, batch_size=4, learning_rate=0.2, patience=4, validation_draws=2, max_bad_steps=3
    ),
    "seeds": [0, 1],
}

CHILD = """
import sys
sys.path.insert(0, {tests!r})
from test_checkpoints import RUN, numbers
import numpy as np, odeprocess as odp
print("ready", flush=True)
fitted = odp.fit(**RUN, checkpoint=sys.argv[1], checkpoint_every=0, resume=True, progress=lambda note: print(note, flush=True))
np.savez(sys.argv[2], **numbers(fitted))
"""

FULL_DISK = """
import resource, sys, warnings
from pathlib import Path
import numpy as np
from odeprocess.training.checkpoints import Checkpoints
keeper = Checkpoints(Path(sys.argv[1]), {}, 0.0)
assert keeper.restored(lambda arrays: "found", otherwise="", resume=True) == "found"
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with warnings.catch_warnings(record=True) as caught:
    keeper.save(2, lambda: {"x": np.ones(4096)}, finished=False)
print(caught[0].message)
"""


class Stop(Exception):
    pass


def numbers(fitted: odp.Fit) -> dict[str, np.ndarray]:
    """All that must come out the same: everything but the time it took."""
    found = {name: rows for name, rows in vars(fitted.history).items() if name != "seconds"}
    for i, model in enumerate(fitted.models):
        assert model is not None
        found |= {f"{i} leaf {j}": np.asarray(leaf) for j, leaf in enumerate(jax.tree.leaves(model.process))}
        found[f"{i} info"] = np.array(json.dumps(model.info))
    return found | {"best": np.array(fitted.best), "skipped": fitted.skipped}


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array, equal_nan=array.dtype.kind == "f"), name


def stopped_after(epochs: int, folder: Path, **changes) -> None:
    """Runs until a number of epochs are done, then stops as a progress callback can."""
    left = iter(range(epochs - 1, -1, -1))

    def count(note):
        if next(left) == 0:
            raise Stop

    with pytest.raises(Stop):
        odp.fit(**{**RUN, **changes}, checkpoint=folder, checkpoint_every=0, progress=count)


@pytest.fixture(scope="module")
def whole():
    """The run that was never stopped."""
    return odp.fit(**RUN)


@pytest.fixture(scope="module")
def stopped(whole, tmp_path_factory):
    """A run that was stopped after six epochs."""
    folder = tmp_path_factory.mktemp("stopped")
    stopped_after(6, folder)
    return folder


@pytest.fixture
def copied(stopped, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for path in stopped.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_stopped_after_any_epoch_ends_as_one_that_never_was(whole, tmp_path):
    first, second = len(whole.history.loss), len(whole.history.em_loss)
    assert first < 20 and second == 20, "patience must end the first half early for this to say all it should"
    for epochs in (1, first - 1, first, first + 1, first + 12, first + 20):
        folder = tmp_path / str(epochs)
        stopped_after(epochs, folder)
        told = []
        resumed = odp.fit(**RUN, checkpoint=folder, resume=True, progress=told.append)
        assert len(told) == first + second - epochs, "what was done is not done again"
        assert_same(numbers(resumed), numbers(whole))
        assert len(resumed.history.seconds) == first + second


def test_a_finished_run_is_there_at_once_until_it_is_begun_anew_or_discarded(whole, tmp_path):
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    odp.fit(**RUN, checkpoint=tmp_path, checkpoint_every=1e9)
    assert len(files(tmp_path)) == 2, "too early for a checkpoint in between, but what is finished is kept"
    told = []
    assert_same(numbers(odp.fit(**RUN, checkpoint=tmp_path, resume=True, progress=told.append)), numbers(whole))
    assert not told
    odp.fit(**RUN, checkpoint=tmp_path, progress=told.append)
    assert len(told) == len(whole.history.seconds)
    discard(tmp_path)
    assert files(tmp_path) == ["notes.txt"]


def test_a_run_killed_at_random_moments_ends_as_one_that_never_was(whole, tmp_path):
    folder, result, rng, kills = tmp_path / "run", tmp_path / "result.npz", random.Random(0), 0
    command = [sys.executable, "-c", CHILD.format(tests=str(Path(__file__).parent)), str(folder), str(result)]
    for lines in (1, 5, 14):  # while it compiles, in the first half and in the second
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(lines):
            assert child.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.02))
        child.send_signal(signal.SIGKILL)
        kills += child.wait() == -signal.SIGKILL
        child.stdout.close()
    assert kills == 3 and not result.exists()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 1 < len(done.stdout.splitlines()) < len(whole.history.seconds) - 14, "it must have gone on, not begun anew"
    with np.load(result) as found:
        assert_same(dict(found), numbers(whole))


def test_an_unfinished_run_is_not_overwritten(copied):
    before = files(copied)
    with pytest.raises(ValueError, match=r"stopped after 6 epoch\(s\).*resume=True"):
        odp.fit(**RUN, checkpoint=copied)
    assert files(copied) == before and len(before) == 2


OTHERS = {
    "seeds": ({"seeds": [0, 2]}, r"`seeds` is \[0, 2\], and was \[0, 1\]"),
    "options": (
        {"options": dataclasses.replace(RUN["options"], learning_rate=0.1, epochs=30)},
        r"`options.epochs` is 30, and was 20; `options.learning_rate` is 0.1, and was 0.2\.",
    ),
    "sampler": ({"sampler": odp.TaskSampler(context=(1, 4))}, r"`sampler.context` is \[1, 4\], and was"),
    "spec": ({"model": RUN["model"].replace(noise_floor=0.02)}, r"`spec.noise_floor` is 0.02, and was 0.01\."),
    "series": ({"series": SINES[::-1]}, r"another run: `series` holds other data, or scaled otherwise\."),
    "scaling": ({"scaling": odp.Scaling.identity(1)}, "`series` holds other data, or scaled otherwise; `validation` holds"),
    "validation": ({"validation": SINES[1:5]}, r"another run: `validation` holds other data, or scaled otherwise\."),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_and_what_differs_is_named(kind, copied):
    changes, message = OTHERS[kind]
    before = files(copied)
    with pytest.raises(ValueError, match=message):
        odp.fit(**{**RUN, **changes}, checkpoint=copied, resume=True)
    assert files(copied) == before


def test_another_machine_is_told_of_and_gone_on_from(copied, monkeypatch):
    monkeypatch.setattr("odeprocess.training.checkpoints.machine", lambda: {"jax": "0.0.1"})
    with pytest.warns(UserWarning, match=r"written on another machine or with other versions: .*`jax` is '0.0.1', and was"):
        odp.fit(**RUN, checkpoint=copied, resume=True)


DAMAGES = {
    "one bit": lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
    "cut short": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_checkpoint_is_left_out_for_the_one_before_it(kind, copied, whole):
    older, newer = sorted(copied.iterdir())
    newer.write_bytes(DAMAGES[kind](newer.read_bytes()))
    told = []
    with pytest.warns(UserWarning, match=f"{newer.name} is damaged"):
        resumed = odp.fit(**RUN, checkpoint=copied, resume=True, progress=told.append)
    assert len(told) == len(whole.history.seconds) - 5, "the one before was of epoch 5"
    assert_same(numbers(resumed), numbers(whole))
    assert not newer.exists() and older.exists()


def test_any_changed_byte_of_a_checkpoint_is_noticed_or_changes_nothing(copied):
    _, newer = sorted(copied.iterdir())
    content, rng, seen = newer.read_bytes(), random.Random(0), Counter()
    sound = _read(newer)
    header = 8 + int.from_bytes(content[:8], "little")
    for place in [*range(0, header, 3), *rng.sample(range(header, len(content)), 100)]:
        newer.write_bytes(content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :])
        try:
            card, arrays = _read(newer)
        except _Damaged as error:
            assert str(newer) in str(error) and "damaged" in str(error) and "\n" not in str(error)
            seen["refused"] += 1
        else:
            assert card == sound[0]
            assert_same(arrays, sound[1])
            seen["the same"] += 1
    assert seen["refused"] > 100 and seen["the same"] < 5


def test_a_checkpoint_of_other_shapes_is_refused_before_anything_is_built(copied):
    for path in copied.iterdir():
        card, arrays = _read(path)
        write_record(path, card, {**arrays, "history.loss": arrays["history.loss"][:1]})
    with pytest.raises(
        ValueError, match=r"checkpoint-0000006.* does not fit this run: `history.mse_one` is \(6, 2\); expected \(1, 2\)"
    ):
        odp.fit(**RUN, checkpoint=copied, resume=True)


def test_checkpoints_of_an_older_format_are_not_passed_over(tmp_path):
    (tmp_path / "checkpoint-0000006-0123456789abcdef.safetensors").write_bytes(b"of an older version")
    for resume in (True, False):
        with pytest.raises(ValueError, match="holds checkpoints of an older odeprocess"):
            odp.fit(**RUN, checkpoint=tmp_path, resume=resume)
    discard(tmp_path)
    assert not tmp_path.exists()


def test_two_runs_never_train_into_one_folder(whole, tmp_path):
    """A process trains there; this one is refused, whether it is the same run or another, and the first ends as it should."""
    folder, result = tmp_path / "run", tmp_path / "result.npz"
    command = [sys.executable, "-c", CHILD.format(tests=str(Path(__file__).parent)), str(folder), str(result)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(3):
            assert child.stdout.readline()
        child.send_signal(signal.SIGSTOP)
        for changes in ({}, {"seeds": [0, 2]}):
            for resume in (True, False):
                with pytest.raises(ValueError, match=f"Another run is training into {folder}"):
                    odp.fit(**{**RUN, **changes}, checkpoint=folder, resume=resume)
        with pytest.raises(ValueError, match="Another run is training into"):
            discard(folder)
        child.send_signal(signal.SIGCONT)
        child.communicate()
    with np.load(result) as found:
        assert_same(dict(found), numbers(whole))
    assert_same(numbers(odp.fit(**RUN, checkpoint=folder, resume=True)), numbers(whole))


def test_nothing_but_damaged_checkpoints_is_refused(copied):
    for path in copied.iterdir():
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"Every checkpoint in .* is damaged"):
        odp.fit(**RUN, checkpoint=copied, resume=True)


def test_a_full_disk_leaves_the_old_checkpoint_whole(tmp_path):
    Checkpoints(tmp_path, {}, 0.0).save(1, lambda: {"x": np.arange(3)}, finished=False)
    before = files(tmp_path)
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "after epoch 2 could not be written: [Errno 27]" in done.stdout
    assert files(tmp_path) == before
    found = Checkpoints(tmp_path, {}, 0.0).restored(lambda arrays: arrays["x"].tolist(), otherwise=[], resume=True)
    assert found == [0, 1, 2]


def test_two_checkpoints_are_kept_and_leavings_of_killed_writes_go(tmp_path):
    keeper = Checkpoints(tmp_path, {}, 0.0)
    (tmp_path / ".checkpoint-0000001.safetensors.0123456789ab.part.safetensors").write_bytes(b"half")
    for done in range(1, 5):
        keeper.save(done, lambda: {"x": np.zeros(1)}, finished=False)
    assert [name[:18] for name in files(tmp_path)] == ["checkpoint-0000003", "checkpoint-0000004"]


def test_a_run_that_broke_down_leaves_nothing_to_resume(whole, tmp_path):
    bad = odp.Series(SINES.t, np.full(SINES.y.shape, 1e30), SINES.mask, SINES.static)
    changes = {"series": bad, "scaling": odp.Scaling.identity(1)}
    with pytest.raises(odp.TrainingError):
        odp.fit(**{**RUN, **changes}, checkpoint=tmp_path / "run", checkpoint_every=0)
    assert not (tmp_path / "run").exists()


def test_options_of_checkpoints_are_checked(tmp_path):
    with pytest.raises(ValueError, match="`resume` needs `checkpoint`"):
        odp.fit(**RUN, resume=True)
    with pytest.raises(ValueError, match="`checkpoint_every` is -1; expected a number of seconds"):
        odp.fit(**RUN, checkpoint=tmp_path, checkpoint_every=-1)
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ValueError, match="which is a file; expected a folder"):
        odp.fit(**RUN, checkpoint=tmp_path / "taken")
