#!/usr/bin/env bash
# Feign 13.13 (io.github.openfeign:feign-core), as Feign.builder() makes it.
# A good guess: Retry-After lets a client wait that long before it repeats a request that may be repeated.
# What happens: a POST that is answered 429 is not repeated. With `Retry-After: 12` the same POST is sent five times, one
# second after the other. The header begins the repeats, and its value is cut to one second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > pom.xml <<'END'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>0</version>
  <dependencies><dependency>
    <groupId>io.github.openfeign</groupId><artifactId>feign-core</artifactId><version>13.13</version>
  </dependency></dependencies>
</project>
END
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=lib
cat > Call.java <<'END'
public class Call {
    interface Api { @feign.RequestLine("POST /") void post(); }
    public static void main(String[] args) { feign.Feign.builder().target(Api.class, args[0]).post(); }
}
END
javac -cp 'lib/*' Call.java
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
java -cp 'lib/*:.' Call "$url" > out 2>&1 || true
without=$(count)
rm requests
java -cp 'lib/*:.' Call "$url/after/12" > out 2>&1 || true
with=$(count)
echo "requests of one POST without Retry-After: $without, with Retry-After: 12: $with, gaps in seconds:$(gaps)"
[ "$without" = 1 ] && [ "$with" = 5 ] && gaps | awk '{ for (i = 1; i <= NF; i++) if ($i > 6) exit 1 }'
