"""Limits the requests of an ASGI application, such as one of Starlette or FastAPI.

    client = sluice.AsyncClient("http://127.0.0.1:8080")
    app.add_middleware(LimitMiddleware, client=client)

A request of 203.0.113.7 for /users/17 is checked with its method, the route /users/{id}, the address and the host. If a
rule denies it, the client gets the status 429 with Retry-After, RateLimit and their like, and a problem document; the
application does not run. An allowed response has the headers too.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Awaitable, Callable, List, MutableMapping, Optional, Sequence, Tuple

from .client import AsyncClient
from .documents import Answer, Check
from .errors import ClosedError, Problem, SluiceError
from .requests import MOST_WAITING, Reader, Waiting, denial, escaped, without_host

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The key of the answer in the scope.
ANSWER = "sluice.answer"


class LimitMiddleware:
    """Checks each request and each WebSocket before the application runs."""

    def __init__(self, app: App, *, client: AsyncClient, trusted_proxies: Sequence[str] = (),
                 client_ip_header: str = "X-Forwarded-For", route: Optional[Callable[[Scope], str]] = None,
                 describe: Optional[Callable[[Scope, Check], Optional[Check]]] = None,
                 skip: Optional[Callable[[Scope], bool]] = None,
                 on_error: Optional[Callable[[Scope, Exception], None]] = None,
                 headers: Optional[Sequence[str]] = None, most_waiting: int = MOST_WAITING) -> None:
        """trusted_proxies are addresses and networks: only for their connections the client's address comes from
        client_ip_header. route names the template of a request's path, "" if unknown; by default it is that of
        Starlette's routes. describe completes a check, as by the authenticated user, or returns another. skip names
        requests that are not checked. on_error gets requests that could not be checked although the service is
        available; the fail mode then decides. headers are the client headers that are sent; None sends all.
        At most most_waiting requests wait at once because the answer asks for a delay; while so many wait, further ones
        pass or are denied at once.
        """
        self._app, self._client = app, client
        self._reader = Reader(trusted_proxies, client_ip_header, route or starlette_route, describe, skip, on_error,
                              headers)
        self._waiting = Waiting(most_waiting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._reader.skips(scope):
            await self._app(scope, receive, send)
            return
        answer = await self._ask(scope)
        if answer.lease:
            try:
                await self._serve(answer, scope, receive, send)
            finally:
                await self._release(answer.lease)
        else:
            await self._serve(answer, scope, receive, send)

    async def _ask(self, scope: Scope) -> Answer:
        fields = [(name.decode("latin-1").lower(), value) for name, value in scope["headers"]]

        def values(wanted: str) -> List[str]:
            return [value.decode("latin-1") for name, value in fields if name == wanted]

        raw = scope.get("raw_path")
        path = escaped(scope["path"].encode("utf-8", "replace").decode("latin-1"))
        if raw:
            path = raw.decode("latin-1").partition("?")[0]
        peer = scope.get("client")
        check = self._reader.check(
            scope, scope.get("method", "GET"), path, "".join(values("host")[:1]), peer[0] if peer else "",
            values(self._reader.ip_header), next((v for name, v in fields if name == "user-agent"), b""),
            "".join(values("traceparent")[:1]))
        try:
            try:
                return await self._client.check(check)
            except Problem as e:
                other = without_host(check, e)
                if other is None:
                    raise
                return await self._client.check(other)
        except SluiceError as e:
            self._reader.failed(scope, e)
            return self._client.fallback(check, e)

    async def _serve(self, answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
        fields = self._reader.headers_of(answer)
        if answer.delay_ms > 0:
            with self._waiting.place() as place:
                if place:
                    await asyncio.sleep(answer.delay_ms / 1000)
        if not answer.allowed:
            await _deny(answer, fields, scope, receive, send)
            return
        replaced = {name.lower() for name, _ in fields}

        async def with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                own = [(name, value) for name, value in message.get("headers", ())
                       if name.decode("latin-1").lower() not in replaced]
                message = {**message, "headers": own + _encoded(fields)}
            await send(message)

        await self._app({**scope, ANSWER: answer}, receive, with_headers)

    async def _release(self, lease: str) -> None:
        try:
            await self._client.release_later(lease)
        except ClosedError:  # the slot ends when its time is over
            pass


async def _deny(answer: Answer, fields: List[Tuple[str, str]], scope: Scope, receive: Receive, send: Send) -> None:
    extra, body = denial(answer)
    kind = scope["type"] + ".response" if scope["type"] == "http" else "websocket.http.response"
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1013})  # the server answers 403
            return
    await send({"type": kind + ".start", "status": answer.status, "headers": _encoded(fields + extra)})
    await send({"type": kind + ".body", "body": body})


def _encoded(fields: List[Tuple[str, str]]) -> List[Tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]


def answer_of(scope: Scope) -> Optional[Answer]:
    """The answer that allowed a request: what remains, whether a fail mode decided, the lease to renew while a long
    request runs. None for a request that was not checked. In Starlette the scope is request.scope."""
    answer = scope.get(ANSWER)
    return answer if isinstance(answer, Answer) else None


def starlette_route(scope: Scope) -> str:
    """The template of the first route of a Starlette application that fits, such as /users/{id}; "" if there is
    none."""
    try:
        return _template(getattr(scope.get("app"), "routes", None) or (), scope)
    except Exception:  # routes of another kind, of which nothing is known: the path counts
        return ""


def _template(routes: Sequence[Any], scope: Scope) -> str:
    for route in routes:
        route = getattr(route, "starlette_route", None) or route
        match, child = route.matches(scope)
        if getattr(match, "name", "") != "FULL":
            continue
        included = getattr(route, "effective_candidates", None)  # a router that FastAPI includes, with whole paths
        if included is not None:
            return _template(included(), scope)
        path = getattr(route, "path", "") or ""
        inner = getattr(route, "routes", None)
        if inner:
            below = _template(inner, {**scope, **child})
            return path.rstrip("/") + below if below else ""
        # A parameter of the kind path takes the rest; a mounted application routes by itself.
        path = re.sub(r"\{\w+:path\}$", "*", path)
        return re.sub(r"\{(\w+):\w+\}", r"{\1}", path) if hasattr(route, "endpoint") else ""
    return ""
