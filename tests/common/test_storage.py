"""Storage: no kill, full disk or second writer leaves half a file, and no changed byte is used unnoticed."""

import os
import random
import resource
import time
import warnings
from pathlib import Path

import jax.random as jr
import numpy as np
import pandas as pd
import pytest

import odeprocess as odp
from cases import model as case_model
from fuzzing import files, processes
from fuzzing.outcomes import FAILURE, REFUSED
from fuzzing.processes import CHILDREN
from odeprocess.common.storage import locked
from odeprocess.experiments.result_files import read_json, write_json
from odeprocess.forecasting.read_table import read
from odeprocess.forecasting.write_table import write


def failures(found) -> list[str]:
    return [came for came in found if came.startswith(FAILURE)]


@pytest.mark.parametrize("kind", ["models", "forecasters", "streams", "checkpoints", "stores"])
def test_damaged_files_are_refused_in_one_line_or_change_nothing(kind):
    """Bits, bytes, cuts, and what a stranger writes with a right checksum; `make fuzz` makes a thousand times as many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checkpoints from other machines
        found = getattr(files, f"damaged_{kind}")(seed=0, count=300)
    assert not failures(found) and found[REFUSED] > (100 if kind == "stores" else 200), found  # pages are half empty


def test_two_processes_that_save_into_one_folder_leave_one_of_the_two_whole():
    assert not failures(found := processes.pairs_saving(seed=0, count=2)), found


@pytest.mark.slow
def test_two_processes_that_train_with_one_folder_do_so_one_after_the_other():
    assert not failures(found := processes.pairs_training(seed=0, count=2)), found


FRAME = pd.DataFrame({"id": ["a", "b"] * 500, "t": np.arange(1000.0), "y": np.arange(1000.0) ** 2})


def write_stream(path: Path) -> None:
    stream = odp.Stream(case_model("np"), key=jr.key(0))
    stream.open("a", static=[0.0])
    stream.save(path)


WRITERS = {  # every kind of file, but for models, checkpoints and the server's store, which have tests of their own
    "table.csv": (lambda path: write(path, FRAME), lambda path: len(read(path)) == 1000),
    "table.csv.gz": (lambda path: write(path, FRAME), lambda path: len(read(path)) == 1000),
    "table.parquet": (lambda path: write(path, FRAME), lambda path: len(read(path)) == 1000),
    "record.json": (
        lambda path: write_json(path, {"rows": [{"x": 1.0}] * 500}),
        lambda path: len(read_json(path)["rows"]) == 500,
    ),
    "stream": (write_stream, lambda path: odp.Stream.load(path, case_model("np")).ids == ["a"]),
}


def write_again_and_again(name: str, path: Path) -> None:
    while True:
        WRITERS[name][0](path)


def write_on_a_full_disk(name: str, path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    try:
        WRITERS[name][0](path)
    except OSError:
        os._exit(3)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_there_whole_whenever_its_writer_is_killed_and_however_full_the_disk_is(name, tmp_path):
    path, (_, is_whole) = tmp_path / name, WRITERS[name]
    child = CHILDREN.Process(target=write_again_and_again, args=(name, path))
    child.start()
    while not path.exists():
        assert child.is_alive()
        time.sleep(0.01)
    for _ in range(5):
        time.sleep(random.Random(name).uniform(0.0, 0.05))
        assert is_whole(path)
    child.kill()
    child.join()
    assert is_whole(path)
    child = CHILDREN.Process(target=write_on_a_full_disk, args=(name, path))
    child.start()
    child.join()
    assert child.exitcode == 3 and is_whole(path)


def hold(folder: Path, held) -> None:
    with locked(folder):
        held.set()
        time.sleep(60)


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path):
    folder, held = tmp_path / "folder", CHILDREN.Event()
    child = CHILDREN.Process(target=hold, args=(folder, held))
    child.start()
    assert held.wait(30)
    with pytest.raises(TimeoutError, match=f"Another process is writing to {folder}"), locked(folder, wait=0.1):
        pass
    child.kill()
    child.join()
    with locked(folder, wait=1.0):
        pass
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda card: card.pop("layout"), "info.forecaster` lacks the field.s. layout"),
        (lambda card: card["layout"]["columns"].update(values="level"), "info.forecaster.layout.columns.values` is 'level'"),
        (lambda card: card["layout"]["columns"].update(values=["level"]), "layout.columns.values` does not fit the model"),
        (lambda card: card["layout"]["clock"].update(kind="moon"), "layout.clock.kind` is 'moon'; expected one of"),
        (lambda card: card["layout"]["clock"].update(zone="Mars/Olympus"), "layout.clock.zone` does not fit"),
        (lambda card: card["layout"]["transforms"][0].update(unit=-1.0), "layout.transforms` does not fit"),
        (lambda card: card["layout"].update(ties="maybe"), "layout.ties` does not fit"),
        (lambda card: card["params"].update(draws=10**9), "`draws` is 1000000000; expected a whole number from 1"),
        (lambda card: card["params"].update(colour="red"), "params` has the unknown field"),
        (lambda card: card.update(notes=3), "info.forecaster.notes` is 3; expected a list"),
    ],
)
def test_what_a_forecaster_keeps_is_checked_field_by_field(change, field, tmp_path, odd_forecaster):
    folder = odd_forecaster(change)
    with pytest.raises(ValueError, match=field) as caught:
        odp.Forecaster.load(folder)
    assert str(folder / "model.json") in str(caught.value)


@pytest.fixture
def odd_forecaster(tmp_path):
    """Writes a forecaster's folder with a change of what it keeps, and a right checksum."""
    import json

    from odeprocess.posterior.model_folder import card_digest
    from table_cases import untrained

    def make(change) -> Path:
        untrained().save(tmp_path / "model")
        path = tmp_path / "model" / "model.json"
        card = json.loads(path.read_text())
        change(card["info"]["forecaster"])
        card["sha256"] = card_digest(card)
        path.write_text(json.dumps(card))
        return tmp_path / "model"

    return make
