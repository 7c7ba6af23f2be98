"""What the clients answer while the service does not decide."""

import asyncio
import json
import logging
import time
import unittest

import sluice
from sluice.breaker import FAILURES_TO_OPEN, Breaker, Outcome, Permission
from sluice.dispatcher import Waiter
from sluice.documents import Answer

from .support import PATIENCE, Fake, Reply, direct, problem

QUIET = logging.getLogger("quiet")
QUIET.setLevel(logging.CRITICAL)

_CAUSES = {
    "connection": Reply(raw=None),
    "a short body": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"),
    "500": problem(500, "internal"),
    "503": problem(503, "not-ready"),
    "502 page": Reply(502, "<html>"),
    "429": Reply(429, ""),
    "408": Reply(408, ""),
}
# Responses that are no answers.
_UNREADABLE = {
    "no JSON": Reply(200, "<html>welcome</html>"),
    "cut short": Reply(200, '{"allowed":true,"status":200,"lim'),
    "no answer": Reply(200, '{"status":"ok"}'),
    "empty": Reply(200, "{}"),
    "no body": Reply(200, ""),
    "204": Reply(raw=b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
    "list": Reply(200, "[]"),
    "no allowed": Reply(200, '{"status":200}'),
    "wrong figure": Reply(200, '{"allowed":true,"status":200,"remaining":"1"}'),
    "null": Reply(200, "null"),
    "status 0": Reply(200, '{"allowed":false,"status":0}'),
    "allowed is a word": Reply(200, '{"allowed":"yes","status":200}'),
    "status is true": Reply(200, '{"allowed":true,"status":true}'),
    "headers are a list": Reply(200, '{"allowed":true,"status":200,"headers":["a"]}'),
    "a header of two lines": Reply(200, '{"allowed":true,"status":200,"headers":{"A":"1\\r\\nB: 2"}}'),
    "a header with no name": Reply(200, '{"allowed":true,"status":200,"headers":{"A: 1":"2"}}'),
    "a figure beyond 64 bits": Reply(200, '{"allowed":false,"status":429,"retry_after_ms":1' + "0" * 400 + "}"),
    "a limit is a number": Reply(200, '{"allowed":true,"status":200,"limits":[1]}'),
    "deep": Reply(200, "[" * 200_000),
    "not HTTP": Reply(raw=b"SSH-2.0-OpenSSH\r\n\r\n"),
    "no length": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}"),
    "huge": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 268435457\r\n\r\n{}"),
    "a wrong chunk": Reply(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"),
    "a redirect": Reply(raw=b"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
}


class FailModeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.fake = Fake()
        self.addCleanup(self.fake.close)

    def client(self, **options) -> sluice.Client:
        client = sluice.Client(self.fake.url, **{"timeout_ms": PATIENCE, **options})
        self.addCleanup(client.close)
        return client

    def test_decides_while_the_service_is_unavailable(self) -> None:
        wanted = {"open": (200, 200), "closed": (503, 503), "local": (200, 429)}
        for cause, reply in {**_CAUSES, **_UNREADABLE}.items():
            for mode, want in wanted.items():
                with self.subTest(cause=cause, mode=mode):
                    errors, counts = [], {}

                    def count(name, n):
                        counts[name] = counts.get(name, 0) + n

                    self.fake.reply = lambda call: reply
                    client = self.client(fail_mode=mode, local_limit=sluice.LocalLimit(1, 3_600_000),
                                         on_degraded=errors.append, on_count=count, log=QUIET)
                    answers = [client.check(direct("k")), client.reserve(direct("k"))]
                    client.close()
                    self.assertEqual(tuple(a.status for a in answers), want)
                    for answer in answers:
                        self.assertEqual((answer.degraded, answer.by_client), (mode, True))
                        self.assertEqual(answer.allowed, answer.status == 200)
                        if not answer.allowed:
                            self.assertGreater(int(answer.headers["Retry-After"]), 0)
                            self.assertIn("violated-policies", answer.body)
                    self.assertEqual(len(errors), 2)
                    self.assertEqual((counts["checks"], counts["degraded"], counts.get("unreadable", 0)),
                                     (2, 2, 2 if cause in _UNREADABLE else 0))

    def test_says_once_that_it_cannot_read_an_answer(self) -> None:
        for cause, reply in _UNREADABLE.items():
            with self.subTest(cause=cause):
                self.fake.reply = lambda call, reply=reply: reply
                degraded = []
                client = self.client(fail_mode="closed", on_degraded=degraded.append,
                                     log=logging.getLogger("unreadable"))
                with self.assertLogs("unreadable", "WARNING") as said:
                    for _ in range(3):
                        self.assertEqual(client.check(direct("k")).status, 503)
                    self.assertEqual([a.status for a in client.batch([direct("a"), direct("b")])], [503, 503])
                self.assertEqual((len(said.output), len(degraded)), (1, 5))

    def test_accepts_members_that_it_does_not_know(self) -> None:
        self.fake.reply = lambda call: Reply(200, json.dumps(
            {"allowed": True, "status": 200, "novel": {"a": 1}, "_read": 1, "limits": [
                {"rule": None, "key": "k", "allowed": True, "mode": "enforce", "novel": [1]}]}))
        answer = self.client().check(direct("k"))
        self.assertTrue(answer.allowed)
        self.assertIsNone(answer.degraded)
        self.assertFalse(hasattr(answer, "novel"))
        self.assertEqual(answer.limits[0].key, "k")

    def test_decides_a_batch_that_lacks_answers(self) -> None:
        client = self.client(fail_mode="closed", log=QUIET)
        for results in ("null,null", "{},{}", '{"allowed":true,"status":200}', '{"allowed":true,"status":200},{}',
                        '{"allowed":true,"status":200},{"allowed":"yes","status":200}'):
            self.fake.reply = lambda call, results=results: Reply(200, f'{{"results":[{results}]}}')
            self.assertEqual([a.status for a in client.batch([direct("a"), direct("b")])], [503, 503])

    def test_a_frozen_service_costs_the_timeout_and_then_nothing(self) -> None:
        self.fake.gate.clear()
        client = sluice.Client(self.fake.url)
        self.addCleanup(client.close)
        for _ in range(200):
            self.assertEqual(client.check(direct("k")).degraded, "open")
        # A late thread may leave one call more under way when the breaker opens.
        self.assertLessEqual(len(self.fake.calls), FAILURES_TO_OPEN + 3)

    def test_a_dead_server_costs_no_more_than_the_timeout(self) -> None:
        for base in ("http://127.0.0.1:1", "http://192.0.2.1:80"):  # refused, and without any answer
            client = sluice.Client(base, fail_mode="closed")
            # Nothing else bounds a check: with the call timeout instead it would take 40 times as long.
            begin = time.monotonic()
            answers = [client.check(direct("k")) for _ in range(FAILURES_TO_OPEN)]
            took = time.monotonic() - begin
            client.close()
            self.assertEqual({a.status for a in answers}, {503})
            self.assertLess(took, FAILURES_TO_OPEN * 1.0)

    def test_a_wrong_request_is_an_error_and_no_outage(self) -> None:
        client = self.client(fail_mode="closed")
        for status in (400, 401, 403, 404, 413, 415, 422):
            self.fake.reply = lambda call, status=status: problem(status, "x")
            for _ in range(FAILURES_TO_OPEN + 1):
                with self.assertRaises(sluice.Problem) as raised:
                    client.check(direct("k"))
                self.assertEqual((raised.exception.status, raised.exception.type), (status, "/problems/x"))
                self.assertFalse(sluice.unavailable(raised.exception))

    def test_an_overloaded_service_denies_and_is_no_outage(self) -> None:
        self.fake.reply = lambda call: problem(503, "overloaded")
        degraded = []
        client = self.client(on_degraded=degraded.append)
        for _ in range(FAILURES_TO_OPEN + 1):
            for answer in (client.check(direct("k")), client.reserve(direct("k")), *client.batch([direct("k")] * 250)):
                self.assertEqual((answer.allowed, answer.status, answer.overloaded, answer.by_client),
                                 (False, 503, True, False))
                self.assertEqual(answer.headers["Retry-After"], "1")
        self.assertEqual(degraded, [])
        self.fake.reply = lambda call: None
        self.assertTrue(client.check(direct("k")).allowed)

    def test_operations_have_no_fail_mode(self) -> None:
        self.fake.reply = lambda call: problem(503, "store-unavailable")
        client = self.client()
        for _ in range(FAILURES_TO_OPEN + 1):
            with self.assertRaises(sluice.Problem) as raised:
                client.settle(sluice.Settlement("r", weight=1))
            self.assertTrue(sluice.unavailable(raised.exception))
        self.fake.reply = lambda call: None
        self.assertIsNone(client.check(direct("k")).degraded)

    def test_text_without_a_form_in_utf8_is_a_problem(self) -> None:
        client = self.client()
        with self.assertRaises(sluice.Problem) as raised:
            client.check(sluice.Check(user="\ud800", route="/"))
        self.assertEqual([(e.field, raised.exception.status) for e in raised.exception.errors], [("user", 400)])
        with self.assertRaises(sluice.Problem) as raised:
            client.batch([direct("a"), direct("\ud800")])
        self.assertEqual(raised.exception.errors[0].field, "checks[1].key")
        self.assertEqual(self.fake.calls, [])

    def test_a_callback_that_fails_changes_nothing(self) -> None:
        self.fake.reply = lambda call: Reply(raw=None)

        def fails(*args) -> None:
            raise RuntimeError("of the test")

        log = logging.getLogger("callbacks")
        client = self.client(fail_mode="closed", on_degraded=fails, on_count=fails, log=log)
        with self.assertLogs("callbacks", "WARNING"):
            self.assertEqual(client.check(direct("k")).status, 503)


class BreakerTest(unittest.IsolatedAsyncioTestCase):
    async def test_probes_one_at_a_time_and_closes(self) -> None:
        now = 0.0
        breaker = Breaker(lambda: now)
        for _ in range(FAILURES_TO_OPEN):
            self.assertIs(breaker.enter(), Permission.PERMITTED)
            breaker.leave(Permission.PERMITTED, Outcome.FAILING)
        for pause in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
            now += pause * 0.99
            self.assertIs(breaker.enter(), Permission.REFUSED)
            now += pause * 0.02
            self.assertIs(breaker.enter(), Permission.PROBE)
            self.assertIs(breaker.enter(), Permission.REFUSED)
            breaker.leave(Permission.PROBE, Outcome.FAILING)
        now += 1.0
        self.assertIs(breaker.enter(), Permission.PROBE)
        breaker.leave(Permission.PROBE, Outcome.UNKNOWN)
        self.assertIs(breaker.enter(), Permission.PROBE)
        breaker.leave(Permission.PROBE, Outcome.SUCCEEDED)
        self.assertIs(breaker.enter(), Permission.PERMITTED)

    async def test_a_probe_whose_caller_leaves_makes_room_for_the_next(self) -> None:
        asyncio.get_running_loop().set_debug(False)
        fake = Fake()
        self.addCleanup(fake.close)
        fake.reply = lambda call: Reply(raw=None)
        async with sluice.AsyncClient(fake.url, timeout_ms=PATIENCE) as client:
            for _ in range(FAILURES_TO_OPEN):
                await client.check(direct("k"))
            dispatcher = client._started()
            self.assertTrue(dispatcher.breaker.open)
            dispatcher.breaker._until = 0.0
            fake.gate.clear()
            made = len(fake.calls)
            probe = asyncio.ensure_future(client.check(direct("k")))
            while len(fake.calls) == made:
                await asyncio.sleep(0)
            probe.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await probe
            fake.gate.set()
            # This one leaves before its call has begun.
            dispatcher.breaker._until = 0.0
            waiter = Waiter(b"{}", lambda: None)
            dispatcher.check(waiter)
            dispatcher.leave(waiter, False)
            while dispatcher._tasks:
                await asyncio.sleep(0)
            fake.reply = lambda call: None
            dispatcher.breaker._until = 0.0
            self.assertIsNone((await client.check(direct("k"))).degraded)


class ReadTest(unittest.TestCase):
    def test_null_is_the_default(self) -> None:
        answer = Answer._read({"allowed": False, "status": 429, "limits": None, "headers": None, "delay_ms": None})
        self.assertEqual((answer.limits, answer.headers, answer.delay_ms), ([], {}, 0))


if __name__ == "__main__":
    unittest.main()
