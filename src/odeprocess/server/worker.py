"""The worker: one thread that does all work on models and store, while the server goes on listening.

Whatever waits when it is free is done together and committed once, so many clients share one write to the disk. An
answer goes out after the commit.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from .desk import Desk
from .errors import Refused

TOGETHER = 32  # jobs in one transaction
T = TypeVar("T")


class Worker:
    """The thread. `start` it, `do` things, `stop` it."""

    def __init__(self, make_desk: Callable[[], Desk], waiting: int):
        self._make_desk, self._waiting = make_desk, waiting
        self._jobs: queue.SimpleQueue[tuple[Callable[[Desk], Any], Future] | None] = queue.SimpleQueue()
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

    async def do(self, job: Callable[[Desk], T]) -> T:
        """What `job` returns, once it is on the disk."""
        if self._jobs.qsize() >= self._waiting:
            raise Refused(429, "busy", "Too many requests are waiting; try again in a moment.")
        if not self._thread.is_alive():
            raise RuntimeError("The store failed and could not be read again; the server must be started anew.")
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return await asyncio.wrap_future(future)

    def _run(self) -> None:
        try:
            desk = self._make_desk()
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
            _work(desk, jobs)
            if last:
                break
        desk.store.close()


def _work(desk: Desk, jobs: list[tuple[Callable[[Desk], Any], Future]]) -> None:
    found: list[tuple[Future, Any, Exception | None]] = []
    try:
        with desk.store.transaction():
            for job, future in jobs:
                if future.set_running_or_notify_cancel():
                    found.append((future, *_outcome(job, desk)))
    except Exception as error:  # the disk is full, say: nothing of all this was kept, so nothing of it may be believed
        found = [(future, None, error) for _, future in jobs if not future.cancelled()]
        desk.rebuild()
    finally:
        for future, value, problem in found:
            future.set_result(value) if problem is None else future.set_exception(problem)


def _outcome(job: Callable[[Desk], Any], desk: Desk) -> tuple[Any, Exception | None]:
    try:
        return job(desk), None
    except sqlite3.Error:
        raise
    except Exception as error:
        return None, error
