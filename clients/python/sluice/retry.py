"""How long to wait before a denied request is repeated."""

from __future__ import annotations

import re
from datetime import timezone
from email.utils import parsedate_to_datetime
from time import time
from typing import Mapping, Optional, Union

from .documents import Answer


def retry_after(source: Union[Answer, Mapping[str, str], str, None], *, now: Optional[float] = None,
                most_s: Optional[float] = None) -> Optional[float]:
    """The seconds to wait before a request is repeated, or None if a repeat is of no use: there is no such time, it is
    longer than most_s, or waiting does not help.

    source is an Answer, the headers of a response, or the value of Retry-After (RFC 9110: seconds or a date). now is
    the time of the response in s since 1970, for a date; the present if None. Give most_s: without it a ban or a used
    daily quota makes a program wait for hours.
    """
    seconds: Optional[float]
    if isinstance(source, Answer):
        ms = source.retry_after_ms
        seconds = ms / 1000 if ms is not None and ms >= 0 else None
    elif isinstance(source, str) or source is None:
        seconds = _seconds(source, now)
    else:
        value = source.get("Retry-After")
        if value is None:
            value = next((v for name, v in source.items() if name.lower() == "retry-after"), None)
        seconds = _seconds(value, now)
    return None if seconds is None or most_s is not None and seconds > most_s else seconds


def _seconds(value: Optional[str], now: Optional[float]) -> Optional[float]:
    value = (value or "").strip()
    if re.fullmatch("[0-9]{1,15}", value):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:
            date = date.replace(tzinfo=timezone.utc)
        return max(0.0, date.timestamp() - (time() if now is None else now))
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
