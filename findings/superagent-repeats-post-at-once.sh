#!/usr/bin/env bash
# superagent 10.4.2 (npm), `.retry(3)`.
# A good guess: as the clients beside it (got, ky, axios-retry), it repeats idempotent methods only and waits for
# Retry-After.
# What happens: a POST that is answered 429 with `Retry-After: 12` is sent four times within a fraction of a second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y > /dev/null
npm install --no-audit --no-fund --silent superagent@10.4.2
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
node -e 'require("superagent").post(process.argv[1]).send({ n: 1 }).retry(3).catch(() => {})' "$url/after/12"
echo "requests of one POST with Retry-After: 12: $(count), gaps in seconds:$(gaps)"
[ "$(count)" = 4 ] && gaps | awk '{ for (i = 1; i <= NF; i++) if ($i > 6) exit 1 }'
