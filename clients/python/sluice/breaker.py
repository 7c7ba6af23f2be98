"""The circuit breaker of a client."""

from __future__ import annotations

from enum import Enum
from typing import Callable

# How many calls in a row must fail before the breaker opens.
FAILURES_TO_OPEN = 5
# The time until the first probe, and the longest, in s; each failed probe doubles it.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0


class Permission(Enum):
    """Whether a call may be made."""

    PERMITTED = 1
    PROBE = 2  # permitted, alone
    REFUSED = 3


class Outcome(Enum):
    """What a call says about the service."""

    SUCCEEDED = 1
    FAILING = 2
    UNKNOWN = 3  # the caller left before the answer came


class Breaker:
    """After FAILURES_TO_OPEN failures in a row it is open and refuses calls. When a pause has passed it is half-open:
    one call at a time is the probe. A success closes it. It belongs to one event loop."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now  # s
        self.failures = 0  # in a row
        self.open = False
        self._probing = False
        self._until = self._pause = 0.0

    def enter(self) -> Permission:
        """Asks for permission. A call that is permitted must leave."""
        if not self.open:
            return Permission.PERMITTED
        if self._probing or self._now() < self._until:
            return Permission.REFUSED
        self._probing = True
        return Permission.PROBE

    def leave(self, permission: Permission, outcome: Outcome) -> None:
        """Reports the outcome of a call."""
        probe = permission is Permission.PROBE
        if probe:
            self._probing = False
        if outcome is Outcome.SUCCEEDED:
            self.open, self.failures = False, 0
        elif outcome is Outcome.UNKNOWN or self.open and not probe:  # or a call from before it opened
            pass
        elif self.open:
            self._wait(min(2 * self._pause, LONGEST_PAUSE))
        else:
            self.failures += 1
            if self.failures >= FAILURES_TO_OPEN:
                self.open = True
                self._wait(FIRST_PAUSE)

    def _wait(self, pause: float) -> None:
        self._pause, self._until = pause, self._now() + pause
