"""Decides when checks are sent, and which of them share a call."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import OrderedDict, deque
from typing import Any, Callable, Deque, List, Optional, Set
from urllib.parse import urlsplit

from .breaker import Breaker, Outcome, Permission
from .connections import Connections, late
from .errors import (
    ClosedError, Problem, SluiceError, UnavailableError, UnreadableError, overloaded, problem_of, unavailable,
)
from .secret import Token
from .version import __version__

CHECK, BATCH = "/ratelimit/check", "/ratelimit/check/batch"
# How many calls with gathered checks are in flight.
_MAX_CALLS = 4
# Bound a batch; the service accepts no more.
_MAX_CHECKS, _MAX_BYTES = 1000, 1 << 20
# Bound a batch that an overloaded service still decides, unless very many limits apply to its checks.
_SMALL_CHECKS, _SMALL_BYTES = 100, 64 << 10
# The longest check, in bytes, that shares a call with others.
MAX_SHARED = 16 << 10
# The longest time that Sluice-Timeout-Ms says, in ms.
_MAX_SAID = 1000

Count = Callable[[str, int], None]


class Waiter:
    """A check whose caller waits for its result: document or error, once finished is called."""

    __slots__ = ("batch", "body", "deadline", "document", "error", "finished", "is_done", "left", "refused")

    def __init__(self, body: bytes, finished: Callable[[], None]) -> None:
        self.body, self.finished = body, finished
        self.document: Any = None
        self.error: Optional[SluiceError] = None
        self.is_done = self.left = False
        self.batch: Optional[_Batch] = None
        # Why the call that carried it decided nothing, if it is to be sent again and was not yet.
        self.refused: Optional[SluiceError] = None
        self.deadline = 0.0  # by the loop's clock

    def finish(self, document: Any, error: Optional[SluiceError]) -> None:
        """Gives the caller its result, once."""
        if self.is_done:
            return
        self.is_done, self.document, self.error = True, document, error
        self.finished()


class _Batch:
    """The checks of one call."""

    __slots__ = ("late", "permission", "task", "waiters", "waiting")

    def __init__(self, waiters: List[Waiter], permission: Optional[Permission] = None) -> None:
        self.waiters = waiters
        self.permission = permission  # of the first call, until it is made
        self.waiting = len(waiters)  # callers who still wait; the last one that leaves cancels the call
        self.late = False  # one of those that left had waited for the whole timeout
        self.task: Optional[asyncio.Task[None]] = None


class Dispatcher:
    """Sends the checks of one event loop; tls is None for http. A check goes at once if none is queued and a call may
    start, unless the last batch had several checks. The others queue. When a call may start, it takes what has queued
    as one batch.

    A call may start when none is in flight; beside others, up to _MAX_CALLS, when it carries at least as many checks as
    those together. Fewer are better off in the call after them: the service needs less time for a check, the more
    checks share a call.
    """

    def __init__(self, base: str, token: Token, tls: Optional[ssl.SSLContext], most: int, timeout: float,
                 max_queue: int, count: Count) -> None:
        url = urlsplit(base)
        self._loop = asyncio.get_running_loop()
        self._connections = Connections(url.hostname or "", url.port or (443 if tls else 80), tls, most)
        self._head = (f" HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
                      f"User-Agent: sluice-python/{__version__}\r\n").encode("ascii")
        self._path = url.path.rstrip("/")
        self._token, self._timeout, self._max_queue, self._count = token, timeout, max_queue, count
        self.breaker = Breaker(self._loop.time)
        self._queue: OrderedDict[Waiter, None] = OrderedDict()
        self._calls = self._carried = 0  # calls in flight, and the checks in them
        self._cutting = False  # a batch is about to be taken from the queue
        self._busy = False  # the last batch had several checks
        self._tasks: Set[asyncio.Task[None]] = set()
        # The checks by their deadlines, which all are as long, and the timer of the first.
        self._deadlines: Deque[Waiter] = deque()
        self._timer: Optional[asyncio.TimerHandle] = None
        self._closed = False
        # Checks of other threads, and whether the loop has been woken for them.
        self._inbox: Deque[Waiter] = deque()
        self._woken = False

    async def close(self) -> None:
        """Ends what is queued and in flight, and closes the connections."""
        self._closed = True
        for waiter in [*self._queue, *self._inbox]:
            waiter.finish(None, ClosedError())
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connections.close()

    def submit(self, waiter: Waiter) -> None:
        """Is check for a caller in another thread."""
        self._inbox.append(waiter)
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._take_inbox)

    def _take_inbox(self) -> None:
        self._woken = False  # before the inbox is emptied: what comes meanwhile wakes the loop again
        while self._inbox:
            self.check(self._inbox.popleft())

    def check(self, waiter: Waiter) -> None:
        """Decides one check, alone or together with others, within the timeout."""
        if self._closed:
            waiter.finish(None, ClosedError())
            return
        permission = self._enter()
        if permission is Permission.REFUSED:
            waiter.finish(None, _breaker_open())
            return
        others = self._queue or self._cutting or self._busy or not self._may_start(1)
        if permission is Permission.PERMITTED and others:
            if len(self._queue) >= self._max_queue:
                waiter.finish(None, UnavailableError("too many checks wait in the client"))
                return
            self._queue[waiter] = None
            self._start_calls()
        else:
            self._start(_Batch([waiter], permission))
        waiter.deadline = self._loop.time() + self._timeout
        while self._deadlines and self._deadlines[0].is_done:
            self._deadlines.popleft()
        self._deadlines.append(waiter)
        if self._timer is None:
            self._timer = self._loop.call_at(waiter.deadline, self._end_late)

    def _end_late(self) -> None:
        """Ends the wait of callers whose time is over."""
        now = self._loop.time()
        while self._deadlines and (self._deadlines[0].is_done or self._deadlines[0].deadline <= now):
            self.leave(self._deadlines.popleft(), True)
        first = self._deadlines[0].deadline if self._deadlines else None
        self._timer = self._loop.call_at(first, self._end_late) if first is not None else None

    def leave(self, waiter: Waiter, is_late: bool) -> None:
        """Ends the wait of a caller; is_late says that it waited for the whole timeout. A check that was not sent yet
        never is."""
        if waiter.is_done:
            return
        waiter.left = True
        batch = waiter.batch
        if batch is None:
            self._queue.pop(waiter, None)
        else:
            batch.late = batch.late or is_late
            batch.waiting -= 1
            if batch.waiting == 0 and batch.task is not None:
                batch.task.cancel()
        waiter.finish(None, waiter.refused or late())

    async def direct(self, path: str, body: bytes, timeout: float, checks: int = 0) -> Any:
        """Makes a call of its own and returns the document of its response. checks is how many it decides."""
        permission = self._enter()
        if permission is Permission.REFUSED:
            raise _breaker_open()
        return await self._post(path, body, checks, permission, lambda: False, self._loop.time() + timeout)

    async def several(self, bodies: List[bytes], timeout: float) -> List[Any]:
        """Is direct for a batch: it returns one document for each check."""
        return _results(await self.direct(BATCH, join(bodies), timeout, len(bodies)), len(bodies))

    def _enter(self) -> Permission:
        if self._closed:
            raise ClosedError
        permission = self.breaker.enter()
        if permission is Permission.REFUSED:
            self._count("refused", 1)
        return permission

    def _may_start(self, n: int) -> bool:
        return self._calls == 0 or self._calls < _MAX_CALLS and n >= self._carried

    def _start_calls(self) -> None:
        if self._queue and not self._cutting and not self._closed and self._may_start(len(self._queue)):
            # Callers whose last checks were answered together are about to check again: they go first.
            self._cutting = True
            self._loop.call_soon(self._cut)

    def _cut(self) -> None:
        """Takes a batch from the queue and sends it."""
        self._cutting = False
        size = len('{"checks":[]}')
        waiters: List[Waiter] = []
        while self._queue and len(waiters) < _MAX_CHECKS:
            waiter = next(iter(self._queue))
            size += len(waiter.body) + 1
            if size > _MAX_BYTES:
                break
            del self._queue[waiter]
            waiters.append(waiter)
        if waiters and not self._closed:
            self._busy = len(waiters) > 1
            self._start(_Batch(waiters))
            self._start_calls()

    def _start(self, batch: _Batch) -> None:
        for waiter in batch.waiters:
            waiter.batch = batch
        self._calls += 1
        self._carried += len(batch.waiters)
        batch.task = self._loop.create_task(self._send(batch, batch.waiters))
        self._tasks.add(batch.task)
        # No finally in the coroutine: one that is cancelled before its first step never runs.
        batch.task.add_done_callback(lambda task: self._ended(batch, task))

    def _ended(self, batch: _Batch, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if batch.permission is not None:
            self.breaker.leave(batch.permission, Outcome.UNKNOWN)
        for waiter in batch.waiters:
            waiter.finish(None, ClosedError() if self._closed else late())
        self._calls -= 1
        self._carried -= len(batch.waiters)
        self._start_calls()
        if not task.cancelled():
            task.result()  # raises a fault of this module, which the loop reports

    async def _send(self, batch: _Batch, waiters: List[Waiter]) -> None:
        """Makes one call and gives each check its result. If the service refuses the batch because of invalid checks,
        it has charged none: those that it names are refused, the others are sent again. If it is overloaded, it has
        charged none either: they are sent again in small calls. Checks whose callers have left are not sent."""
        waiters = [w for w in waiters if not w.left]
        if not waiters:
            return
        for waiter in waiters:
            waiter.refused = None
        try:
            results = await self._exchange(batch, waiters)
        except SluiceError as e:
            error = e
        else:
            for waiter, result in zip(waiters, results):
                self._answer(batch, waiter, result, None)
            return
        if overloaded(error) and small([w.body for w in waiters]) < len(waiters):
            for waiter in waiters:
                waiter.refused = error
            while waiters:
                n = small([w.body for w in waiters])
                await self._send(batch, waiters[:n])
                waiters = waiters[n:]
            return
        if len(waiters) == 1 or not isinstance(error, Problem) or error.status not in (400, 422):
            for waiter in waiters:
                self._answer(batch, waiter, None, error)
            return
        valid = []
        for i, waiter in enumerate(waiters):
            own = error.element(i)
            if own is None:
                valid.append(waiter)
            else:
                self._answer(batch, waiter, None, own)
        if len(valid) == len(waiters):  # it names none
            for waiter in waiters:
                await self._send(batch, [waiter])
        elif valid:
            await self._send(batch, valid)

    def _answer(self, batch: _Batch, waiter: Waiter, document: Any, error: Optional[SluiceError]) -> None:
        if not waiter.left:
            batch.waiting -= 1
        waiter.finish(document, error)

    async def _exchange(self, batch: _Batch, waiters: List[Waiter]) -> List[Any]:
        permission, batch.permission = batch.permission, None
        if permission is None:
            permission = self._enter()
            if permission is Permission.REFUSED:
                raise _breaker_open()
        if len(waiters) == 1:
            return [await self._post(CHECK, waiters[0].body, 1, permission, lambda: batch.late, None)]
        return _results(await self._post(BATCH, join([w.body for w in waiters]), len(waiters), permission,
                                         lambda: batch.late, None), len(waiters))

    async def _post(self, path: str, body: bytes, checks: int, permission: Permission, is_late: Callable[[], bool],
                    deadline: Optional[float]) -> Any:
        """Posts one document and returns that of the response. checks is how many it carries, 0 if it is no
        decision."""
        wait = self._timeout if deadline is None else deadline - self._loop.time()
        said = min(max(int(wait * 1000 + 0.5), 1), _MAX_SAID)
        request = b"".join([f"POST {self._path}{path}".encode("ascii"), self._head, self._token.header(),
                            f"Sluice-Timeout-Ms: {said}\r\nContent-Length: {len(body)}\r\n\r\n".encode("ascii"), body])
        if checks:
            self._count("calls", 1)
            self._count("carried", checks)
        outcome = Outcome.UNKNOWN
        try:
            response = await self._connections.exchange(request, deadline)
            if response.status < 400 and response.status // 100 != 2:
                raise UnreadableError("the server redirects, which is not followed: "
                                      "give the client the URL of the service itself")
            if response.status // 100 != 2:
                raise problem_of(response.status, response.content_type, response.body)
            document = _decode(response.body)
            outcome = Outcome.SUCCEEDED
            return document
        except asyncio.CancelledError:
            if is_late() and not self._closed:
                outcome = Outcome.FAILING
            raise
        except SluiceError as e:
            outcome = _outcome(e)
            if isinstance(e, UnreadableError):
                self._count("unreadable", 1)
            raise
        finally:
            if outcome is Outcome.FAILING:
                self._count("failures", 1)
            self.breaker.leave(permission, outcome)


def _outcome(error: SluiceError) -> Outcome:
    if isinstance(error, ClosedError):
        return Outcome.UNKNOWN
    if not unavailable(error) or overloaded(error):
        return Outcome.SUCCEEDED
    if isinstance(error, Problem) and error.type in ("/problems/store-unavailable", "/problems/queue-unavailable"):
        return Outcome.SUCCEEDED  # the service answers, and decides checks by the fail modes of its rules
    return Outcome.FAILING


def _breaker_open() -> UnavailableError:
    return UnavailableError("the circuit breaker is open because the service was unavailable")


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as e:
        raise UnreadableError(f"the server's response is not valid JSON: {type(e).__name__}") from None


def _results(document: Any, n: int) -> List[Any]:
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list) or len(results) != n:
        raise UnreadableError("the server's response does not have one result per check")
    return results


def join(bodies: List[bytes]) -> bytes:
    """The body of a batch."""
    return b'{"checks":[' + b",".join(bodies) + b"]}"


def small(bodies: List[bytes]) -> int:
    """How many of the first checks make a small batch, at least 1."""
    size = len('{"checks":[]}')
    for i, body in enumerate(bodies):
        size += len(body) + 1
        if i > 0 and (i == _SMALL_CHECKS or size > _SMALL_BYTES):
            return i
    return len(bodies)
