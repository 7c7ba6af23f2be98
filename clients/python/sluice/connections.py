"""HTTP/1.1 connections to one server, with deadlines."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Optional, Set

from .errors import ClosedError, UnavailableError, UnreadableError

# How many bytes the head and the body of a response may have.
_MAX_HEAD, _MAX_BODY = 64 << 10, 256 << 20
# How long a connection is kept without use, in s. It is shorter than that of the service, so that a connection is
# rarely closed while a check is sent.
_IDLE = 30.0
# Bounds a connection's start, in s. It may be longer than the timeout of a check: later checks use the connection.
_CONNECT = 2.0


class Response(NamedTuple):
    """A complete response."""

    status: int
    content_type: str
    body: bytes


class _Exchange:
    """A request that waits for a connection or for its response."""

    __slots__ = ("connection", "done", "request")

    def __init__(self, request: bytes, done: asyncio.Future[Response]) -> None:
        self.request, self.done = request, done
        self.connection: Optional[_Connection] = None

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Connections:
    """Opens up to most connections and keeps them for reuse. A request is sent once and never repeated. It belongs to
    one event loop."""

    def __init__(self, host: str, port: int, tls: Optional[ssl.SSLContext], most: int) -> None:
        self._host, self._port, self._tls, self._most = host, port, tls, most
        self._loop = asyncio.get_running_loop()
        self._idle: List[_Connection] = []
        self._open: Set[_Connection] = set()
        self._opening: Set[asyncio.Task[None]] = set()
        self._waiting: Deque[_Exchange] = deque()
        self._sweeper: Optional[asyncio.TimerHandle] = None
        self._closed = False

    async def exchange(self, request: bytes, deadline: Optional[float] = None) -> Response:
        """Sends a request and returns its response. The error is an UnavailableError; so it is when the loop's time
        reaches deadline. If the caller is cancelled, the connection is closed."""
        if self._closed:
            raise ClosedError
        exchange = _Exchange(request, self._loop.create_future())
        timer = None
        if deadline is not None:
            timer = self._loop.call_at(deadline, exchange.fail, late())
        connection = self._take()
        if connection is not None:
            connection.send(exchange)
        else:
            self._waiting.append(exchange)
            self._start()
        try:
            return await exchange.done
        finally:
            if timer is not None:
                timer.cancel()
            if exchange.connection is not None:
                exchange.connection.abandon(exchange)
            elif exchange in self._waiting:
                self._waiting.remove(exchange)

    async def close(self) -> None:
        """Closes all connections and waits until they are."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in self._opening:
            task.cancel()
        for exchange in self._waiting:
            exchange.fail(ClosedError())
        connections = list(self._open)
        for connection in connections:
            connection.close()
        await asyncio.gather(*self._opening, *(c.lost for c in connections), return_exceptions=True)

    def _take(self) -> Optional[_Connection]:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable() and self._loop.time() - connection.since < _IDLE:
                return connection
            connection.abort()
        return None

    def _start(self) -> None:
        """Opens a connection for a request that waits for one."""
        if len(self._waiting) > len(self._opening) and len(self._open) + len(self._opening) < self._most:
            task = self._loop.create_task(self._connect())
            self._opening.add(task)

    async def _connect(self) -> None:
        task = asyncio.current_task()
        error = None
        try:
            await asyncio.wait_for(self._loop.create_connection(
                lambda: _Connection(self), self._host, self._port, ssl=self._tls,
                server_hostname=self._host if self._tls else None), _CONNECT)
        except (OSError, ssl.SSLError, ValueError) as e:
            error = UnavailableError(f"connecting to the service failed: {e or type(e).__name__}")
        except asyncio.TimeoutError:
            error = UnavailableError(f"connecting to the service took longer than {_CONNECT:g} s")
        finally:
            if task is not None:
                self._opening.discard(task)
        if error is not None and self._waiting:
            self._waiting.popleft().fail(error)
        self._start()

    def ready(self, connection: _Connection) -> None:
        """Takes a connection that is new or has finished an exchange."""
        if self._closed:
            connection.abort()
            return
        self._open.add(connection)
        if self._waiting:
            connection.send(self._waiting.popleft())
            return
        connection.since = self._loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_IDLE, self._sweep)

    def _sweep(self) -> None:
        """Closes connections that have been idle for long."""
        self._sweeper = None
        now = self._loop.time()
        for connection in [c for c in self._idle if now - c.since >= _IDLE]:
            connection.abort()
        if self._idle:
            self._sweeper = self._loop.call_later(_IDLE, self._sweep)

    def gone(self, connection: _Connection) -> None:
        """Forgets a connection that was closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._closed:
            self._start()


def late() -> UnavailableError:
    """The error of what was not decided in time."""
    return UnavailableError("the service did not answer in time")


class _Connection(asyncio.Protocol):
    """Carries one exchange at a time."""

    def __init__(self, owner: Connections) -> None:
        self._owner = owner
        self._transport: Optional[asyncio.Transport] = None
        self._exchange: Optional[_Exchange] = None
        self._parser = _Parser()
        self.since = 0.0  # when it became idle, by the loop's clock
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner.ready(self)

    def send(self, exchange: _Exchange) -> None:
        assert self._transport is not None
        self._exchange, exchange.connection, self._parser = exchange, self, _Parser()
        self._transport.write(exchange.request)

    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def abandon(self, exchange: _Exchange) -> None:
        """Closes the connection if an exchange is still under way: its response has no reader."""
        if self._exchange is exchange:
            self.abort()

    def close(self) -> None:
        """Ends the exchange under way, and the connection."""
        if self._exchange is not None:
            self._exchange.fail(ClosedError())
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:  # nobody asked
            self.abort()
            return
        try:
            response = self._parser.feed(data)
        except UnreadableError as e:
            exchange.fail(e)
            self.abort()
            return
        if response is not None:
            self._finish(exchange, response, self._parser.reusable())

    def connection_lost(self, exc: Optional[Exception]) -> None:
        exchange = self._exchange
        if exchange is not None:
            response = self._parser.end() if exc is None else None
            if response is not None:
                self._finish(exchange, response, False)
            else:
                exchange.fail(UnavailableError(f"the connection broke before the answer: {exc or 'it was closed'}"))
        self._exchange = None
        if not self.lost.done():
            self.lost.set_result(None)
        self._owner.gone(self)

    def _finish(self, exchange: _Exchange, response: Response, reusable: bool) -> None:
        self._exchange = None
        if not exchange.done.done():
            exchange.done.set_result(response)
        if reusable:
            self._owner.ready(self)
        else:
            self.abort()


_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: |$)")
_LENGTH = re.compile("[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?")


class _Parser:
    """Reads one response (RFC 9112)."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._status = 0
        self._kind = ""
        self._length: Optional[int] = None  # None: until the connection closes
        self._chunked = self._keep = self._trailer = False
        self._body = bytearray()  # of the chunks so far

    def feed(self, data: bytes) -> Optional[Response]:
        """Takes what arrived, and returns the response once it is complete."""
        self._data += data
        while not self._status:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                if len(self._data) > _MAX_HEAD:
                    raise UnreadableError(f"the head of the server's response has more than {_MAX_HEAD} bytes")
                return None
            self._head(bytes(self._data[:end]))
            del self._data[:end + 4]
        if self._chunked:
            return self._response(bytes(self._body)) if self._chunks() else None
        if self._length is None:
            self._bound(len(self._data))
            return None
        if len(self._data) < self._length:
            return None
        body = bytes(self._data[:self._length])
        del self._data[:self._length]
        return self._response(body)

    def end(self) -> Optional[Response]:
        """Returns the response that the end of the connection completes."""
        if self._status and not self._chunked and self._length is None:
            return self._response(bytes(self._data))
        return None

    def reusable(self) -> bool:
        """Whether the connection can carry another exchange."""
        return self._keep and not self._data

    def _response(self, body: bytes) -> Response:
        return Response(self._status, self._kind, body)

    def _bound(self, size: int) -> None:
        if size > _MAX_BODY:
            raise UnreadableError(f"the server's response has more than {_MAX_BODY} bytes")

    def _head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        match = _STATUS.match(first)
        if match is None:
            raise UnreadableError("the server's response is not HTTP/1.1")
        status = int(match[2])
        if status < 200:  # 100 Continue and its like come before the response
            if status == 101:
                raise UnreadableError("the server changed the protocol")
            return
        fields: Dict[str, str] = {}
        for line in lines:
            name, _, value = line.decode("latin-1").partition(":")
            fields.setdefault(name.lower(), value.strip())
        coding = fields.get("transfer-encoding", "").lower()
        length = fields.get("content-length")
        if coding not in ("", "chunked") or length is not None and not _LENGTH.fullmatch(length):
            raise UnreadableError("the length of the server's response is unknown")
        if fields.get("content-encoding", "identity").lower() != "identity":
            raise UnreadableError("the server's response is compressed, which nobody asked for")
        self._status, self._kind = status, fields.get("content-type", "")
        self._chunked = coding == "chunked"
        if status in (204, 304):
            self._chunked, self._length = False, 0
        elif length is not None and not self._chunked:
            self._length = int(length)
            self._bound(self._length)
        self._keep = match[1] == b"1" and "close" not in fields.get("connection", "").lower()

    def _chunks(self) -> bool:
        """Moves complete chunks to the body, and reports whether the last one has come."""
        while True:
            end = self._data.find(b"\r\n")
            if end < 0:
                if len(self._data) > _MAX_HEAD:
                    raise UnreadableError("a chunk of the server's response has no size")
                return False
            if self._trailer:
                del self._data[:end + 2]
                if end == 0:
                    return True
                continue
            match = _CHUNK.fullmatch(self._data[:end])
            if match is None:
                raise UnreadableError("a chunk of the server's response has no size")
            size = int(match[1], 16)
            self._bound(len(self._body) + size)
            if size == 0:
                self._trailer = True
                del self._data[:end + 2]
                continue
            if len(self._data) < end + size + 4:
                return False
            if self._data[end + 2 + size:end + 4 + size] != b"\r\n":
                raise UnreadableError("a chunk of the server's response has a wrong size")
            self._body += self._data[end + 2:end + 2 + size]
            del self._data[:end + size + 4]
