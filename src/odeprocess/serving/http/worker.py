"""The worker thread, which does all work on models and the store while the event loop serves connections.

All jobs that wait are done together in one transaction, so many clients share one write to the disk. A response is sent after
the transaction is committed.
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

from .disk_space import StoreDamaged, to_api_error
from .errors import ApiError
from .service import Service

JOBS_PER_TRANSACTION = 32  # at most, so that the first does not wait long for the last; chosen by hand
LOG = logging.getLogger("odeprocess.serving.http")
T = TypeVar("T")
Outcome = tuple[Any, BaseException | None]  # what a job returned, or the error that it raised


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """A function to call with the service, and the future that waits for it. Jobs that free space are done on a full disk too."""

    action: Callable[[Service], Any]
    future: Future
    frees_space: bool


class Worker:
    """The thread: `start` it, `run` functions on it, `stop` it.

    Arguments:
        make_service: makes the service, in the thread.
        max_waiting: jobs that may wait.
    """

    def __init__(self, make_service: Callable[[], Service], max_waiting: int):
        self._make_service, self._max_waiting = make_service, max_waiting
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="odeprocess-worker", daemon=True)
        self._ready: Future[None] = Future()

    async def start(self) -> None:
        """Starts the thread, and returns when the service is ready."""
        self._thread.start()
        await asyncio.wrap_future(self._ready)

    async def stop(self) -> None:
        """Finishes the jobs that wait, and ends the thread."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    async def run(self, action: Callable[[Service], T], frees_space: bool = False) -> T:
        """Returns what `action` returns, once its changes are on the disk."""
        if self._jobs.qsize() >= self._max_waiting:
            raise ApiError(429, "busy", "Too many requests are waiting; try again in a moment.")
        if not self._thread.is_alive():
            raise ApiError(503, "ended", "The server is stopping; try again when it has been started again.")
        future: Future[T] = Future()
        self._jobs.put(Job(action, future, frees_space))
        return await asyncio.wrap_future(future)

    def _work(self) -> None:
        try:
            service = self._make_service()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        while (first := self._jobs.get()) is not None:
            jobs, last = [first], False
            while len(jobs) < JOBS_PER_TRANSACTION and not self._jobs.empty() and not last:
                following = self._jobs.get()
                last = following is None
                jobs += [] if following is None else [following]
            _run_jobs(service, jobs)
            if last:
                break
        service.store.close()


def _run_jobs(service: Service, jobs: list[Job]) -> None:
    jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
    try:
        outcomes = _run_together(service, jobs)
    except Exception:  # such as a full disk: nothing was stored, so each job is tried in a transaction of its own
        service.store.tidy()
        outcomes = [_run_alone(service, job) for job in jobs]
    for job, (value, error) in zip(jobs, outcomes, strict=True):
        job.future.set_result(value) if error is None else job.future.set_exception(error)


def _run_together(service: Service, jobs: list[Job], frees_space: bool = False) -> list[Outcome]:
    with service.transaction(frees_space):
        return [_outcome(job, service) for job in jobs]


def _run_alone(service: Service, job: Job) -> Outcome:
    try:
        return _run_together(service, [job], job.frees_space)[0]
    except Exception as error:
        LOG.error("Nothing was stored: %s", " ".join(str(error).split()))
        return None, to_api_error(error)


def _outcome(job: Job, service: Service) -> Outcome:
    try:
        return job.action(service), None
    except sqlite3.Error:
        raise
    except StoreDamaged as error:
        LOG.error("The store cannot be read: %s", error)
        return None, to_api_error(error)
    except Exception as error:
        return None, error
