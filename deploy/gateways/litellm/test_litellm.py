"""The proxy of LiteLLM with the hooks beside this file, before a real node. Its models answer without a provider."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Dict, List

import openai

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "clients" / "python"))
from tests.support import PATIENCE, Node  # noqa: E402

RULES = """
rules:
  - name: money
    scope: user
    algorithm: fixed_window
    limit: 1000000
    calendar: {every: month}
    weight_field: cost
    counts: money
    unit: $
    unit_scale: 1000000
    denial: {status: 429, retry: never}
    message: The {limit} of this {window} are spent.
  - name: tokens
    scope: user
    algorithm: fixed_window
    limit: 1000000
    calendar: {every: month}
    weight_field: tokens
    counts: tokens
  - name: streams
    scope: user
    algorithm: concurrency
    limit: 1
    window_ms: 600000
"""
CONFIG = """
model_list:
  - model_name: gpt-4o-mini
    litellm_params: {model: openai/gpt-4o-mini, api_key: none, mock_response: "yes"}
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_key: none, mock_response: litellm.InternalServerError}
router_settings: {num_retries: 0}
litellm_settings:
  callbacks: [sluice_budgets.budgets]
general_settings:
  custom_auth: keys.who
"""
# The test has no database of keys: the key of a user is sk- and the name.
KEYS = """
from litellm.proxy._types import UserAPIKeyAuth

async def who(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, user_id=api_key.removeprefix("sk-"), team_id="search")
"""


class Proxy:
    """The proxy in a process of its own."""

    def __init__(self, node: Node) -> None:
        self.folder = tempfile.mkdtemp()
        shutil.copy(HERE / "sluice_budgets.py", self.folder)
        Path(self.folder, "config.yaml").write_text(CONFIG, encoding="utf-8")
        Path(self.folder, "keys.py").write_text(KEYS, encoding="utf-8")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = open(os.path.join(self.folder, "log"), "wb")
        # A busy machine is no reason to deny, so the node may take longer than in production.
        env = {**os.environ, "SLUICE_SERVER": node.url, "SLUICE_TOKEN": str(node.token), "SLUICE_TIMEOUT": "10",
               "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": "sk-" + secrets.token_hex(32),
               "PYTHONPATH": self.folder, "CONFIG_FILE_PATH": os.path.join(self.folder, "config.yaml")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "litellm.proxy.proxy_server:app", "--host", "127.0.0.1", "--port", str(port)],
            cwd=self.folder, env=env, stdout=self._log, stderr=subprocess.STDOUT)
        tick = threading.Event()
        for _ in range(4 * PATIENCE // 50):
            try:
                urllib.request.urlopen(self.url + "/health/liveliness", timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                if self._process.poll() is not None:
                    break
            tick.wait(0.05)
        self.stop(keep=True)
        raise RuntimeError("the proxy did not start:\n" + self.log())

    def log(self) -> str:
        return Path(self.folder, "log").read_text(encoding="utf-8", errors="replace")

    def stop(self, keep: bool = False) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.close()
        if not keep:
            shutil.rmtree(self.folder)


class Budgets(unittest.TestCase):
    node: Node
    proxy: Proxy

    @classmethod
    def setUpClass(cls) -> None:
        cls.node = Node(RULES)
        cls.addClassCleanup(cls.node.stop)
        cls.node.token = Path(cls.node.token_file).read_text(encoding="utf-8").strip()
        cls.proxy = Proxy(cls.node)
        cls.addClassCleanup(cls.proxy.stop)

    def ask(self, user: str, model: str = "gpt-4o-mini", **more: Any) -> Any:
        client = openai.OpenAI(api_key="sk-" + user, base_url=self.proxy.url + "/v1")
        self.addCleanup(client.close)
        return client.chat.completions.create(model=model, messages=[{"role": "user", "content": "?"}], **more)

    def spent(self, user: str) -> Dict[str, int]:
        """What the rules have counted, by their names, as a look sees it."""
        body = {"user": user, "weight": 0, "fields": {"cost": 0, "tokens": 0}}
        request = urllib.request.Request(self.node.url + "/ratelimit/check", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {self.node.token}"})
        with urllib.request.urlopen(request) as response:
            return {limit["rule"]: limit["used"] for limit in json.load(response)["limits"]}

    def expect(self, user: str, want: Dict[str, int]) -> None:
        """Waits until the proxy, which settles after its answer, has settled."""
        tick, got = threading.Event(), {}
        for _ in range(PATIENCE // 50):
            got = self.spent(user)
            if got == want:
                return
            tick.wait(0.05)
        self.fail(f"{user} has spent {got}, want {want}; the proxy's log:\n{self.proxy.log()[-4000:]}")

    def test_what_is_spent_is_the_usage_of_the_answers(self) -> None:
        tokens = 0
        for _ in range(3):
            usage = self.ask("ada").usage
            tokens += usage.total_tokens
            cost = round(usage.prompt_tokens * 0.15 + usage.completion_tokens * 0.6)
        self.expect("ada", {"money": 3 * cost, "tokens": tokens, "streams": 0})

    def test_a_client_that_names_two_calls_alike_pays_for_both(self) -> None:
        tokens = sum(self.ask("eve", extra_headers={"x-litellm-call-id": "11111111-2222-4333-8444-555555555555"}).usage.total_tokens
                     for _ in range(2))
        self.expect("eve", {"money": 2 * 14, "tokens": tokens, "streams": 0})

    def test_a_stream_is_settled_at_its_end(self) -> None:
        chunks: List[Any] = list(self.ask("bo", stream=True, stream_options={"include_usage": True}))
        usage = next(chunk.usage for chunk in chunks if chunk.usage)
        cost = round(usage.prompt_tokens * 0.15 + usage.completion_tokens * 0.6)
        self.expect("bo", {"money": cost, "tokens": usage.total_tokens, "streams": 0})

    def test_a_call_that_fails_costs_nothing(self) -> None:
        with self.assertRaises(openai.APIStatusError):
            self.ask("cy", model="gpt-4o")
        self.expect("cy", {"money": 0, "tokens": 0, "streams": 0})

    def test_a_spent_budget_is_one_request_with_the_message_of_the_rule(self) -> None:
        with self.assertRaises(openai.RateLimitError) as caught:
            self.ask("dan", max_tokens=3_000_000)  # 1.80 $
        self.assertIn("The 1 $ of this month are spent.", str(caught.exception))
        self.assertEqual(caught.exception.response.headers.get("x-should-retry"), "false")
        self.assertEqual(self.proxy.log().count("/chat/completions HTTP/1.1\" 429"), 1)
        self.expect("dan", {"money": 0, "tokens": 0, "streams": 0})


if __name__ == "__main__":
    unittest.main()
