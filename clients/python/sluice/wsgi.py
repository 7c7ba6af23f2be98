"""Limits the requests of a WSGI application, such as one of Flask or Django.

    client = sluice.Client("http://127.0.0.1:8080")
    app.wsgi_app = LimitMiddleware(app.wsgi_app, client=client)

A request of 203.0.113.7 for /users/17 is checked with its method, its path, the address and the host. If a rule denies
it, the client gets the status 429 with Retry-After, RateLimit and their like, and a problem document; the application
does not run. An allowed response has the headers too.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from .client import Client
from .documents import Answer, Check
from .errors import Problem, SluiceError
from .requests import MOST_WAITING, Reader, Waiting, denial, escaped, without_host

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

#: The key of the answer in the environment.
ANSWER = "sluice.answer"

Environ = Dict[str, Any]


class LimitMiddleware:
    """Checks each request before the application runs."""

    def __init__(self, app: WSGIApplication, *, client: Client, trusted_proxies: Sequence[str] = (),
                 client_ip_header: str = "X-Forwarded-For", route: Optional[Callable[[Environ], str]] = None,
                 describe: Optional[Callable[[Environ, Check], Optional[Check]]] = None,
                 skip: Optional[Callable[[Environ], bool]] = None,
                 on_error: Optional[Callable[[Environ, Exception], None]] = None,
                 headers: Optional[Sequence[str]] = None, most_waiting: int = MOST_WAITING) -> None:
        """The options are those of sluice.asgi.LimitMiddleware. Without route, the route of a check is the path."""
        self._app, self._client = app, client
        self._reader = Reader(trusted_proxies, client_ip_header, route or (lambda _: ""), describe, skip, on_error,
                              headers)
        self._waiting = Waiting(most_waiting)
        self._ip_key = "HTTP_" + client_ip_header.upper().replace("-", "_")

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self._reader.skips(environ):
            return self._app(environ, start_response)
        answer = self._ask(environ)
        fields = self._reader.headers_of(answer)
        if answer.delay_ms > 0:
            with self._waiting.place() as place:
                if place:
                    time.sleep(answer.delay_ms / 1000)
        if not answer.allowed:
            extra, body = denial(answer)
            start_response(_status(answer.status), fields + extra)
            if answer.lease:
                self._client.release_later(answer.lease)
            return [body]
        replaced = {name.lower() for name, _ in fields}

        def with_headers(status: str, own: List[Tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            kept = [(name, value) for name, value in own if name.lower() not in replaced]
            return start_response(status, kept + fields, *exc_info)

        environ[ANSWER] = answer
        if not answer.lease:
            return self._app(environ, with_headers)
        try:
            return _Leased(self._app(environ, with_headers), self._client, answer.lease)
        except BaseException:
            self._client.release_later(answer.lease)
            raise

    def _ask(self, environ: Environ) -> Answer:
        def bytes_of(name: str) -> str:
            return str(environ.get(name, ""))

        forwarded = environ.get(self._ip_key)
        check = self._reader.check(
            environ, bytes_of("REQUEST_METHOD"), escaped(bytes_of("SCRIPT_NAME") + bytes_of("PATH_INFO")) or "/",
            bytes_of("HTTP_HOST"), bytes_of("REMOTE_ADDR"), [forwarded] if forwarded is not None else [],
            bytes_of("HTTP_USER_AGENT").encode("latin-1", "replace"), bytes_of("HTTP_TRACEPARENT"))
        try:
            try:
                return self._client.check(check)
            except Problem as e:
                other = without_host(check, e)
                if other is None:
                    raise
                return self._client.check(other)
        except SluiceError as e:
            self._reader.failed(environ, e)
            return self._client.fallback(check, e)


class _Leased:
    """A response that releases a lease when the server closes it."""

    def __init__(self, response: Iterable[bytes], client: Client, lease: str) -> None:
        self._response, self._client, self._lease = response, client, lease

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        try:
            close = getattr(self._response, "close", None)
            if close is not None:
                close()
        finally:
            lease, self._lease = self._lease, ""
            if lease:
                self._client.release_later(lease)


def _status(status: int) -> str:
    known = status in HTTPStatus._value2member_map_
    return f"{status} {HTTPStatus(status).phrase if known else 'Status'}"


def answer_of(environ: Environ) -> Optional[Answer]:
    """The answer that allowed a request: what remains, whether a fail mode decided, the lease to renew while a long
    request runs. None for a request that was not checked."""
    answer = environ.get(ANSWER)
    return answer if isinstance(answer, Answer) else None
