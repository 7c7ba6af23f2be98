"""The types have the members of openapi.yaml, and no others."""

import dataclasses
import json
import re
import unittest
from typing import Any, Dict, List, Set

import sluice
from sluice.documents import Answer, LimitAnswer

from .support import ROOT

_LINES = (ROOT / "openapi.yaml").read_text(encoding="utf-8").split("\n")
_SCHEMAS = _LINES.index("  schemas:")
_KINDS = {"integer": int, "boolean": bool, "string": str, "array": list, "object": dict}


def block(start: int) -> List[str]:
    """The lines below one that are indented deeper."""
    depth = len(_LINES[start]) - len(_LINES[start].lstrip())
    out = []
    for line in _LINES[start + 1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        out.append(line)
    return out


def schema(name: str) -> List[str]:
    return block(_LINES.index(f"    {name}:", _SCHEMAS))


def properties(lines: List[str]) -> Dict[str, str]:
    """The text of each property of a schema that lists them itself."""
    start = next(i for i, line in enumerate(lines) if line.strip() == "properties:")
    depth = len(lines[start]) - len(lines[start].lstrip()) + 2
    out: Dict[str, str] = {}
    name = ""
    for line in lines[start + 1:]:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < depth:
            break
        match = re.match(r"\s*([\w-]+):(.*)", line)
        if indent == depth and match:
            name = match[1]
            out[name] = match[2]
        elif name:
            out[name] += "\n" + line
    return out


def kind(text: str) -> type:
    """The type of a property."""
    for line in text.split("\n"):
        match = re.search(r"(?:^|[\s{])type: (\w+)", line)
        if match and not line.lstrip().startswith("description"):
            return _KINDS[match[1]]
        reference = re.search(r'\$ref: "#/components/schemas/(\w+)"', line)
        if reference:
            return kind("\n".join(schema(reference[1])))
    raise AssertionError("no type: " + text)


def members(check: Any) -> Set[str]:
    return set(json.loads(check._encode()))


class DocumentTest(unittest.TestCase):
    def test_answers_have_the_members_and_types_of_the_document(self) -> None:
        for of in (Answer, LimitAnswer):
            described = {name: kind(text) for name, text in properties(schema(of.__name__)).items()}
            self.assertEqual(of._kinds, described)

    def test_checks_have_the_members_of_the_document(self) -> None:
        limit = sluice.Limit(1, 2, "gcra", 3, "first_hit", 4, 5, "closed")
        both = {"weight": 1, "request_id": "r", "user_agent": "a", "trace_id": "t", "dialect": "mcp"}
        for check, name in (
            (sluice.Check(key="k", limit=limit, **both), "DirectCheck"),
            (sluice.Check(limits=[sluice.DirectLimit("k", limit, "n")], **both), "LimitsCheck"),
            (sluice.Check(method="m", route="/", host="h", ip="i", user="u", api_key="a", tier="t",
                          attributes={"a": "b"}, fields={"f": 1}, payload="", **both), "RequestCheck"),
        ):
            self.assertEqual(members(check), set(properties(schema(name))), name)
        direct = json.loads(sluice.Check(limits=[sluice.DirectLimit("k", limit, "n")])._encode())["limits"][0]
        self.assertEqual(set(direct), set(properties(schema("DirectLimit"))))
        every = {f.name for f in dataclasses.fields(sluice.Check)}
        sent = {"limit", "limits"} | set(properties(schema("RequestCheck"))) | {"key"}
        self.assertEqual(every, sent)

    def test_a_settlement_has_the_members_of_the_document(self) -> None:
        path = block(_LINES.index("  /ratelimit/settle:"))
        body = path[next(i for i, line in enumerate(path) if "requestBody:" in line):]
        named = re.search(r'schema: \{\$ref: "#/components/schemas/(\w+)"\}', "\n".join(body))
        inline = any(line.strip() == "properties:" for line in body)
        described = properties(body if inline or named is None else schema(named[1]))
        self.assertEqual(members(sluice.Settlement("r", 1, {"f": 1}, {"allowed": 1}, "q")), set(described))

    def test_a_denial_of_the_client_has_the_members_of_the_document(self) -> None:
        client = sluice.Client("http://127.0.0.1:1", fail_mode="closed")
        body = client.fallback(sluice.Check(user="u"), RuntimeError()).body
        assert body is not None
        self.assertEqual(set(body), set(properties(schema("Denial"))))


if __name__ == "__main__":
    unittest.main()
