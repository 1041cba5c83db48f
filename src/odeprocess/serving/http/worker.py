"""The worker: one thread that does all work on models and store, while the server goes on listening.

Whatever waits when it is free is done together and committed once, so many clients share one write to the disk. An
answer goes out after the commit.
"""

import asyncio
import dataclasses
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from .disk_space import Damaged, problem
from .errors import Refused
from .service import Service

TOGETHER = 32  # jobs in one transaction
LOG = logging.getLogger("odeprocess.serving.http")
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """Something to be done, and who waits for it. If it `frees` space, it is done on a full disk, too."""

    act: Callable[[Service], Any]
    future: Future
    frees: bool


class Worker:
    """The thread. `start` it, `do` things, `stop` it."""

    def __init__(self, make_desk: Callable[[], Service], waiting: int):
        self._make_desk, self._waiting = make_desk, waiting
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="odeprocess-worker", daemon=True)
        self._ready: Future[None] = Future()

    async def start(self) -> None:
        """Begins, and comes back when the desk is ready."""
        self._thread.start()
        await asyncio.wrap_future(self._ready)

    async def stop(self) -> None:
        """Finishes what was begun, and ends."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    async def do(self, act: Callable[[Service], T], frees: bool = False) -> T:
        """What `act` returns, once it is on the disk."""
        if self._jobs.qsize() >= self._waiting:
            raise Refused(429, "busy", "Too many requests are waiting; try again in a moment.")
        if not self._thread.is_alive():
            raise Refused(503, "ended", "The server has ended its work, or is about to; ask it again when it has started anew.")
        future: Future[T] = Future()
        self._jobs.put(Job(act, future, frees))
        return await asyncio.wrap_future(future)

    def _run(self) -> None:
        try:
            service = self._make_desk()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        while (first := self._jobs.get()) is not None:
            jobs, last = [first], False
            while len(jobs) < TOGETHER and not self._jobs.empty() and not last:
                following = self._jobs.get()
                last = following is None
                jobs += [] if following is None else [following]
            _work(service, jobs)
            if last:
                break
        service.store.close()


def _work(service: Service, jobs: list[Job]) -> None:
    jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
    try:
        found = _together(service, jobs)
    except Exception:  # the disk is full, say: nothing of all this was kept, and what can be done is done job by job
        service.store.tidy()
        found = [_alone(service, job) for job in jobs]
    for job, (value, error) in zip(jobs, found, strict=True):
        job.future.set_result(value) if error is None else job.future.set_exception(error)


def _together(service: Service, jobs: list[Job], frees: bool = False) -> list[tuple[Any, BaseException | None]]:
    with service.transaction(frees):
        return [_outcome(job, service) for job in jobs]


def _alone(service: Service, job: Job) -> tuple[Any, BaseException | None]:
    try:
        return _together(service, [job], job.frees)[0]
    except Exception as error:
        told = problem(error)
        LOG.error("Nothing was stored: %s", " ".join(str(error).split()))
        return None, told


def _outcome(job: Job, service: Service) -> tuple[Any, BaseException | None]:
    try:
        return job.act(service), None
    except sqlite3.Error:
        raise
    except Damaged as error:
        LOG.error("The store cannot be read: %s", error)
        return None, problem(error)
    except Exception as error:
        return None, error
