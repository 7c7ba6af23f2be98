"""The SDKs of OpenAI and Anthropic behind a gateway that sends what a real node says in their dialect."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import unittest
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import anthropic
import openai

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from tests.support import Node  # noqa: E402

RULES = """
rules:
  - name: budget
    scope: user
    algorithm: fixed_window
    limit: 0
    calendar: {every: day}
    when: user == "poor"
    counts: money
    denial: {status: 429, retry: never}
    message: The budget of today is used up.
  - name: day
    scope: user
    algorithm: sliding_window_log
    limit: 1
    window_ms: 86400000
    when: user == "daily"
    message: One a day is enough.
  - name: tokens-per-minute
    scope: user
    algorithm: token_bucket
    limit: 6000
    window_ms: 60000
    burst: 100
    when: user startsWith "busy"
    counts: tokens
"""

COMPLETION = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}]}
MESSAGE = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "yes"}],
           "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}


class Gateway:
    """It checks 80 tokens of each request, and remembers when it came and what its client was told."""

    def __init__(self, node: Node, dialect: str) -> None:
        self.seen: List[Tuple[float, Dict[str, Any]]] = []
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                came = time.monotonic()
                self.rfile.read(int(self.headers["Content-Length"]))
                user = self.headers["X-User"]
                check = {"user": user, "weight": 80 if user.startswith("busy") else 1, "dialect": dialect}
                request = urllib.request.Request(node.url + "/ratelimit/check", json.dumps(check).encode(),
                                                 {"Content-Type": "application/json"})
                with urllib.request.urlopen(request) as response:
                    answer = json.load(response)
                gateway.seen.append((came, answer))
                body = answer.get("body") or (COMPLETION if dialect == "openai" else MESSAGE)
                raw = json.dumps(body).encode()
                self.send_response(answer["status"])
                for name, value in answer["headers"].items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json" if answer["allowed"] else "application/problem+json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def ask_openai(url: str, user: str) -> Any:
    with openai.OpenAI(api_key="k", base_url=url + "/v1", default_headers={"X-User": user}) as client:
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])


def ask_anthropic(url: str, user: str) -> Any:
    with anthropic.Anthropic(api_key="k", base_url=url, default_headers={"X-User": user}) as client:
        return client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "?"}])


class SDKs(unittest.TestCase):
    node: Node

    @classmethod
    def setUpClass(cls) -> None:
        cls.node = Node(RULES)
        cls.addClassCleanup(cls.node.stop)

    def each(self, test: Callable[[str, Any, type, Gateway], None]) -> None:
        for dialect, ask, error in (("openai", ask_openai, openai.APIStatusError),
                                    ("anthropic", ask_anthropic, anthropic.APIStatusError)):
            with self.subTest(dialect):
                gateway = Gateway(self.node, dialect)
                try:
                    test(dialect, ask, error, gateway)
                finally:
                    gateway.stop()

    def test_a_budget_is_asked_once_and_its_message_is_seen(self) -> None:
        def test(dialect: str, ask: Any, error: type, gateway: Gateway) -> None:
            for _ in range(2):  # the SDK loads much of itself at the first call
                gateway.seen.clear()
                began = time.monotonic()
                with self.assertRaises(error) as caught:
                    ask(gateway.url, "poor")
            report(f"{dialect}: a denied budget took {1000 * (time.monotonic() - began):.1f} ms")
            self.assertIn("The budget of today is used up.", str(caught.exception))
            self.assertEqual((caught.exception.status_code, len(gateway.seen)), (429, 1))

        self.each(test)

    def test_a_wait_of_hours_is_none(self) -> None:
        def test(dialect: str, ask: Any, error: type, gateway: Gateway) -> None:
            if dialect == "openai":
                ask(gateway.url, "daily")
            gateway.seen.clear()
            with self.assertRaises(error) as caught:
                ask(gateway.url, "daily")
            self.assertIn("One a day is enough.", str(caught.exception))
            self.assertEqual(len(gateway.seen), 1)
            self.assertGreater(gateway.seen[0][1]["retry_after_ms"], 60_000)

        self.each(test)

    def test_tokens_per_minute_are_waited_for_and_the_second_request_passes(self) -> None:
        def test(dialect: str, ask: Any, error: type, gateway: Gateway) -> None:
            ask(gateway.url, "busy-" + dialect)
            gateway.seen.clear()
            ask(gateway.url, "busy-" + dialect)
            (first, denied), (second, allowed) = gateway.seen
            self.assertEqual((denied["allowed"], allowed["allowed"]), (False, True))
            self.assertEqual(denied["headers"]["retry-after-ms"], str(denied["retry_after_ms"]))
            report(f"{dialect}: the second request came {1000 * (second - first):.1f} ms after the first, "
                   f"retry_after_ms was {denied['retry_after_ms']}")

        self.each(test)


def report(text: str) -> None:
    if os.environ.get("SLUICE_MEASURE"):
        print(text, file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    unittest.main()
