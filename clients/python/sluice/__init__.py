"""Asks a Sluice service from a Python program whether requests may pass.

    client = sluice.Client("http://127.0.0.1:8080", token=token, fail_mode="open")
    answer = client.check(sluice.Check(method="POST", route="/v1/charges", user="42"))
    if not answer.allowed:
        ...  # answer with answer.status, answer.headers and answer.body

One client serves a whole program: Client its threads, AsyncClient the tasks of one event loop. While calls are in
flight, further checks gather and travel together. A check is decided within timeout_ms, 25 by default: if the service
is unreachable or too slow, fail_mode decides, and the answer says so in degraded and by_client.
"""

from .client import AsyncClient, Client
from .documents import Answer, Check, DirectLimit, Limit, LimitAnswer, Settlement
from .errors import ClosedError, FieldError, Problem, SluiceError, UnavailableError, overloaded, unavailable
from .local import LocalLimit
from .retry import retry_after
from .version import __version__

__all__ = [
    "Answer", "AsyncClient", "Check", "Client", "ClosedError", "DirectLimit", "FieldError", "Limit", "LimitAnswer",
    "LocalLimit", "Problem", "Settlement", "SluiceError", "UnavailableError", "__version__", "overloaded",
    "retry_after", "unavailable",
]
