"""The limit of fail mode local, by the table that the clients of all languages share."""

import json
import unittest

import sluice
from sluice.local import LocalLimiter

from .support import ROOT

# The instant of the steps with at_ms 0, in ms since 1970.
_EPOCH = 1_800_000_000_000


class LocalLimitTest(unittest.TestCase):
    def test_decides_the_worked_cases(self) -> None:
        cases = json.loads((ROOT / "api/client/testdata/local_limit.json").read_text(encoding="utf-8"))
        self.assertTrue(cases)
        for case in cases:
            with self.subTest(case["name"]):
                limiter = LocalLimiter(sluice.LocalLimit(case["limit"], case["window_ms"], case["burst"]))
                for step in case["steps"]:
                    got = vars(limiter.take(sluice.Check(user="u"), step["weight"], _EPOCH + step["at_ms"]))
                    self.assertEqual({**got, "at_ms": step["at_ms"], "weight": step["weight"]}, step)

    def test_has_a_bucket_for_each_key_and_bounds_them(self) -> None:
        limiter = LocalLimiter(sluice.LocalLimit(10, 1000, max_keys=3))

        def admitted(check: sluice.Check, n: int, now: int) -> int:
            return sum(limiter.take(check, 1, now).allowed for _ in range(n))

        for check in (sluice.Check(user="a"), sluice.Check(user="b", ip="::1"), sluice.Check(key="a")):
            self.assertEqual(admitted(check, 50, 0), 10)
        # All buckets are in use: further keys share one.
        self.assertEqual(admitted(sluice.Check(user="c"), 6, 0) + admitted(sluice.Check(user="d"), 50, 0), 10)
        self.assertEqual(admitted(sluice.Check(user="a"), 50, 300), 3)
        self.assertEqual(admitted(sluice.Check(user="e"), 50, 1300), 10)
        self.assertLessEqual(len(limiter._buckets), 3)

    def test_keeps_a_bucket_that_never_drains(self) -> None:
        limiter = LocalLimiter(sluice.LocalLimit(0, 1000, 1, max_keys=1))
        self.assertTrue(limiter.take(sluice.Check(user="a"), 1, 0).allowed)
        limiter.take(sluice.Check(user="b"), 1, 3_600_000)
        self.assertFalse(limiter.take(sluice.Check(user="a"), 1, 3_600_000).allowed)

    def test_names_the_bucket_by_the_first_fact_of_the_check(self) -> None:
        limit = sluice.Limit(1, 1)
        for check, want in (
            (sluice.Check(key="k", limit=limit, user="u"), "key:k"),
            (sluice.Check(user="u", api_key="a", ip="::1"), "user:u"),
            (sluice.Check(api_key="a", ip="::1"), "apikey:a"),
            (sluice.Check(ip="::1", route="/"), "ip:::1"),
            (sluice.Check(limits=[sluice.DirectLimit("x", limit), sluice.DirectLimit("y", limit)]), "key:x"),
            (sluice.Check(route="/"), ""),
        ):
            limiter = LocalLimiter(sluice.LocalLimit(1, 1000))
            limiter.take(check, 1, 0)
            self.assertEqual(list(limiter._buckets), [want])
        limiter = LocalLimiter(sluice.LocalLimit(1, 1000, key=lambda check: check.tier))
        limiter.take(sluice.Check(user="u", tier="gold"), 1, 0)
        self.assertEqual(list(limiter._buckets), ["gold"])

    def test_refuses_what_cannot_be_counted(self) -> None:
        for limit in (sluice.LocalLimit(-1, 1000), sluice.LocalLimit(1, 0), sluice.LocalLimit(1, 1000, -1),
                      sluice.LocalLimit(2**53, 1), sluice.LocalLimit(2**43, 86_400_000), sluice.LocalLimit(1, 1.5),
                      sluice.LocalLimit(1, 1000, max_keys=0), None):
            with self.assertRaises(ValueError, msg=str(limit)):
                sluice.Client("http://127.0.0.1", fail_mode="local", local_limit=limit)


if __name__ == "__main__":
    unittest.main()
