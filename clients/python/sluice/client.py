"""The clients: Client for threads, AsyncClient for the tasks of an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import ssl
import threading
from types import TracebackType
from typing import Any, Callable, Coroutine, Dict, List, Mapping, Optional, Sequence, Set, Type, TypeVar, Union
from urllib.parse import urlsplit

from .connections import late
from .dispatcher import CHECK, MAX_SHARED, Dispatcher, Waiter, small
from .documents import Answer, Check, Settlement, encode
from .errors import ClosedError, FieldError, Problem, SluiceError, overloaded
from .failmode import FailMode, OnCount, OnDegraded
from .local import LocalLimit
from .secret import Token

# How many releases of release_later are under way at once.
_MAX_RELEASES = 64
# How much longer than a call's timeout a thread waits for its result, in s. The call itself ends in time.
_GRACE = 1.0

_T = TypeVar("_T")


class _Base:
    """The options of a client, and what needs no connection."""

    def __init__(self, base: str, *, token: Optional[str] = None, token_file: Optional[str] = None,
                 log: Optional[logging.Logger] = None, fail_mode: str = "open",
                 local_limit: Optional[LocalLimit] = None, timeout_ms: float = 25, call_timeout_ms: float = 1000,
                 max_conns: int = 64, max_queue: int = 10_000, tls: Optional[ssl.SSLContext] = None,
                 on_degraded: Optional[OnDegraded] = None, on_count: Optional[OnCount] = None) -> None:
        """Opens no connection yet. An option that is wrong is a ValueError.

        base: the URL of the service, such as http://127.0.0.1:8080.
        token: an API token with the scope check.
        token_file: the path of a file whose content is the token, instead of token. A changed token is used within
            10 s; while the file is not usable, the previous token is.
        log: gets problems of token_file, and once that the service answers what the client cannot read; the logger
            sluice if None.
        fail_mode: decides checks while the service is unavailable. open allows, closed denies with status 503, local
            enforces local_limit in this process.
        timeout_ms: bounds check, batch and reserve, which requests wait for.
        call_timeout_ms: bounds every other call.
        max_conns: the most connections to the service, all of which are kept open for reuse.
        max_queue: how many checks may wait in the client. The fail mode decides a further one at once.
        tls: for https, the certificates to trust and a client certificate; None trusts what the system trusts.
        on_degraded: is called with the cause of every answer that the fail mode gave.
        on_count: is called with the name of a counter and a number to add. Like on_degraded it must return quickly, and
            is called concurrently.
        """
        self._base = _checked(base)
        for name, value in (("timeout_ms", timeout_ms), ("call_timeout_ms", call_timeout_ms), ("max_conns", max_conns),
                            ("max_queue", max_queue)):
            if not value > 0:
                raise ValueError(f"{name} must be greater than 0")
        log = log if log is not None else logging.getLogger("sluice")
        self._token = Token(token, token_file, log)
        self._fail = FailMode(fail_mode, local_limit, on_degraded, on_count, log)
        self._timeout, self._call_timeout = timeout_ms / 1000, call_timeout_ms / 1000
        self._max_conns, self._max_queue = max_conns, max_queue
        # Reading the certificates of the system takes longer than a check may.
        secure = urlsplit(self._base).scheme == "https"
        self._tls = (tls or ssl.create_default_context()) if secure else None
        self._begin()

    def _begin(self) -> None:
        """Sets what a client has beside its options."""
        self._closed = False

    def fallback(self, check: Check, error: Exception) -> Answer:
        """Decides a check by the fail mode and calls on_degraded, as check does while the service is unavailable. It
        is for callers that let the fail mode decide about other errors too."""
        return self._fail.fallback(check, error)

    def _new_dispatcher(self) -> Dispatcher:
        return Dispatcher(self._base, self._token, self._tls, self._max_conns, self._timeout, self._max_queue,
                          self._fail.count)

    async def _batch(self, dispatcher: Dispatcher, checks: Sequence[Check], bodies: List[bytes]) -> List[Answer]:
        until = asyncio.get_running_loop().time() + self._timeout

        async def call(start: int, end: int) -> List[Any]:
            left = until - asyncio.get_running_loop().time()
            return await dispatcher.several(bodies[start:end], max(left, 0.0))

        try:
            return self._fail.complete_all(list(checks), await call(0, len(bodies)), None)
        except SluiceError as e:
            if not overloaded(e) or small(bodies) == len(bodies):
                return self._fail.complete_all(list(checks), None, e)
            refused = e
        answers: List[Answer] = []
        while len(answers) < len(bodies):
            start = len(answers)
            end = start + small(bodies[start:])
            documents: Optional[List[Any]] = None
            error: Optional[SluiceError] = refused
            if asyncio.get_running_loop().time() < until:
                try:
                    documents, error = await call(start, end), None
                except SluiceError as e:
                    error = e
            try:
                answers += self._fail.complete_all(list(checks[start:end]), documents, error)
            except Problem as e:
                raise e.shifted(start) from None
        return answers


class AsyncClient(_Base):
    """Asks one service with one token from the tasks of one event loop."""

    def _begin(self) -> None:
        super()._begin()
        self._dispatcher: Optional[Dispatcher] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._releases: Set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    async def check(self, check: Check) -> Answer:
        """Decides one request and spends from every limit that applies, or from none if one of them denies.

        It raises a Problem that says what is wrong with the check or the token, or ClosedError. While the service is
        unavailable it raises nothing: the fail mode decides. While the service is overloaded, a check that it has no
        turn for is denied, with overloaded.
        """
        body = check._encode()
        self._fail.count("checks", 1)
        dispatcher = self._started()
        if check.payload is not None or len(body) > MAX_SHARED:
            return await self._alone(dispatcher, check, CHECK, body)
        done = asyncio.get_running_loop().create_future()
        waiter = Waiter(body, lambda: None if done.done() else done.set_result(None))
        dispatcher.check(waiter)
        try:
            await done
        except asyncio.CancelledError:
            dispatcher.leave(waiter, False)
            raise
        return self._fail.complete(check, waiter.document, waiter.error)

    async def batch(self, checks: Sequence[Check]) -> List[Answer]:
        """Decides up to 1,000 checks in one call, each independently, and returns their answers in the same order.

        If one check is invalid, it raises a Problem that names it, such as checks[3].weight, and nothing is decided. If
        the service is overloaded and refuses the call, the same checks are sent in calls of at most 100 while
        timeout_ms lasts; what is not decided then is denied, with overloaded.
        """
        bodies = _bodies(checks)
        if not bodies:
            return []
        self._fail.count("checks", len(bodies))
        return await self._batch(self._started(), checks, bodies)

    async def reserve(
        self, check: Check, ttl_ms: int = 0, on_expire: Union[str, Mapping[str, int], None] = None
    ) -> Answer:
        """Is a check whose weight is an estimate. If it is allowed, the answer has a reservation to settle within
        ttl_ms (1 s to 1 h, 60 s if 0). on_expire says what happens with the estimate if nobody does: "keep", "refund"
        or {"percent": n}, which is the part that stays charged. An answer of a fail mode has no reservation."""
        body = check._encode(ttl_ms, on_expire)
        self._fail.count("checks", 1)
        return await self._alone(self._started(), check, "/ratelimit/reserve", body)

    async def settle(self, settlement: Settlement) -> Answer:
        """Corrects a reservation to what was used. It may be repeated. A Problem with status 410 says that the
        reservation has ended and its charge is final. No fail mode applies to it or to the methods below: unavailable
        tells an outage."""
        return await self._operate("/ratelimit/settle", settlement._encode())

    async def release(self, lease: str) -> Answer:
        """Ends the concurrency slots of an answer with a lease."""
        return await self._operate("/ratelimit/release", encode({"lease": lease}))

    async def renew(self, lease: str) -> Answer:
        """Restarts the time for which the slots of an answer are held. allowed is False if one has ended."""
        return await self._operate("/ratelimit/renew", encode({"lease": lease}))

    async def renew_reservation(
        self, reservation: str, ttl_ms: int = 60_000, more: Optional[Mapping[str, Any]] = None
    ) -> Answer:
        """Lets a reservation live for ttl_ms from now, and adds more (weight, fields) to its estimate. If that does not
        fit, allowed is False and nothing changes. Else the answer has the reservation that replaces the old one."""
        body: Dict[str, Any] = {"reservation": reservation, "ttl_ms": ttl_ms}
        if more:
            body["more"] = dict(more)
        return await self._operate("/ratelimit/renew", encode(body))

    async def release_later(self, lease: str) -> None:
        """Is a release that its caller does not wait for, unless many are under way. close waits for it. If it fails,
        the slots end when their time is over."""
        if len(self._releases) >= _MAX_RELEASES:
            await self._release_quietly(lease)
            return
        task = asyncio.get_running_loop().create_task(self._release_quietly(lease))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def close(self) -> None:
        """Ends what is in flight, but waits for releases, and closes the connections. Every method raises ClosedError
        from then on. A second close does nothing."""
        while self._releases:
            await asyncio.gather(*self._releases)
        self._closed = True
        if self._dispatcher is not None:
            await self._dispatcher.close()

    async def _release_quietly(self, lease: str) -> None:
        try:
            await self.release(lease)
        except SluiceError:
            pass

    def _started(self) -> Dispatcher:
        if self._closed:
            raise ClosedError
        loop = asyncio.get_running_loop()
        if self._dispatcher is None:
            self._loop, self._dispatcher = loop, self._new_dispatcher()
        elif self._loop is not loop:
            raise RuntimeError("an AsyncClient serves one event loop")
        return self._dispatcher

    async def _alone(self, dispatcher: Dispatcher, check: Check, path: str, body: bytes) -> Answer:
        try:
            document, error = await dispatcher.direct(path, body, self._timeout, checks=1), None
        except SluiceError as e:
            document, error = None, e
        return self._fail.complete(check, document, error)

    async def _operate(self, path: str, body: bytes) -> Answer:
        return Answer._read(await self._started().direct(path, body, self._call_timeout))


class _Background:
    """A thread whose event loop has the connections of a Client."""

    def __init__(self, options: Client) -> None:
        self.pid = os.getpid()
        self.client = AsyncClient.__new__(AsyncClient)
        vars(self.client).update(vars(options))
        self.client._begin()
        self.loop = asyncio.SelectorEventLoop()
        self._stop: Optional[asyncio.Event] = None
        started: concurrent.futures.Future[Dispatcher] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="sluice-client", daemon=True)
        self._thread.start()
        self.dispatcher = started.result()

    def _run(self, started: concurrent.futures.Future[Dispatcher]) -> None:
        async def serve() -> None:
            stop = self._stop = asyncio.Event()
            try:
                started.set_result(self.client._started())
            except Exception as e:
                started.set_exception(e)
                return
            await stop.wait()
            await self.client.close()

        try:
            self.loop.run_until_complete(serve())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    def close(self) -> None:
        """Closes the client and waits for the thread, unless it is the caller."""
        if self._stop is not None:
            try:
                self.loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:  # the loop has ended
                pass
        if threading.current_thread() is not self._thread:
            self._thread.join()


class Client(_Base):
    """Asks one service with one token from any number of threads. A thread of the client has the connections; it starts
    with the first call, also in a process that was forked after the client was made."""

    def _begin(self) -> None:
        super()._begin()
        self._lock = threading.Lock()
        self._background: Optional[_Background] = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def check(self, check: Check) -> Answer:
        """Decides one request, as AsyncClient.check does."""
        body = check._encode()
        background = self._started()
        if check.payload is not None or len(body) > MAX_SHARED:
            return self._await(background, background.client.check(check), self._timeout)
        self._fail.count("checks", 1)
        turn = threading.Lock()
        turn.acquire()
        waiter = Waiter(body, turn.release)
        try:
            background.dispatcher.submit(waiter)
        except RuntimeError:  # the loop has ended
            raise ClosedError from None
        if turn.acquire(timeout=self._timeout):
            return self._fail.complete(check, waiter.document, waiter.error)
        return self._fail.complete(check, None, waiter.refused or (ClosedError() if self._closed else late()))

    def batch(self, checks: Sequence[Check]) -> List[Answer]:
        """Decides up to 1,000 checks in one call, as AsyncClient.batch does."""
        background = self._started()
        return self._await(background, background.client.batch(checks), self._timeout)

    def reserve(
        self, check: Check, ttl_ms: int = 0, on_expire: Union[str, Mapping[str, int], None] = None
    ) -> Answer:
        """Is a check whose weight is an estimate, as AsyncClient.reserve is."""
        background = self._started()
        return self._await(background, background.client.reserve(check, ttl_ms, on_expire), self._timeout)

    def settle(self, settlement: Settlement) -> Answer:
        """Corrects a reservation, as AsyncClient.settle does."""
        return self._operate(lambda c: c.settle(settlement))

    def release(self, lease: str) -> Answer:
        """Ends the concurrency slots of an answer with a lease."""
        return self._operate(lambda c: c.release(lease))

    def renew(self, lease: str) -> Answer:
        """Restarts the time for which the slots of an answer are held. allowed is False if one has ended."""
        return self._operate(lambda c: c.renew(lease))

    def renew_reservation(
        self, reservation: str, ttl_ms: int = 60_000, more: Optional[Mapping[str, Any]] = None
    ) -> Answer:
        """Lets a reservation live for longer, as AsyncClient.renew_reservation does."""
        return self._operate(lambda c: c.renew_reservation(reservation, ttl_ms, more))

    def release_later(self, lease: str) -> None:
        """Is a release that its caller does not wait for, unless many are under way. close waits for it. If it fails,
        the slots end when their time is over."""
        try:
            self._operate(lambda c: c.release_later(lease))
        except SluiceError:
            pass

    def close(self) -> None:
        """Ends what is in flight, but waits for releases, closes the connections and waits for the client's thread.
        Every method raises ClosedError from then on. A second close does nothing."""
        with self._lock:
            self._closed, background = True, self._background
        if background is not None and background.pid == os.getpid():
            background.close()

    def _started(self) -> _Background:
        background = self._background
        if background is not None and background.pid == os.getpid() and not self._closed:
            return background
        with self._lock:
            if self._closed:
                raise ClosedError
            if self._background is None or self._background.pid != os.getpid():
                self._background = _Background(self)
            return self._background

    def _operate(self, call: Callable[[AsyncClient], Coroutine[Any, Any, _T]]) -> _T:
        background = self._started()
        return self._await(background, call(background.client), self._call_timeout)

    def _await(self, background: _Background, call: Coroutine[Any, Any, _T], timeout: float) -> _T:
        """Runs a call, which ends by itself after the timeout, in the client's thread."""
        try:
            future = asyncio.run_coroutine_threadsafe(call, background.loop)
        except RuntimeError:  # the loop has ended
            call.close()
            raise ClosedError from None
        try:
            return future.result(timeout + _GRACE)
        except concurrent.futures.CancelledError:
            raise ClosedError from None
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise ClosedError if self._closed else late() from None


def _checked(base: str) -> str:
    try:
        url = urlsplit(base)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.username is None and \
            not url.query and not url.fragment and all("!" <= c <= "~" for c in base) and url.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("the URL of the service must look like http://127.0.0.1:8080")
    return base.rstrip("/")


def _bodies(checks: Sequence[Check]) -> List[bytes]:
    bodies = []
    for i, check in enumerate(checks):
        try:
            bodies.append(check._encode())
        except Problem as e:
            errors = [FieldError(f"checks[{i}].{f.field}", f.message) for f in e.errors]
            raise Problem(e.status, e.type, e.title, e.detail, errors) from None
    return bodies
