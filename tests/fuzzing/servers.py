"""Real servers to be hostile to: `odeprocess serve` in a process of its own, its log, its memory and its open files."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax.random as jr

import odeprocess as odp
from cases import untrained

API = "/api/v1"
STARTING = 180.0  # seconds that a start may take, on the busiest machine


class Server:
    """A server that runs.

    Attributes:
        port: where it listens.
        link: where its playground is, secret and all, if it has one.
    """

    def __init__(self, process: subprocess.Popen, log: Path):
        self.process, self.log = process, log
        began = time.monotonic()
        while "Serving" not in (said := log.read_text(errors="replace")):
            assert process.poll() is None and time.monotonic() - began < STARTING, f"The server did not start: {said[-2000:]}"
            time.sleep(0.05)
        self.port = int(re.search(r"Serving .* at http://\S+?:(\d+)", said)[1])  # pyright: ignore[reportOptionalSubscript]
        found = re.search(r"The playground is at (\S+)", said)
        self.link = found[1] if found else ""
        self._read = len(said)

    def memory(self) -> float:
        """Resident, in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 2**20

    def files(self) -> int:
        """How many are open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def said(self) -> str:
        """What it has written to its log since it was asked last."""
        if self.log.stat().st_size <= self._read:
            return ""
        with self.log.open("rb") as log:
            log.seek(self._read)
            found = log.read()
        self._read += len(found)
        return found.decode(errors="replace")


@contextlib.contextmanager
def started(root: Path, *arguments: object, files: int = 0, size: int = 0, mount: str = "", token: str = "") -> Iterator[Server]:
    """Runs `odeprocess serve` with a small untrained model; `root` is an empty folder, or one in which it was started before.

    `files` limits its open files, and `size` the bytes of each file; `mount` is a folder, a colon, and the bytes of a file
    system in memory that only the server sees there.
    """
    folder, log = root / "lines", root / "log"
    if not folder.exists():
        untrained(odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4), odp.data.lines.sample(4, key=jr.key(0))).save(folder)
    command = [sys.executable, "-m", "odeprocess", "serve", str(folder), *map(str, arguments), "--port", "0"]
    if files:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    if size:
        command = ["sh", "-c", f'ulimit -f {size // 512} && exec "$@"', "sh", *command]
    if mount:
        at, _, most = mount.rpartition(":")
        script = f'mount -t tmpfs -o size={most} tmpfs "$0" && exec "$@"'
        command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, at, *command]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"} | ({"ODEPROCESS_TOKEN": token} if token else {})
    with log.open("wb") as to, subprocess.Popen(command, stderr=to, stdout=to, env=environment) as process:
        try:
            yield Server(process, log)
        finally:
            process.kill()
