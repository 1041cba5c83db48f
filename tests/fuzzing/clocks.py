"""A wall clock that jumps by decades whenever it is asked: nothing expires, and no checkpoint is lost or written too soon.

The clock is a real one, for a real process: a small library is put before libc's own, and lies about the time of day alone.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from .outcomes import FAILURE, REFUSED, RIGHT

JUMPING = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
    static long calls;
    return (__sync_fetch_and_add(&calls, 1) * 7919 % 5 - 2) * 473040000L;
}

int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && id == CLOCK_REALTIME) at->tv_sec += jump();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""
COMPILER = shutil.which("cc") or shutil.which("gcc")


def clock_jumps(seed: int, count: int) -> Counter:
    """Series and checkpoints, in a process whose wall clock jumps."""
    if COMPILER is None or sys.platform != "linux":
        return Counter({REFUSED: count})
    with tempfile.TemporaryDirectory() as root:
        source, library = Path(root, "jumping.c"), Path(root, "jumping.so")
        source.write_text(JUMPING)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        command = [sys.executable, "-m", "fuzzing.clocks", str(seed), str(count), root]
        path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "LD_PRELOAD": str(library), "JAX_PLATFORMS": "cpu"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return Counter({f"{FAILURE}: {done.stderr[-300:]!r}": 1})
    return Counter(json.loads(done.stdout.splitlines()[-1]))


def _inside(seed: int, count: int, root: Path) -> Counter:
    """The same, in that process."""
    import jax.random as jr

    import odeprocess as odp
    from cases import untrained
    from odeprocess.serving.http.limits import Limits
    from odeprocess.serving.http.schemas import NewSeries
    from odeprocess.serving.http.served_model import ServedModel
    from odeprocess.serving.http.service import Service
    from odeprocess.serving.http.sqlite_store import SeriesStore
    from odeprocess.training.checkpoints import Checkpoints

    told = [time.time() for _ in range(5)]
    assert max(told) - min(told) > 10 * 365 * 86_400, "the clock does not jump"
    rng, found = random.Random(seed), Counter()
    spec = odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4)
    served_model = ServedModel.of("lines", untrained(spec, odp.data.lines.sample(4, key=jr.key(0))))
    service = Service({"lines": served_model}, SeriesStore(root / "series.db"), Limits(idle_seconds=3600.0))
    brief = Service({"lines": served_model}, SeriesStore(None), Limits(idle_seconds=0.01))
    rare, often = (Checkpoints(root / name, {"seeds": [0]}, every) for name, every in (("rare", 3600.0), ("often", 0.0)))
    kept: set[str] = set()
    for i in range(count):
        kind, good = rng.randrange(4), False
        if kind == 0:
            name = f"series-{i}"
            service.open(NewSeries(id=name))
            kept.add(name)
            good = service.delete_idle() == []
        elif kind == 1:
            good = service.delete_idle() == [] and set(service.entries) == kept
        elif kind == 2:
            brief.open(NewSeries(id="brief"))
            time.sleep(0.02)
            good = brief.delete_idle() == ["brief"]
        else:
            rare.save(i, lambda i=i: {"x": np.full(2, float(i))}, finished=False)
            often.save(i, lambda i=i: {"x": np.full(2, float(i))}, finished=False)
            newest = often.restored(lambda arrays: arrays["x"][0], otherwise=-1.0, resume=True)
            good = not (root / "rare").exists() and newest == i
        found[RIGHT if good else f"{FAILURE}: kind {kind}"] += 1
    return found


if __name__ == "__main__":
    print(json.dumps(_inside(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
