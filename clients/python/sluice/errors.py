"""Errors of a client."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Dict, List, Optional


class SluiceError(Exception):
    """An error of this package."""


class ClosedError(SluiceError):
    """The error of every method after close."""

    def __init__(self) -> None:
        super().__init__("the client is closed")


class UnavailableError(SluiceError):
    """No complete answer came: the service was unreachable or too slow, the connection broke, or the circuit breaker is
    open. What was sent may have been charged nevertheless."""


class UnreadableError(UnavailableError):
    """A response came that is not an answer."""


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field of a request."""

    field: str
    message: str


class Problem(SluiceError):
    """An error response (RFC 9457). Branch on type, which is stable; it is "" if a server between the client and the
    service responded. body is the response as it was received."""

    def __init__(self, status: int, type: str = "", title: str = "", detail: str = "",
                 errors: Optional[List[FieldError]] = None, body: bytes = b"") -> None:
        self.status, self.type, self.title, self.detail = status, type, title, detail
        self.errors = errors if errors is not None else []
        self.body = body
        said = ": ".join([f"the server responded with status {status}"] + [s for s in (title, detail) if s])
        super().__init__(said + "".join(f"\n  {e.field} {e.message}" for e in self.errors))

    def element(self, index: int) -> Optional[Problem]:
        """What a problem of a batch says about one check, as a problem of that check alone; None if nothing."""
        prefix = f"checks[{index}]"
        own = [FieldError(e.field[len(prefix):].lstrip("."), e.message) for e in self.errors
               if e.field.startswith(prefix)]
        return Problem(self.status, self.type, self.title, self.detail, own) if own else None

    def shifted(self, start: int) -> Problem:
        """The problem of a part of a batch with the indexes of the whole, in which start checks come before it."""
        errors = []
        for e in self.errors:
            head, closes, rest = e.field.partition("]")
            index = head[len("checks["):]
            if head.startswith("checks[") and closes and index.isdigit():
                e = FieldError(f"checks[{start + int(index)}]{rest}", e.message)
            errors.append(e)
        return Problem(self.status, self.type, self.title, self.detail, errors, self.body)


def unavailable(error: BaseException) -> bool:
    """Whether an error means that the service could not decide, rather than that the request was wrong: no answer came,
    or a status of 408, 429 or at least 500."""
    if isinstance(error, Problem):
        return error.status >= 500 or error.status in (408, 429)
    return isinstance(error, UnavailableError)


def overloaded(error: BaseException) -> bool:
    """Whether an error means that more arrived than the service could decide in time. Nothing was charged, so the same
    request may be sent again, as after a second. unavailable is True too."""
    return isinstance(error, Problem) and error.type == "/problems/overloaded"


def problem_of(status: int, content_type: str, body: bytes) -> Problem:
    """Reads an error response. A body that is no problem document leaves only the status."""
    kind = content_type.partition(";")[0].strip().lower()
    document = None
    if kind in ("application/problem+json", "application/json"):
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            pass
    if not isinstance(document, dict):
        known = status in HTTPStatus._value2member_map_
        return Problem(status, title=HTTPStatus(status).phrase if known else "", body=body)
    listed = document.get("errors")
    errors = [FieldError(text(e, "field"), text(e, "message"))
              for e in (listed if isinstance(listed, list) else []) if isinstance(e, dict)]
    return Problem(status, text(document, "type"), text(document, "title"), text(document, "detail"), errors, body)


def text(document: Dict[str, Any], name: str) -> str:
    """A member that is a string, "" if it is not."""
    value = document.get(name)
    return value if isinstance(value, str) else ""
