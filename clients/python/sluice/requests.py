"""How the middleware reads requests."""

from __future__ import annotations

import ipaddress
import json
import logging
import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union
from urllib.parse import quote

from .documents import Answer, Check
from .errors import Problem

_Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
# How many requests wait at once unless the program says otherwise.
MOST_WAITING = 1000
# The longest method and route, and how much of a user agent the decision log has, in bytes.
_MAX_TEXT, _MAX_AGENT = 1024, 512
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_TRACE = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-")


class Reader:
    """Makes the check of a request: its method, route, host and address, its user agent and trace. describe completes
    it. It is immutable and safe for concurrent use."""

    def __init__(self, trusted_proxies: Sequence[str], client_ip_header: str, route: Callable[[Any], str],
                 describe: Optional[Callable[[Any, Check], Optional[Check]]],
                 skip: Optional[Callable[[Any], bool]], on_error: Optional[Callable[[Any, Exception], None]],
                 headers: Optional[Sequence[str]]) -> None:
        self._trusted = [ipaddress.ip_network(text, strict=False) for text in trusted_proxies]
        self.ip_header = client_ip_header.lower()
        self._route, self._describe = route, describe
        self._skip, self._on_error = skip, on_error
        self._headers = None if headers is None else {name.lower() for name in headers}

    def skips(self, request: Any) -> bool:
        """Whether a request is not checked."""
        return self._skip is not None and self._skip(request)

    def check(self, request: Any, method: str, path: str, host: str, peer: str, forwarded: List[str], agent: bytes,
              trace: str) -> Check:
        """The check of a request. path is percent-encoded; peer is the address of the connection, "" if unknown;
        forwarded are the values of the header ip_header in their order."""
        host = normal_host(host)
        match = _TRACE.match(trace)
        check = Check(method=method.encode("utf-8", "replace")[:_MAX_TEXT].decode("utf-8", "ignore"),
                      route=(self._route(request) or path)[:_MAX_TEXT], host=host, ip=self._client_ip(peer, forwarded),
                      attributes={"host": host} if host else None,
                      user_agent=agent[:_MAX_AGENT].decode("utf-8", "ignore"), trace_id=match[1] if match else "")
        if self._describe is not None:
            check = self._describe(request, check) or check
        return check

    def failed(self, request: Any, error: Exception) -> None:
        """Reports that a request could not be checked although the service is available."""
        if self._on_error is not None:
            self._on_error(request, error)
        else:
            logging.getLogger("sluice").error("a request could not be checked against its rate limits: %s", error)

    def headers_of(self, answer: Answer) -> List[Tuple[str, str]]:
        """The headers for the client of the program, without those of a denial's body."""
        out = dict(answer.headers)
        if answer.degraded:
            out["X-RateLimit-Mode"] = answer.degraded
        return [(name, value) for name, value in out.items() if self._headers is None or name.lower() in self._headers]

    def _client_ip(self, peer: str, forwarded: List[str]) -> str:
        """The right-most address of the header that is not trusted. The addresses to the left of it are what an unknown
        sender wrote. An entry that is no address ends the search."""
        found = _address(peer)
        if found is None or not forwarded or not self._trusts(found):
            return str(found) if found is not None else ""
        found = None
        for entry in reversed(",".join(forwarded).split(",")):
            address = _address(entry.strip())
            if address is None:
                break
            found = address
            if not self._trusts(address):
                break
        return str(found) if found is not None else ""

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


class Waiting:
    """The places for requests that wait because the answer asks for a delay. It is safe for concurrent use."""

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError("most_waiting must be at least 1")
        self._places = threading.BoundedSemaphore(most)

    @contextmanager
    def place(self) -> Iterator[bool]:
        """A place for as long as the context lasts, False if all are taken."""
        taken = self._places.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._places.release()


def without_host(check: Check, error: Exception) -> Optional[Check]:
    """The check without a host that the service does not take for one, as of xn--a; None if something else is wrong. A
    client chooses its Host header: the fail mode must not decide because of it."""
    if check.host and isinstance(error, Problem) and error.errors and all(e.field == "host" for e in error.errors):
        return replace(check, host="")
    return None


def _address(text: str) -> Optional[_Address]:
    """Reads an address as proxies write it: with or without a port, IPv6 with or without brackets and zone."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def normal_host(host: str) -> str:
    """A host in lower case, without port, brackets and final dot; "" if it is none."""
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    host = host.lower().rstrip(".")
    address = _address(host)
    if address is not None:
        return str(address)
    # A name whose last part is a number is a broken address.
    return host if _HOST.fullmatch(host) and not host.rpartition(".")[2].isdigit() else ""


def escaped(path: str) -> str:
    """The percent-encoded form of a path of which each character is one byte."""
    return quote(path.encode("latin-1", "replace"), safe="/~!$&'()*+,;=:@")


def denial(answer: Answer) -> Tuple[List[Tuple[str, str]], bytes]:
    """The headers and the body of a denial, or of the notice for a request that is deferred."""
    body = json.dumps(answer.body if answer.body is not None else {}).encode("ascii")
    kind = "application/json" if answer.status < 400 else "application/problem+json"
    return [("Content-Type", kind), ("Cache-Control", "no-store"), ("Content-Length", str(len(body)))], body
