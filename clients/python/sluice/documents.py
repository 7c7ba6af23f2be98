"""What a client sends and what it gets, as in openapi.yaml."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Type, TypeVar

from .errors import FieldError, Problem, UnreadableError

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
# The largest integer in an answer. A time beyond it has no form as a float.
_MOST = (1 << 63) - 1
# What a header could be sent with.
_NAME, _VALUE = re.compile("[A-Za-z0-9-]+"), re.compile(r"[\t\x20-\x7e]*")


@dataclass
class Limit:
    """The limit of a direct check."""

    #: Units per window, 0 to 2^53-1.
    count: int
    #: Milliseconds, from 1 to ten years. For concurrency it is how long a slot is held.
    window_ms: int
    #: sliding_window_counter if empty.
    algorithm: str = ""
    #: The capacity of token_bucket, gcra, leaky_bucket and leaky_queue, in units; count if None.
    burst: Optional[int] = None
    #: calendar (the default) or first_hit, and the start of a calendar window in ms since 1970; for fixed_window.
    align: str = ""
    anchor_ms: int = 0
    #: The number of parts of a window, up to 1,440, for sliding_window_buckets; 60 if 0.
    buckets: int = 0
    #: Decides if the service cannot reach its counters: open (the default), closed or local.
    fail_mode: str = ""

    def _members(self) -> Dict[str, Any]:
        out: Dict[str, Any] = {"limit": self.count, "window_ms": self.window_ms}
        for name in ("algorithm", "align", "anchor_ms", "buckets", "fail_mode"):
            value = getattr(self, name)
            if value:
                out[name] = value
        if self.burst is not None:
            out["burst"] = self.burst
        return out


@dataclass
class DirectLimit:
    """One of several direct limits. No two of a check have the same key, algorithm and window_ms."""

    #: Names the bucket, up to 1,024 bytes.
    key: str
    limit: Limit
    #: Tells it from the others in the answer and in client headers; default-1, default-2 and so on if empty.
    name: str = ""

    def _members(self) -> Dict[str, Any]:
        out: Dict[str, Any] = {"key": self.key}
        out.update(self.limit._members())
        if self.name:
            out["name"] = self.name
        return out


@dataclass
class Check:
    """One request to decide, in one of three shapes. With a key it is direct: limit is the limit of that key. With
    limits there are several of them. With neither, the facts (method to fields) say which rules of the service apply;
    at least one is needed, and an empty one is absent."""

    key: str = ""
    limit: Optional[Limit] = None
    #: 1 to 16 direct limits that are taken all together or not at all.
    limits: Optional[List[DirectLimit]] = None
    method: str = ""
    #: A path, such as /v1/charges, a URL, of which the path counts, or the template that it matched.
    route: str = ""
    #: The host that the request is for, with or without a port.
    host: str = ""
    ip: str = ""
    user: str = ""
    api_key: str = ""
    tier: str = ""
    #: Up to 64 further facts.
    attributes: Optional[Mapping[str, str]] = None
    #: Up to 64 numbers of the request, at least 0, for rules with a weight_field.
    fields: Optional[Mapping[str, int]] = None
    #: Units, 0 to 2^53-1. None weighs 1; 0 looks without spending.
    weight: Optional[int] = None
    #: Up to 64 bytes that identify the request: a repeat within a minute gets the stored answer and is not charged
    #: again.
    request_id: str = ""
    #: Those of the client's request, for the decision log; they decide nothing.
    user_agent: str = ""
    trace_id: str = ""
    #: What headers and body of the answer are for besides the usual: openai, anthropic or mcp.
    dialect: str = ""
    #: Stored with a request that a rule defers, up to 16 KiB; it may be empty. Such a check travels alone.
    payload: Optional[str] = None

    def _encode(self, ttl_ms: int = 0, on_expire: Any = None) -> bytes:
        out: Dict[str, Any] = {}
        for name, value in vars(self).items():
            if not value:
                if value is not None and name in ("weight", "payload"):  # 0 and "" mean something there
                    out[name] = value
            elif name == "limit":
                out.update(value._members())
            elif name == "limits":
                out[name] = [limit._members() for limit in value]
            else:
                out[name] = dict(value) if name in ("attributes", "fields") else value
        if ttl_ms:
            out["ttl_ms"] = ttl_ms
        if on_expire is not None:
            out["on_expire"] = on_expire
        return encode(out)


@dataclass
class Settlement:
    """Corrects a reservation to what was used. At least one of weight, fields and decisions is needed; weights that
    are not given stay as estimated."""

    reservation: str = ""
    #: Units, 0 to 2^53-1.
    weight: Optional[int] = None
    #: Weights for rules with a weight_field.
    fields: Optional[Mapping[str, int]] = None
    #: How many requests the caller decided by itself, by allowed and denied.
    decisions: Optional[Mapping[str, int]] = None
    #: That of the reserve, in place of the reservation.
    request_id: str = ""

    def _encode(self) -> bytes:
        out: Dict[str, Any] = {}
        if self.reservation:
            out["reservation"] = self.reservation
        if self.request_id:
            out["request_id"] = self.request_id
        if self.weight is not None:
            out["weight"] = self.weight
        if self.fields:
            out["fields"] = dict(self.fields)
        if self.decisions:
            out["decisions"] = dict(self.decisions)
        return encode(out)


def encode(document: Dict[str, Any]) -> bytes:
    """The JSON of a document. Text that has no form in UTF-8 is a Problem, as the service would answer."""
    try:
        return _encode(document).encode("utf-8")
    except UnicodeEncodeError:
        names = [name for name, value in document.items() if not _in_utf8(value)]
        errors = [FieldError(name, "must be valid UTF-8") for name in names]
        raise Problem(400, "/problems/malformed", "Malformed request", errors=errors) from None
    except (TypeError, ValueError) as e:
        errors = [FieldError("body", "has no form in JSON: " + str(e))]
        raise Problem(400, "/problems/malformed", "Malformed request", errors=errors) from None


def _in_utf8(value: Any) -> bool:
    try:
        _encode(value).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_T = TypeVar("_T", bound="_Document")


class _Document:
    """A part of a response. Members that are not known are left out; one of a wrong type makes it unreadable."""

    _kinds: ClassVar[Dict[str, type]] = {}

    @classmethod
    def _read(cls: Type[_T], document: Any) -> _T:
        if type(document) is not dict:
            raise UnreadableError("the server's response is not an answer")
        kinds, known = cls._kinds, {}
        for name, value in document.items():
            kind = kinds.get(name)
            if kind is None or value is None:
                continue
            if type(value) is not kind or kind is int and not -_MOST <= value <= _MOST:
                raise UnreadableError(f"the server's response is not an answer: {name} has a wrong type")
            known[name] = value
        self = cls.__new__(cls)
        self.__dict__ = known  # the defaults of other members are attributes of the class
        return self


@dataclass
class _Figures(_Document):
    """The figures of a limit. Those that are unknown are None."""

    #: Units per window: the limit in force, after tiers, schedules and overrides.
    limit: Optional[int] = None
    #: The most that a bucket algorithm admits at once; None for other algorithms.
    burst: Optional[int] = None
    #: The largest weight that would pass now.
    remaining: Optional[int] = None
    #: How many units count now, rounded up.
    used: Optional[int] = None
    #: Time until nothing counts as spent, -1 for never.
    reset_ms: Optional[int] = None
    #: Time until the same request passes if no other spends meanwhile; -1 if waiting does not help.
    retry_after_ms: Optional[int] = None
    #: Time until the ban of the key ends; None if it is not banned.
    ban_ms: Optional[int] = None


@dataclass
class LimitAnswer(_Figures):
    """The decision of one limit."""

    #: The rule's name, or that of one of several direct limits; None for a single direct limit.
    rule: Optional[str] = None
    #: Names the bucket. Credentials in it are hashed.
    key: str = ""
    allowed: bool = False
    delay_ms: int = 0
    refunded: int = 0
    #: enforce, shadow (a rule that counts but never denies) or candidate (the second limit of the rule before).
    mode: str = "enforce"
    soft: bool = False
    elastic: bool = False
    shed: bool = False
    #: The service had no turn for this limit, so that nothing was decided on it.
    overloaded: bool = False
    #: The rule applies because its condition could not be evaluated, which counts as true.
    condition_failed: bool = False
    #: None, or the fail mode of the service that decided.
    degraded: Optional[str] = None


@dataclass
class Answer(_Figures):
    """The decision about a request, or the state after another operation. The figures are those of the strictest
    limit."""

    allowed: bool = False
    #: The code for the program's own client: 200, 202 (deferred), 402, 403, 429 or 503.
    status: int = 0
    #: retry_after_ms in seconds, rounded up.
    retry_after_s: Optional[int] = None
    #: How long an allowed request waits before it starts, or a denial before it is sent.
    delay_ms: int = 0
    #: None, or the fail mode that decided. by_client says whose it was.
    degraded: Optional[str] = None
    #: The strictest rule, or the name of the strictest of several direct limits.
    rule: Optional[str] = None
    #: Allowed above the limit of a rule with that throttle.
    soft: bool = False
    elastic: bool = False
    #: Denied within the limits, because a pool that sheds has no room.
    shed: bool = False
    #: Denied because more arrived than the service could decide in time. Nothing was charged.
    overloaded: bool = False
    #: The stored answer to an earlier request with the same request_id; nothing was spent.
    replayed: bool = False
    #: What a rule advises whose key has used much of its limit: its rule, and set, texts by name.
    advice: Optional[Dict[str, Any]] = None
    #: For release and renew, if concurrency slots were taken.
    lease: str = ""
    #: For settle, if a reserve was allowed, within expires_in_ms.
    reservation: str = ""
    expires_in_ms: int = 0
    #: The percentage of the estimate that stays charged if nobody settles the reservation; None is all of it.
    on_expire_percent: Optional[int] = None
    #: How many requests were charged for the caller to decide within spend_within_ms, 0 for not at all. shrinks: these
    #: fall evenly to 0 within that time.
    granted: int = 0
    spend_within_ms: int = 0
    shrinks: bool = False
    #: Identifies a deferred request. deferred is unknown if it may or may not be in the queue. not_deferred is why one
    #: was denied instead: full or unavailable.
    ticket: str = ""
    deferred: str = ""
    not_deferred: str = ""
    #: Units: the most that a refund, release or settlement returned to one limit.
    refunded: int = 0
    #: The number of limits that a reset reached; None for other operations.
    reset: Optional[int] = None
    #: Whether a reset that closes has closed a bucket; None for other operations.
    ended: Optional[bool] = None
    #: All limits that applied. Only those of mode enforce can deny.
    limits: List[LimitAnswer] = field(default_factory=list)
    #: For the response to the program's own client, allowed or not. They never contain what a caller sent.
    headers: Dict[str, str] = field(default_factory=dict)
    #: The problem document for a client that is denied, or the notice for one that is deferred.
    body: Optional[Dict[str, Any]] = None
    #: The service was unavailable, and the fail mode of this client decided. If not, degraded is a fail mode of the
    #: service, whose counters were unavailable.
    by_client: bool = False

    @classmethod
    def _read(cls, document: Any) -> Answer:
        self = super()._read(document)
        members = self.__dict__
        if "allowed" not in members or not 200 <= members.get("status", 0) <= 599:
            raise UnreadableError("the server's response is not an answer")
        members["limits"] = [LimitAnswer._read(limit) for limit in members.get("limits") or ()]
        headers = members["headers"] = members.get("headers") or {}
        for name, value in headers.items():
            if type(value) is not str or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise UnreadableError("the server's response is not an answer: a header is not one line of text")
        return self


def _kinds_of(cls: type) -> Dict[str, type]:
    """The type that each member has unless it is null."""
    kinds = {"int": int, "str": str, "bool": bool, "List": list, "Dict": dict}
    # A type is written as in int, Optional[int] or Optional[Dict[str, Any]].
    return {f.name: kinds[re.sub(r"\W.*", "", str(f.type).replace("Optional[", ""))]
            for f in dataclasses.fields(cls) if f.name != "by_client"}


LimitAnswer._kinds = _kinds_of(LimitAnswer)
Answer._kinds = _kinds_of(Answer)
