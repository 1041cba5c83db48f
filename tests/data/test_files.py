"""Public data files: downloaded from a real server, checked, and never half there."""

import functools
import hashlib
import http.server
import io
import threading
import zipfile

import pytest

from odeprocess.data.sources.files import DataFile

CONTENT = b"a small data set" * 100


@pytest.fixture
def server(tmp_path):
    """A server on this machine, and the folder it serves."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None  # pyright: ignore
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("ODEPROCESS_DATA", raising=False)
    monkeypatch.setenv("ODEPROCESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def data_file(*homes: str, content: bytes = CONTENT, **more) -> DataFile:
    return DataFile("small", "small.bin", hashlib.sha256(content).hexdigest(), homes, **more)


def test_a_file_is_downloaded_once_and_read_from_the_cache_after(server, cache):
    folder, address = server
    (folder / "small.bin").write_bytes(CONTENT)
    wanted = data_file(address + "small.bin")
    assert wanted.path().read_bytes() == CONTENT
    (folder / "small.bin").unlink()
    assert wanted.path().read_bytes() == CONTENT
    assert [p.name for p in (cache / "small").iterdir()] == ["small.bin"]


def test_the_second_home_serves_when_the_first_does_not(server):
    folder, address = server
    (folder / "small.bin").write_bytes(CONTENT)
    assert data_file(address + "gone.bin", address + "small.bin").path().read_bytes() == CONTENT


def test_a_wrong_file_is_refused_and_not_kept(server, cache):
    folder, address = server
    (folder / "small.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(OSError, match=r"does not have the published checksum.*set ODEPROCESS_DATA"):
        data_file(address + "small.bin").path()
    assert not [p for p in (cache / "small").rglob("*") if p.is_file()]


def test_a_member_is_taken_out_of_its_archive(server):
    folder, address = server
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as whole:
        whole.writestr("inside.bin", CONTENT)
        whole.writestr("other.txt", b"not wanted")
    (folder / "small.zip").write_bytes(archive.getvalue())
    found = data_file(address + "small.zip", content=archive.getvalue(), member="inside.bin").path()
    assert found.name == "inside.bin" and found.read_bytes() == CONTENT


def test_a_folder_of_your_own_is_used_and_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("ODEPROCESS_DATA", str(tmp_path))
    wanted = data_file("http://127.0.0.1:9/small.bin")
    with pytest.raises(FileNotFoundError, match="unset the variable to have it downloaded"):
        wanted.path()
    (tmp_path / "small").mkdir()
    path = tmp_path / "small" / "small.bin"
    path.write_bytes(CONTENT)
    assert wanted.path() == path
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(ValueError, match="is damaged: its checksum is not that of the published file"):
        wanted.path()
