"""What a client answers by itself."""

from __future__ import annotations

import logging
from typing import Any, Callable, List, Optional, Set

from .documents import Answer, Check
from .errors import SluiceError, UnreadableError, overloaded, unavailable
from .local import MAX_EXACT, NEVER, LocalLimit, LocalLimiter

OPEN, CLOSED, LOCAL = "open", "closed", "local"
OnDegraded = Callable[[Exception], None]
OnCount = Callable[[str, int], None]


class FailMode:
    """Completes answers: it reads those of the service, and decides while the service is unavailable. It is safe for
    concurrent use."""

    def __init__(self, fail_mode: str, local_limit: Optional[LocalLimit], on_degraded: Optional[OnDegraded],
                 on_count: Optional[OnCount], log: logging.Logger) -> None:
        if fail_mode not in (OPEN, CLOSED, LOCAL):
            raise ValueError(f"fail_mode must be open, closed or local, not {fail_mode!r}")
        self._mode = fail_mode
        self._local = LocalLimiter(local_limit) if fail_mode == LOCAL else None
        self._on_degraded, self._on_count, self._log = on_degraded, on_count, log
        self._said: Set[str] = set()

    def count(self, name: str, n: int) -> None:
        """Adds n to a counter of the program."""
        if self._on_count is not None:
            try:
                self._on_count(name, n)
            except Exception:
                self._say_once("on_count failed", exc_info=True)

    def complete(self, check: Check, document: Any, error: Optional[SluiceError]) -> Answer:
        """Returns the answer to a check of which document or error came. It raises what is no outage."""
        if error is None:
            try:
                return Answer._read(document)
            except UnreadableError as e:
                self.count("unreadable", 1)
                error = e
        if not unavailable(error):
            raise error.with_traceback(None)
        if isinstance(error, UnreadableError):
            self._say_once("the service answered what this client cannot read, so the fail mode decides: %s", error)
        if overloaded(error):  # which is no outage
            self.count("overloaded", 1)
            answer = Answer(overloaded=True)
            _deny(answer, 503, 1000)
            return answer
        return self.fallback(check, error)

    def complete_all(self, checks: List[Check], documents: Optional[List[Any]],
                     error: Optional[SluiceError]) -> List[Answer]:
        """Is complete for a call with several checks. If one answer is not readable, none counts."""
        if documents is not None:
            try:
                return [Answer._read(document) for document in documents]
            except UnreadableError as e:
                self.count("unreadable", 1)
                error = e
        return [self.complete(check, None, error) for check in checks]

    def fallback(self, check: Check, error: Exception) -> Answer:
        """Decides by the fail mode."""
        self.count("degraded", 1)
        if self._on_degraded is not None:
            try:
                self._on_degraded(error)
            except Exception:
                self._say_once("on_degraded failed", exc_info=True)
        answer = Answer(allowed=True, status=200, degraded=self._mode, by_client=True)
        if self._mode == CLOSED:
            _deny(answer, 503, 1000)
        elif self._local is not None:
            weight = 1 if check.weight is None else min(max(check.weight, 0), MAX_EXACT)
            decision = self._local.take(check, weight)
            answer.limit, answer.burst = self._local.limit, self._local.burst
            answer.remaining, answer.used = decision.remaining, decision.used
            answer.reset_ms, answer.retry_after_ms = decision.reset_ms, decision.retry_after_ms
            answer.headers["X-RateLimit-Limit"] = str(self._local.burst)
            answer.headers["X-RateLimit-Remaining"] = str(decision.remaining)
            if not decision.allowed:
                _deny(answer, 429, decision.retry_after_ms)
        return answer

    def _say_once(self, text: str, *args: object, exc_info: bool = False) -> None:
        if text not in self._said:
            self._said.add(text)
            self._log.warning(text, *args, exc_info=exc_info)


def _deny(answer: Answer, status: int, retry_after_ms: int) -> None:
    """Makes an answer a denial that ends after some milliseconds, or never."""
    answer.allowed, answer.status = False, status
    seconds, advice = NEVER, "Waiting does not help."
    if retry_after_ms != NEVER:
        seconds = -(-retry_after_ms // 1000)
        advice = f"Please try again in {seconds} second{'' if seconds == 1 else 's'}."
        answer.headers["Retry-After"] = str(seconds)
    answer.retry_after_ms, answer.retry_after_s = retry_after_ms, seconds
    if status == 429:
        kind, title = "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
        detail, error, message = advice, "rate_limit_exceeded", "Too many requests. " + advice
    else:
        kind = "temporary-reduced-capacity"
        title = "Request cannot be satisfied due to temporary server capacity constraints"
        detail = "It cannot be determined right now whether this request is within its limits, so it is denied."
        error, message = "rate_limit_unavailable", "The service is busy. Please try again in a moment."
    answer.body = {"type": "https://iana.org/assignments/http-problem-types#" + kind, "title": title, "status": status,
                   "detail": detail, "violated-policies": [], "error": error, "message": message}
