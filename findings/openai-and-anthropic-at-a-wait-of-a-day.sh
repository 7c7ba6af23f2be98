#!/usr/bin/env bash
# openai 7.59.0 and @anthropic-ai/sdk 1.14.0 (npm, Node 22 or newer), with their default settings.
# A good guess: both say "2 retries with a short backoff", so at `Retry-After: 86400` both give up at once.
# What happens: the one of OpenAI ignores a wait that long and sends the POST again after half a second,
# twice. The one of Anthropic sets a timer: the call is pending for a day, although its timeout is over.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y > /dev/null
npm install --no-audit --no-fund --silent openai@7.59.0 @anthropic-ai/sdk@1.14.0
cat > openai.mjs <<'END'
import OpenAI from 'openai'
const c = new OpenAI({ apiKey: 'none', baseURL: process.argv[2] })
await c.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }).catch(() => {})
END
cat > anthropic.mjs <<'END'
import Anthropic from '@anthropic-ai/sdk'
const c = new Anthropic({ apiKey: 'none', baseURL: process.argv[2], timeout: 5000 })
await c.messages.create({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hello' }] }).catch(() => {})
END
cat > server.py <<'END'
import http.server, sys, time
class Deny(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        print(f"{time.monotonic():.2f}", self.command, file=open("requests", "a"))
        self.send_response(429)
        if self.path.startswith("/after"):
            self.send_header("Retry-After", self.path.split("/")[2])
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_GET = do_POST = do
    def log_message(self, *args): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deny)
print(s.server_port, file=open("port.new", "w"))
__import__("os").rename("port.new", "port")
s.serve_forever()
END
python3 server.py & server=$!
trap 'kill $server; rm -rf "$dir"' EXIT
until [ -s port ]; do sleep 0.1; done
url=http://127.0.0.1:$(cat port)
count() { wc -l < requests; }
gaps() { awk 'NR > 1 { printf " %.1f", $1 - last } { last = $1 } END { print "" }' requests; }
timeout 20 node openai.mjs "$url/after/86400"
openai=$(count)
echo "requests of openai: $openai, gaps in seconds:$(gaps)"
gaps | awk '{ for (i = 1; i <= NF; i++) if ($i > 10) exit 1 }'
rm requests
ended=0
timeout 20 node anthropic.mjs "$url/after/86400" || ended=$?
echo "requests of anthropic: $(count), exit after 20 s (124 is still waiting, with a timeout of 5 s): $ended"
[ "$openai" = 3 ] && [ "$(count)" = 1 ] && [ "$ended" = 124 ]
