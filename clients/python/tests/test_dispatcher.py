"""Which checks share a call, and what happens to callers that leave."""

import asyncio
import json
import os
import threading
import unittest
from typing import Any, Callable, List

import sluice

from .support import PATIENCE, Call, Fake, Reply, direct, problem


def refuse(bad: Callable[[Any], bool], named: bool = True) -> Callable[[Call], Any]:
    """Answers as the service does: with an invalid check, nothing of a batch is decided."""

    def reply(call: Call):
        errors = []
        for i, body in enumerate(call.bodies):
            if bad(body):
                field = f"checks[{i}].weight" if call.path.endswith("/batch") else "weight"
                errors.append((field if named else "body", "is bad"))
        return problem(422, "invalid", tuple(errors)) if errors else None

    return reply


def overloaded(most: int) -> Callable[[Call], Any]:
    """Refuses every call with more than most checks."""
    return lambda call: problem(503, "overloaded") if len(call.bodies) > most else None


class DispatcherTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)  # which would log what is slow on a busy machine
        self.fake = Fake()
        self.addCleanup(self.fake.close)
        self.degraded: List[Exception] = []
        self.counts: dict = {}
        self.client = self.new()

    def new(self, **options: Any) -> sluice.AsyncClient:
        client = sluice.AsyncClient(self.fake.url, on_degraded=self.degraded.append, on_count=self.count,
                                    **{"timeout_ms": PATIENCE, **options})
        self.addAsyncCleanup(client.close)
        return client

    def count(self, name: str, n: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + n

    async def ask(self, n: int, prefix: str = "k") -> List["asyncio.Task[sluice.Answer]"]:
        """Checks n keys at once, and returns when all wait."""
        tasks = [asyncio.ensure_future(self.client.check(direct(f"{prefix}{i}"))) for i in range(n)]
        for _ in range(5):  # each turn of the loop lets all of them and the dispatcher run
            await asyncio.sleep(0)
        return tasks

    async def answered(self, tasks: List["asyncio.Task[sluice.Answer]"], prefix: str = "k") -> None:
        for i, answer in enumerate(await asyncio.gather(*tasks)):
            self.assertTrue(answer.allowed)
            self.assertEqual(answer.limits[0].key, f"{prefix}{i}")
        self.assertEqual(self.degraded, [])

    def decided(self, refused: Callable[[Call], Any] = lambda call: None) -> dict:
        """How often each key was in a call that was not refused."""
        times: dict = {}
        for call in self.fake.calls:
            if refused(call) is None:
                for body in call.bodies:
                    times[body["key"]] = times.get(body["key"], 0) + 1
        return times

    async def test_gathers_while_calls_are_in_flight(self) -> None:
        self.fake.gate.clear()
        tasks = await self.ask(64)
        dispatcher = self.client._started()
        self.assertLessEqual(dispatcher._calls, 4)
        self.fake.gate.set()
        await self.answered(tasks)
        self.assertIn("/ratelimit/check", [call.path for call in self.fake.calls])  # the first did not wait for others
        self.assertLessEqual(len(self.fake.calls), 5)
        self.assertEqual(self.decided(), {f"k{i}": 1 for i in range(64)})
        self.assertEqual((self.counts["checks"], self.counts["carried"], self.counts["calls"]),
                         (64, 64, len(self.fake.calls)))

    async def test_goes_at_once_if_nothing_is_in_flight(self) -> None:
        for _ in range(3):
            await self.client.check(direct("k"))
        self.assertEqual([call.path for call in self.fake.calls], ["/ratelimit/check"] * 3)

    async def test_batches_stay_within_their_bounds(self) -> None:
        for callers, key in ((2500, "k"), (200, "k" * 15_000)):
            self.fake.calls.clear()
            self.fake.gate.clear()
            tasks = [asyncio.ensure_future(self.client.check(direct(key))) for _ in range(callers)]
            await asyncio.sleep(0)
            self.fake.gate.set()
            await asyncio.gather(*tasks)
            for call in self.fake.calls:
                size = len(json.dumps({"checks": call.bodies}, separators=(",", ":")))
                self.assertTrue(len(call.bodies) <= 1000 and size <= 1 << 20, (len(call.bodies), size))
            self.assertEqual(sum(len(call.bodies) for call in self.fake.calls), callers)
        self.assertEqual(self.degraded, [])

    async def test_with_a_payload_or_of_many_bytes_travels_alone(self) -> None:
        self.fake.gate.clear()
        waiting = await self.ask(20)
        alone = [asyncio.ensure_future(self.client.check(c)) for c in (
            sluice.Check(user="u", payload=""), direct("k" * 17_000))]
        self.fake.gate.set()
        await asyncio.gather(*alone)
        await self.answered(waiting)
        single = [call.bodies[0] for call in self.fake.calls if call.path == "/ratelimit/check"]
        self.assertIn({"user": "u", "payload": ""}, single)
        self.assertIn("k" * 17_000, [body.get("key") for body in single])

    async def test_a_caller_that_leaves_is_dropped(self) -> None:
        self.fake.gate.clear()
        tasks = await self.ask(40)
        leaver = asyncio.ensure_future(self.client.check(direct("leaver")))
        await asyncio.sleep(0)
        leaver.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await leaver
        self.fake.gate.set()
        await self.answered(tasks)
        self.assertNotIn("leaver", self.decided())

    async def test_a_call_is_cancelled_when_all_its_callers_have_left(self) -> None:
        self.fake.gate.clear()
        tasks = await self.ask(50)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        dispatcher = self.client._started()
        while dispatcher._tasks:
            await asyncio.sleep(0)
        self.assertEqual((dispatcher._calls, dispatcher._carried, len(dispatcher._queue)), (0, 0, 0))
        self.assertEqual(dispatcher.breaker.failures, 0)
        self.fake.gate.set()
        self.assertTrue((await self.client.check(direct("k"))).allowed)

    async def test_an_invalid_one_does_not_fail_the_others(self) -> None:
        for named in (True, False):
            self.fake.calls.clear()
            self.fake.reply = refused = refuse(lambda body: body.get("weight") == -1, named)
            self.fake.gate.clear()
            good = await self.ask(30)
            bad = [asyncio.ensure_future(self.client.check(direct(f"bad{i}", weight=-1))) for i in range(3)]
            more = await self.ask(30, "m")
            self.fake.gate.set()
            await self.answered(good)
            await self.answered(more, "m")
            for result in await asyncio.gather(*bad, return_exceptions=True):
                assert isinstance(result, sluice.Problem), result
                self.assertEqual((result.status, len(result.errors)), (422, 1))
                if named:
                    self.assertEqual(result.errors[0].field, "weight")
            self.assertEqual(set(self.decided(refused).values()), {1})
            self.assertEqual(len(self.decided(refused)), 60)

    async def test_what_an_overloaded_service_refuses_is_sent_again_in_small_calls(self) -> None:
        self.fake.reply = overloaded(100)
        self.fake.gate.clear()
        tasks = await self.ask(700)
        self.fake.gate.set()
        await self.answered(tasks)
        self.assertEqual(self.decided(overloaded(100)), {f"k{i}": 1 for i in range(700)})
        self.assertEqual(self.client._started().breaker.failures, 0)

    async def test_a_batch_that_is_refused_is_sent_again_in_small_calls(self) -> None:
        for n, padding in ((1000, 0), (90, 1000)):
            self.fake.calls.clear()
            self.fake.reply = lambda call: problem(503, "overloaded") if len(self.fake.calls) == 1 else None
            checks = [direct(f"k{i}" + "x" * padding) for i in range(n)]
            answers = await self.client.batch(checks)
            self.assertEqual([a.limits[0].key for a in answers], [c.key for c in checks])
            for call in self.fake.calls[1:]:
                size = len(json.dumps({"checks": call.bodies}, separators=(",", ":")))
                self.assertTrue(len(call.bodies) <= 100 and size <= 64 << 10, (len(call.bodies), size))
        refused = refuse(lambda body: body.get("weight") == -1)
        self.fake.reply = lambda call: overloaded(100)(call) or refused(call)
        checks = [direct(f"k{i}", weight=-1 if i == 217 else 1) for i in range(250)]
        with self.assertRaises(sluice.Problem) as raised:
            await self.client.batch(checks)
        self.assertEqual([e.field for e in raised.exception.errors], ["checks[217].weight"])

    async def test_the_queue_is_bounded(self) -> None:
        self.client = self.new(max_queue=10)
        self.fake.gate.clear()
        tasks = await self.ask(64)
        done = [task for task in tasks if task.done()]
        self.assertGreater(len(done), 0)
        self.assertTrue(all(task.result().degraded == "open" for task in done))
        self.assertLessEqual(len(self.client._started()._queue), 10)
        self.assertEqual(self.client._started().breaker.failures, 0)
        self.fake.gate.set()
        await asyncio.gather(*tasks)

    async def test_close_ends_the_checks_that_wait(self) -> None:
        self.fake.gate.clear()
        tasks = await self.ask(50)
        reserve = asyncio.ensure_future(self.client.reserve(direct("r")))
        await asyncio.sleep(0)
        await self.client.close()
        for result in await asyncio.gather(*tasks, reserve, return_exceptions=True):
            self.assertIsInstance(result, sluice.ClosedError)
        with self.assertRaises(sluice.ClosedError):
            await self.client.check(direct("k"))
        await self.client.close()
        self.assertEqual(self.degraded, [])

    async def test_close_waits_for_releases(self) -> None:
        await self.client.release_later("lease")
        await self.client.close()
        self.assertEqual([call.path for call in self.fake.calls], ["/ratelimit/release"])

    async def test_says_how_long_it_waits(self) -> None:
        for timeout, want in ((PATIENCE, {"1000"}), (500, {str(n) for n in range(400, 501)})):
            self.fake.calls.clear()
            client = self.new(timeout_ms=timeout)
            await client.check(direct("k"))
            await client.batch([direct("k"), direct("l")])
            await client.reserve(direct("k"), 5000, {"percent": 50})
            for call in self.fake.calls:
                self.assertIn(call.headers["Sluice-Timeout-Ms"], want, call.path)
        self.assertEqual(self.fake.calls[-1].bodies[0]["ttl_ms"], 5000)
        self.assertEqual(self.fake.calls[-1].bodies[0]["on_expire"], {"percent": 50})

    async def test_follows_no_redirect_and_repeats_nothing(self) -> None:
        self.fake.reply = lambda call: Reply(
            raw=f"HTTP/1.1 307 Moved\r\nConnection: close\r\nLocation: {self.fake.url}/x\r\n\r\n".encode())
        client = self.new(token="slk_secret")
        self.assertTrue((await client.check(direct("k"))).by_client)
        self.assertEqual(len(self.fake.calls), 1)
        self.fake.reply = lambda call: Reply(raw=None)
        await client.check(direct("k"))
        self.assertEqual(len(self.fake.calls), 2)

    async def test_reads_a_response_in_any_form_of_http(self) -> None:
        text = json.dumps({"allowed": True, "status": 200})
        for raw in (
            f"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{text}",
            f"HTTP/1.0 200\r\n\r\n{text}",
            f"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n"
            f"Content-Length: {len(text)}\r\n\r\n{text}",
            f"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n{text[:5]}\r\n"
            f"{len(text) - 5:X}\r\n{text[5:]}\r\n0\r\nTrailer: x\r\n\r\n",
        ):
            self.fake.reply = lambda call, raw=raw: Reply(raw=raw.encode())
            answer = await self.client.check(direct("k"))
            self.assertTrue(answer.allowed and answer.degraded is None, raw)

    async def test_keeps_connections_and_opens_no_more_than_the_most(self) -> None:
        client = self.new(max_conns=2)
        self.fake.gate.clear()
        calls = [asyncio.ensure_future(client.reserve(direct(f"k{i}"))) for i in range(6)]
        while len(self.fake.calls) < 2:
            await asyncio.sleep(0)
        connections = client._started()._connections
        self.assertEqual((len(connections._open), len(connections._waiting)), (2, 4))
        self.fake.gate.set()
        await asyncio.gather(*calls)
        self.assertEqual(len(connections._open), 2)


class ThreadTest(unittest.TestCase):
    def setUp(self) -> None:
        self.fake = Fake()
        self.addCleanup(self.fake.close)

    def test_threads_share_calls(self) -> None:
        self.fake.gate.clear()
        client = sluice.Client(self.fake.url, timeout_ms=PATIENCE)
        self.addCleanup(client.close)
        got: List[str] = []

        def ask(key: str) -> None:
            got.append(client.check(direct(key)).limits[0].key)

        threads = [threading.Thread(target=ask, args=(f"k{i}",)) for i in range(64)]
        for thread in threads:
            thread.start()
        dispatcher = client._started().dispatcher
        while len(dispatcher._queue) + dispatcher._carried < 64:
            threading.Event().wait(0.001)
        self.fake.gate.set()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got), sorted(f"k{i}" for i in range(64)))
        self.assertLessEqual(len(self.fake.calls), 8)

    def test_close_waits_for_releases_and_ends_the_thread(self) -> None:
        client = sluice.Client(self.fake.url, call_timeout_ms=PATIENCE)
        for _ in range(100):
            client.release_later("lease")
        client.close()
        client.close()
        self.assertEqual([call.path for call in self.fake.calls], ["/ratelimit/release"] * 100)
        self.assertFalse([t for t in threading.enumerate() if t.name == "sluice-client"])
        for call in (lambda: client.check(direct("k")), lambda: client.batch([direct("k")]),
                     lambda: client.settle(sluice.Settlement("r", 1))):
            self.assertRaises(sluice.ClosedError, call)

    def test_close_ends_the_checks_that_wait(self) -> None:
        self.fake.gate.clear()
        client = sluice.Client(self.fake.url, timeout_ms=PATIENCE)
        ended: List[BaseException] = []

        def ask(call: Callable[[], object]) -> None:
            try:
                call()
            except sluice.SluiceError as e:
                ended.append(e)

        calls = [lambda: client.check(direct("k"))] * 20 + [lambda: client.reserve(direct("k"))]
        threads = [threading.Thread(target=ask, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        while len(self.fake.calls) < 2:
            threading.Event().wait(0.001)
        client.close()
        for thread in threads:
            thread.join()
        self.assertEqual({type(e) for e in ended}, {sluice.ClosedError})
        self.assertEqual(len(ended), 21)

    def test_serves_a_forked_process(self) -> None:
        if not hasattr(os, "fork"):  # Windows has none
            return
        client = sluice.Client(self.fake.url, timeout_ms=PATIENCE)
        self.addCleanup(client.close)
        client.check(direct("parent"))
        pid = os.fork()
        if pid == 0:
            try:
                answer = client.check(direct("child"))
                client.close()
                os._exit(0 if answer.allowed and answer.degraded is None else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIsNone(client.check(direct("parent")).degraded)


if __name__ == "__main__":
    unittest.main()
