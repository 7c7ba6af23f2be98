"""The limit that fail mode local enforces."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, Optional

from .documents import Check

MAX_EXACT = 2**53 - 1
_MAX_WINDOW = 315_576_000_000  # ten years
NEVER = -1


@dataclass
class LocalLimit:
    """A token bucket for each key, in the memory of this process, while the service is unavailable."""

    #: Units per window, 0 to 2^53-1.
    limit: int
    #: Milliseconds.
    window_ms: int
    #: The most that passes at once; limit if 0.
    burst: int = 0
    #: Names the bucket of a check. By default it is the key of a direct check, else the user, the API key or the
    #: address, the first that is not empty.
    key: Optional[Callable[[Check], str]] = None
    #: Bounds the buckets. Further keys share one bucket while all of these are in use.
    max_keys: int = 10_000


def default_key(check: Check) -> str:
    """The key of a check whose LocalLimit names none."""
    for kind, value in (("key:", check.key), ("user:", check.user), ("apikey:", check.api_key), ("ip:", check.ip)):
        if value:
            return kind + value
    return "key:" + check.limits[0].key if check.limits else ""


@dataclass
class Decision:
    """What a bucket says. Times are in ms, -1 for never."""

    allowed: bool
    remaining: int
    used: int
    reset_ms: int
    retry_after_ms: int


class Bucket:
    """A bucket that drains at limit units per window. The level is kept in 1/window units, so that one ms drains
    exactly limit of them."""

    __slots__ = ("at", "level", "until")

    def __init__(self) -> None:
        self.level = 0
        self.at = 0  # ms
        self.until: float = 0  # the instant, in ms, from which the bucket is as good as new

    def take(self, limit: int, window: int, burst: int, weight: int, now: int) -> Decision:
        """Decides one check at an instant in ms."""
        if self.level and limit and self.at - now > _ceil(burst * window, limit):
            self.at = now  # the clock went back by more than the bucket takes to drain
        if now > self.at:
            self.level = max(0, self.level - (now - self.at) * limit)
            self.at = now
        skew = self.at - now
        over = self.level + weight * window - burst * window
        allowed, retry = weight <= burst and over <= 0, 0
        if allowed:
            self.level += weight * window
        elif weight > burst or limit == 0:
            retry = NEVER
        else:
            retry = _ceil(over, limit) + skew
        room = (burst * window - self.level) // window
        reset = 0
        if self.level:
            reset = _ceil(self.level, limit) + skew if limit else NEVER
        self.until = now + reset if reset != NEVER else math.inf
        return Decision(allowed, max(0, room), burst - room, reset, retry)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


class LocalLimiter:
    """Enforces a LocalLimit. It is safe for concurrent use."""

    def __init__(self, limit: Optional[LocalLimit]) -> None:
        if limit is None:
            raise ValueError("fail_mode local requires a local_limit")
        self.limit, self.window = limit.limit, limit.window_ms
        self.burst = limit.burst or limit.limit
        for name, value, least, most in (
            ("limit", self.limit, 0, MAX_EXACT), ("window_ms", self.window, 1, _MAX_WINDOW),
            ("burst", self.burst, 0, MAX_EXACT), ("max_keys", limit.max_keys, 1, MAX_EXACT),
        ):
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"local_limit: {name} must be a whole number between {least} and {most}")
        if self.burst * self.window > MAX_EXACT:
            raise ValueError(f"local_limit: the burst times window_ms must be at most {MAX_EXACT}")
        self._key = limit.key or default_key
        self._max_keys = limit.max_keys
        self._lock = threading.Lock()
        self._buckets: Dict[str, Bucket] = {}
        self._shared = Bucket()
        self._sweep: float = 0  # no bucket expires before this instant, in ms

    def take(self, check: Check, weight: int, now: Optional[int] = None) -> Decision:
        """Decides one check."""
        key = self._key(check)
        if now is None:
            now = time.monotonic_ns() // 1_000_000
        with self._lock:
            return self._bucket(key, now).take(self.limit, self.window, self.burst, weight, now)

    def _bucket(self, key: str, now: int) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is not None:
            return bucket
        if len(self._buckets) >= self._max_keys and now >= self._sweep:
            self._buckets = {k: b for k, b in self._buckets.items() if b.until > now}
            self._sweep = min((b.until for b in self._buckets.values()), default=0)
        if len(self._buckets) >= self._max_keys:
            return self._shared
        bucket = self._buckets[key] = Bucket()
        return bucket
