#!/usr/bin/env bash
# litellm 1.110.2 (PyPI, Python 3.10 or newer), `litellm.max_budget = 0.001`.
# A good guess: each answer adds its cost, so that after 0.001 $ a call raises BudgetExceededError. With parallel calls
# a few more may pass.
# What happens: 20 calls one after the other pass, although each costs 0.00075 $ by litellm's own completion_cost. The
# counter stays 0: it adds only the cost of a dict with "content", and `completion` returns no dict.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q litellm==1.110.2
cat > budget.py <<'END'
import http.server, json, threading
import litellm

ANSWER = json.dumps({
    "id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000}}).encode()

class Provider(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)
    def log_message(self, *args): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()

logged = threading.Semaphore(0)  # litellm counts costs and calls callbacks after the answer
litellm.success_callback = [lambda *args: logged.release()]
litellm.max_budget = 0.001
passed, denied, cost = 0, 0, 0.0
for _ in range(20):
    try:
        answer = litellm.completion(
            model="openai/gpt-4o-mini", messages=[{"role": "user", "content": "hello"}], max_tokens=1000,
            api_key="none", api_base=f"http://127.0.0.1:{server.server_port}/v1")
        passed, cost = passed + 1, cost + litellm.completion_cost(answer)
        assert logged.acquire(timeout=60)
    except litellm.BudgetExceededError:
        denied += 1
print(f"passed {passed}, denied {denied}, cost {cost:.5f} $ of a budget of {litellm.max_budget} $")
raise SystemExit(not (passed == 20 and denied == 0 and cost > 10 * litellm.max_budget))
END
LITELLM_LOCAL_MODEL_COST_MAP=True venv/bin/python budget.py
