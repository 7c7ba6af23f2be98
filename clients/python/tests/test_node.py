"""The clients and the middleware on a real node."""

import asyncio
import io
import json
import threading
import unittest
from typing import Any, Dict, List, Optional, Tuple
from unittest import mock

import sluice
from sluice import asgi, wsgi
from sluice.requests import normal_host

from .support import PATIENCE, Node, direct

RULES = """
rules:
  - {name: per-user, scope: user, limit: 2, window_ms: 3600000, algorithm: fixed_window, align: first_hit}
  - {name: per-item, scope: ip, route: "/items/{id}", limit: 1, window_ms: 3600000, algorithm: fixed_window,
     align: first_hit}
  - {name: files, scope: ip, route: "/files/*", limit: 1, window_ms: 3600000, algorithm: fixed_window, align: first_hit}
  - {name: slots, scope: ip, route: /slots, limit: 1, window_ms: 3600000, algorithm: concurrency}
  - {name: tarpit, scope: ip, route: /tarpit, limit: 1, window_ms: 3600000, algorithm: fixed_window, align: first_hit,
     tarpit_ms: 1234}
  - {name: queue, scope: ip, route: /queue, limit: 10, window_ms: 3600000, burst: 10, algorithm: leaky_queue}
  - {name: shop, scope: ip, host: shop.test, route: /host, limit: 1, window_ms: 3600000, algorithm: fixed_window,
     align: first_hit}
"""

node: Node


def setUpModule() -> None:
    global node
    node = Node(RULES)


def tearDownModule() -> None:
    node.stop()


def fails(error: Exception) -> None:
    raise AssertionError(error)


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        self.degraded: List[Exception] = []
        self.client = sluice.Client(node.url, token_file=node.token_file, timeout_ms=PATIENCE, call_timeout_ms=PATIENCE,
                                    on_degraded=self.degraded.append)
        self.addCleanup(self.client.close)
        self.addCleanup(lambda: self.assertEqual(self.degraded, []))

    def test_decides_by_rules(self) -> None:
        check = sluice.Check(method="GET", route="/", user="ada")
        answers = [self.client.check(check) for _ in range(3)]
        self.assertEqual([a.status for a in answers], [200, 200, 429])
        denied = answers[2]
        self.assertEqual((denied.rule, denied.remaining, denied.limits[0].key), ("per-user", 0, "user:ada"))
        assert denied.body is not None
        self.assertEqual(denied.body["status"], 429)
        self.assertGreater(sluice.retry_after(denied) or 0, 3000)
        self.assertIsNone(sluice.retry_after(denied.headers, most_s=60))

    def test_decides_direct_checks_and_several_limits(self) -> None:
        self.assertEqual(self.client.check(direct("d")).remaining, 4)
        limits = [sluice.DirectLimit("a", sluice.Limit(1, 60_000), "per-ip"),
                  sluice.DirectLimit("b", sluice.Limit(5, 60_000), "per-account")]
        answers = [self.client.check(sluice.Check(limits=limits)) for _ in range(2)]
        self.assertEqual([(a.allowed, a.rule) for a in answers], [(True, "per-ip"), (False, "per-ip")])
        self.assertEqual(len(answers[1].limits), 2)

    def test_decides_a_batch_in_its_order(self) -> None:
        answers = self.client.batch([direct("b"), direct("b", weight=5), direct("c", weight=0)])
        self.assertEqual([a.allowed for a in answers], [True, False, True])
        self.assertEqual(self.client.batch([]), [])
        with self.assertRaises(sluice.Problem) as raised:
            self.client.batch([direct("b"), direct("b", weight=-1)])
        self.assertEqual([e.field for e in raised.exception.errors], ["checks[1].weight"])

    def test_reserves_and_settles(self) -> None:
        answer = self.client.reserve(direct("r", weight=4), 5000)
        self.assertTrue(answer.reservation and answer.expires_in_ms <= 5000)
        settled = self.client.settle(sluice.Settlement(answer.reservation, weight=1))
        self.assertEqual((settled.refunded, settled.used), (3, 1))
        with self.assertRaises(sluice.Problem) as raised:
            self.client.settle(sluice.Settlement("nothing", weight=1))
        self.assertIn(raised.exception.status, (400, 410, 422))

    def test_a_repeat_with_the_same_request_id_is_not_charged(self) -> None:
        answers = [self.client.check(direct("i", request_id="once")) for _ in range(2)]
        self.assertEqual([(a.remaining, a.replayed) for a in answers], [(4, False), (4, True)])

    def test_slots_are_renewed_and_released(self) -> None:
        limit = sluice.Limit(1, 3_600_000, "concurrency")
        held = self.client.check(sluice.Check(key="s", limit=limit))
        self.assertTrue(self.client.renew(held.lease).allowed)
        self.assertEqual(self.client.release(held.lease).refunded, 1)
        self.assertFalse(self.client.renew(held.lease).allowed)

    def test_64_threads_get_exactly_what_the_limit_allows(self) -> None:
        got: List[bool] = []

        def ask() -> None:
            for _ in range(5):
                got.append(self.client.check(sluice.Check(key="t", limit=sluice.Limit(100, 3_600_000))).allowed)

        threads = [threading.Thread(target=ask) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(got), sum(got)), (320, 100))


class TokenTest(unittest.TestCase):
    def test_a_node_with_tokens_wants_one(self) -> None:
        closed = Node(token=True)
        self.addCleanup(closed.stop)
        with sluice.Client(closed.url, token=closed.token, timeout_ms=PATIENCE, on_degraded=fails) as client:
            self.assertTrue(client.check(direct("k")).allowed)
        with sluice.Client(closed.url, timeout_ms=PATIENCE) as client:
            with self.assertRaises(sluice.Problem) as raised:
                client.check(direct("k"))
            self.assertEqual(raised.exception.status, 401)


class Route:
    """A route as Starlette's: a template that fits a path, or more routes below a prefix."""

    def __init__(self, path: str, prefix: str, routes: Optional[list] = None) -> None:
        self.path, self.prefix = path, prefix
        if routes is None:
            self.endpoint = None
        else:
            self.routes = routes

    def matches(self, scope: dict) -> Tuple[Any, dict]:
        class Match:
            name = "FULL" if scope["path"].startswith(self.prefix) else "NONE"

        return Match, {"path": scope["path"][len(self.prefix):]}


class Router:
    """A router that FastAPI includes."""

    def __init__(self, *routes: Any) -> None:
        self.routes = None
        self.effective_candidates = lambda: routes

    def matches(self, scope: dict) -> Tuple[Any, dict]:
        return self.effective_candidates()[0].matches(scope)


class StarletteApp:
    routes = [Router(Route("/v1/{id}", "/v1/")),
              Route("/items/{id:int}", "/items/"), Route("/files/{path:path}", "/files/"),
              Route("/sub", "/sub", [Route("/{name}", "/")])]


class AsgiTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)
        self.client = sluice.AsyncClient(node.url, token_file=node.token_file, timeout_ms=PATIENCE,
                                         call_timeout_ms=PATIENCE, on_degraded=fails)
        self.addAsyncCleanup(self.client.close)
        self.seen: List[Any] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"ratelimit", b"mine"), (b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"hello"})

    async def ask(self, path: str, peer: Any, kind: str = "http", headers: Dict[str, str] = {},
                  scope: Dict[str, Any] = {}, **options: Any) -> Tuple[Any, Dict[str, str], bytes]:
        sent: List[Any] = []

        async def receive() -> Any:
            return {"type": kind + ".connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        middleware = asgi.LimitMiddleware(self.app, client=self.client, **options)
        headers = {"Host": "shop.test", **headers}
        fields = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in headers.items()]
        await middleware({"type": kind, "method": "GET", "path": path, "raw_path": path.encode(), "headers": fields,
                          "client": (peer, 1) if peer else None, "app": StarletteApp(), **scope}, receive, send)
        return (sent[0].get("status", sent[0].get("code", sent[0]["type"])),
                {n.decode(): v.decode() for n, v in sent[0].get("headers", ())},
                b"".join(m.get("body", b"") for m in sent))

    async def test_allows_with_headers_and_denies_with_the_problem(self) -> None:
        status, headers, body = await self.ask("/items/1", "203.0.113.1")
        self.assertEqual((status, body, headers["a"], headers["x-ratelimit-remaining"]), (200, b"hello", "b", "0"))
        self.assertIn('"per-item";r=0', headers["ratelimit"])  # the limit's own header wins
        answer = asgi.answer_of(self.seen[0])
        assert answer is not None
        self.assertEqual(answer.rule, "per-item")
        # /items/2 has the same route, so the same bucket.
        status, headers, body = await self.ask("/items/2", "203.0.113.1")
        self.assertEqual((status, len(self.seen)), (429, 1))
        self.assertEqual((headers["content-type"], headers["cache-control"]), ("application/problem+json", "no-store"))
        self.assertGreater(int(headers["retry-after"]), 3000)
        self.assertEqual(json.loads(body)["error"], "rate_limit_exceeded")

    async def test_takes_the_templates_of_starlette(self) -> None:
        for path, want in (("/items/7", "/items/{id}"), ("/files/a/b", "/files/*"), ("/sub/x", "/sub/{name}"),
                           ("/v1/3", "/v1/{id}"),
                           ("/other", "")):
            self.assertEqual(asgi.starlette_route({"app": StarletteApp(), "path": path}), want)
        self.assertEqual(asgi.starlette_route({"path": "/"}), "")
        foreign = type("App", (), {"routes": [1]})
        self.assertEqual(asgi.starlette_route({"app": foreign, "path": "/"}), "")

    async def test_takes_the_address_from_trusted_proxies_only(self) -> None:
        forged = {"X-Forwarded-For": "198.51.100.9"}
        first = await self.ask("/files/a", "203.0.113.2", headers=forged)
        self.assertEqual(first[0], 200)
        self.assertEqual((await self.ask("/files/a", "203.0.113.2", headers={"X-Forwarded-For": "1.1.1.1"}))[0], 429)
        trusted = {"trusted_proxies": ["10.0.0.0/8"]}
        for value, want in (("198.51.100.9", 200), ("1.1.1.1, 198.51.100.9:123, 10.0.0.3", 429),
                            ("x, 2001:db8::1", 200),
                            ("[2001:db8::1]:80", 429), ("::ffff:198.51.100.9", 429)):
            got = await self.ask("/files/a", "10.0.0.2", headers={"X-Forwarded-For": value}, **trusted)
            self.assertEqual(got[0], want, value)

    async def test_skips_and_describes(self) -> None:
        for _ in range(4):
            got = await self.ask("/items/1", "203.0.113.3", skip=lambda scope: scope["path"] == "/items/1")
            self.assertEqual(got[0], 200)

        def describe(scope: Any, check: sluice.Check) -> None:
            check.user, check.weight = "grace", 2

        self.assertEqual([(await self.ask("/", "203.0.113.3", describe=describe))[0] for _ in range(2)], [200, 429])
        shown = await self.ask("/x", "203.0.113.4", describe=lambda s, c: direct("h"))  # another check
        self.assertEqual(shown[1]["x-ratelimit-remaining"], "4")

    async def test_sends_only_the_headers_that_are_listed(self) -> None:
        middleware = asgi.LimitMiddleware(self.app, client=self.client, headers=["Retry-After"])
        fields = middleware._reader.headers_of(sluice.Answer(headers={"Retry-After": "1", "RateLimit": "x"}))
        self.assertEqual(fields, [("Retry-After", "1")])

    async def test_the_fail_mode_decides_what_cannot_be_checked(self) -> None:
        errors: List[Exception] = []
        client = sluice.AsyncClient(node.url, token_file=node.token_file, timeout_ms=PATIENCE, fail_mode="closed")
        self.addAsyncCleanup(client.close)
        self.client = client

        def describe(scope: Any, check: sluice.Check) -> None:
            check.weight = -1

        status, headers, _ = await self.ask("/", "203.0.113.5", describe=describe,
                                            on_error=lambda scope, e: errors.append(e))
        self.assertEqual((status, headers["x-ratelimit-mode"]), (503, "closed"))
        self.assertIsInstance(errors[0], sluice.Problem)

    async def test_slots_end_with_the_request(self) -> None:
        for _ in range(3):
            self.assertEqual((await self.ask("/slots", "203.0.113.6"))[0], 200)
            await asyncio.gather(*self.client._releases)

        async def breaks(scope: Any, receive: Any, send: Any) -> None:
            raise RuntimeError("of the test")

        app, self.app = self.app, breaks
        with self.assertRaises(RuntimeError):
            await self.ask("/slots", "203.0.113.6")
        self.app = app
        await asyncio.gather(*self.client._releases)
        self.assertEqual((await self.ask("/slots", "203.0.113.6"))[0], 200)

    async def test_a_delayed_request_waits(self) -> None:
        with mock.patch("sluice.asgi.asyncio.sleep", mock.AsyncMock()) as pause:
            for _ in range(2):
                await self.ask("/queue", "203.0.113.7", describe=lambda s, c: setattr(c, "weight", 5))
        answer = asgi.answer_of(self.seen[-1])
        assert answer is not None
        self.assertGreater(answer.delay_ms, 1_000_000)
        pause.assert_awaited_once_with(answer.delay_ms / 1000)

    async def test_a_denial_is_held_back(self) -> None:
        with mock.patch("sluice.asgi.asyncio.sleep", mock.AsyncMock()) as pause:
            got = [(await self.ask("/tarpit", "203.0.113.9"))[0] for _ in range(2)]
        self.assertEqual(got, [200, 429])
        pause.assert_awaited_once_with(1.234)

    async def test_no_more_requests_wait_at_once_than_may(self) -> None:
        middleware = asgi.LimitMiddleware(self.app, client=self.client, most_waiting=2)
        answers = [sluice.Answer(allowed=True, delay_ms=3_600_000), sluice.Answer(status=429, delay_ms=3_600_000)]
        sent: List[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        def serve(answer: sluice.Answer) -> Any:
            return middleware._serve(answer, {"type": "http"}, None, send)

        waiting = [asyncio.ensure_future(serve(answers[0])) for _ in range(2)]
        await asyncio.sleep(0)  # both wait
        for answer, want in zip(answers, (200, 429)):
            sent.clear()
            await serve(answer)
            self.assertEqual(sent[0]["status"], want)
        sent.clear()
        waiting[0].cancel()  # and gives its place back
        with self.assertRaises(asyncio.CancelledError):
            await waiting[0]
        third = asyncio.ensure_future(serve(answers[0]))
        await asyncio.sleep(0)
        self.assertEqual(sent, [])
        for task in (waiting[1], third):
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        with self.assertRaises(ValueError):
            asgi.LimitMiddleware(self.app, client=self.client, most_waiting=0)

    async def test_websockets_are_checked(self) -> None:
        self.assertEqual((await self.ask("/items/1", "203.0.113.8", kind="websocket"))[0], "websocket.accept")
        self.assertEqual((await self.ask("/items/1", "203.0.113.8", kind="websocket"))[0], 1013)
        answered = await self.ask("/items/1", "203.0.113.8", kind="websocket",
                                  scope={"extensions": {"websocket.http.response": {}}})
        self.assertEqual(answered[0], 429)
        self.assertEqual(len(self.seen), 1)

    async def test_passes_on_what_is_no_request(self) -> None:
        seen = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            seen.append(scope)

        await asgi.LimitMiddleware(app, client=self.client)({"type": "lifespan"}, None, None)
        self.assertEqual(seen, [{"type": "lifespan"}])

    async def test_no_request_makes_a_check_that_the_service_refuses(self) -> None:
        errors: List[Exception] = []
        for host in ("a..b", "-a", "a-", "_x", "1", "1.2.3", "999.1.1.1", "0x7f.1", "a" * 64, "a." * 130, "é",
                     "a b", ":", "[::1", "[::1]:80", "::1", "a:b:c", "%00", "a\x00", "xn--a", "a.b.", "..", "*",
                     "x" * 2000, "a_b", "xn--zzzzzzz99", "ab--cd", "0300.1.a", "", "-", "a.-b"):
            for path in ("/", "/%zz", "/" + "é" * 2000, "//", "/../x", "/\x01"):
                await self.ask(path, None, headers={"Host": host, "User-Agent": "\xff" * 600, "traceparent": "00-x-y"},
                               scope={"raw_path": None, "method": "G" * 2000},
                               on_error=lambda scope, e: errors.append((host, path, str(e))))
        self.assertEqual(errors, [])
        hosts = [normal_host(h) for h in ("Shop.Test:80", "[::1]:80", "a.b.", "é")]
        self.assertEqual(hosts, ["shop.test", "::1", "a.b", ""])


class WsgiTest(unittest.TestCase):
    def setUp(self) -> None:
        self.client = sluice.Client(node.url, token_file=node.token_file, timeout_ms=PATIENCE, call_timeout_ms=PATIENCE,
                                    on_degraded=fails)
        self.addCleanup(self.client.close)
        self.seen: List[Any] = []

    def app(self, environ: Any, start_response: Any) -> Any:
        self.seen.append(environ)
        start_response("200 OK", [("A", "b")])
        return io.BytesIO(b"hello")

    def ask(self, path: str, peer: str, close: bool = True, extra: Dict[str, str] = {}, **options: Any) -> Any:
        started: List[Any] = []
        middleware = wsgi.LimitMiddleware(self.app, client=self.client, **options)
        environ = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, "HTTP_HOST": "shop.test",
                   "REMOTE_ADDR": peer, **extra}
        response = middleware(environ, lambda status, headers, *e: started.append((status, headers)))
        body = b"".join(response)
        if close and hasattr(response, "close"):
            response.close()
        return started[0][0], dict(started[0][1]), body

    def test_allows_with_headers_and_denies_with_the_problem(self) -> None:
        status, headers, body = self.ask("/files/x", "198.51.100.1")
        self.assertEqual((status, body, headers["A"], headers["X-RateLimit-Remaining"]), ("200 OK", b"hello", "b", "0"))
        answer = wsgi.answer_of(self.seen[0])
        assert answer is not None
        self.assertEqual(answer.rule, "files")
        status, headers, body = self.ask("/files/y", "198.51.100.1")
        self.assertEqual((status, len(self.seen)), ("429 Too Many Requests", 1))
        self.assertEqual(json.loads(body)["status"], 429)
        self.assertEqual(headers["Content-Type"], "application/problem+json")

    def test_route_proxies_and_host(self) -> None:
        template = {"route": lambda environ: "/items/{id}"}
        self.assertEqual(self.ask("/whatever/1", "198.51.100.2", **template)[0], "200 OK")
        self.assertEqual(self.ask("/whatever/2", "198.51.100.2", **template)[0][:3], "429")
        proxied = {"trusted_proxies": ["10.0.0.1"], "extra": {"HTTP_X_FORWARDED_FOR": "198.51.100.3"}}
        self.assertEqual([self.ask("/host", "10.0.0.1", **proxied)[0][:3] for _ in range(2)], ["200", "429"])
        other = {**proxied, "extra": {**proxied["extra"], "HTTP_HOST": "other.test"}}
        self.assertEqual(self.ask("/host", "10.0.0.1", **other)[0][:3], "200")

    def test_a_delayed_request_waits(self) -> None:
        with mock.patch("sluice.wsgi.time.sleep") as pause:
            for _ in range(2):
                self.ask("/queue", "198.51.100.7", describe=lambda s, c: setattr(c, "weight", 5))
        pause.assert_called_once_with(wsgi.answer_of(self.seen[-1]).delay_ms / 1000)

    def test_a_denial_is_held_back(self) -> None:
        with mock.patch("sluice.wsgi.time.sleep") as pause:
            got = [self.ask("/tarpit", "198.51.100.8")[0][:3] for _ in range(2)]
        self.assertEqual(got, ["200", "429"])
        pause.assert_called_once_with(1.234)

    def test_no_more_requests_wait_at_once_than_may(self) -> None:
        middleware = wsgi.LimitMiddleware(self.app, client=self.client, most_waiting=1)
        waits, ends = threading.Event(), threading.Event()

        def pause(seconds: float) -> None:
            waits.set()
            ends.wait(PATIENCE / 1000)

        def ask() -> str:
            started: List[str] = []
            middleware({}, lambda status, headers, *rest: started.append(status))
            return started[0]

        middleware._ask = lambda environ: sluice.Answer(status=429, delay_ms=5000)
        with mock.patch("sluice.wsgi.time.sleep", mock.Mock(side_effect=pause)) as sleep:
            first = threading.Thread(target=ask)
            first.start()
            self.assertTrue(waits.wait(PATIENCE / 1000))
            self.assertEqual(ask(), "429 Too Many Requests")
            sleep.assert_called_once_with(5)
            ends.set()
            first.join()
        with self.assertRaises(ValueError):
            wsgi.LimitMiddleware(self.app, client=self.client, most_waiting=0)

    def test_slots_end_when_the_response_is_closed(self) -> None:
        self.assertEqual(self.ask("/slots", "198.51.100.4", close=False)[0][:3], "200")
        self.assertEqual(self.ask("/slots", "198.51.100.4")[0][:3], "429")
        self.assertEqual(self.ask("/slots", "198.51.100.5")[0][:3], "200")
        self.client.close()  # waits for the release
        self.client = sluice.Client(node.url, token_file=node.token_file, timeout_ms=PATIENCE, on_degraded=fails)
        self.addCleanup(self.client.close)
        self.assertEqual(self.ask("/slots", "198.51.100.5")[0][:3], "200")


if __name__ == "__main__":
    unittest.main()
