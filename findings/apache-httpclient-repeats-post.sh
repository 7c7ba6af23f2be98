#!/usr/bin/env bash
# Apache HttpClient 5.6.5 (org.apache.httpcomponents.client5:httpclient5), as HttpClients.createDefault() makes it.
# A good guess: the default client repeats idempotent methods only, as it does after a failure of the connection.
# What happens: a POST that is answered 429 is sent again after a second. With `Retry-After: 86400` the thread of the
# caller sleeps for a day, because the response timeout does not cover that wait.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > pom.xml <<'END'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>0</version>
  <dependencies><dependency>
    <groupId>org.apache.httpcomponents.client5</groupId><artifactId>httpclient5</artifactId><version>5.6.5</version>
  </dependency></dependencies>
</project>
END
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=lib
cat > Call.java <<'END'
import org.apache.hc.client5.http.classic.methods.HttpPost;
import org.apache.hc.client5.http.config.RequestConfig;
import org.apache.hc.client5.http.impl.classic.HttpClients;
import org.apache.hc.core5.http.io.entity.StringEntity;

public class Call {
    public static void main(String[] args) throws Exception {
        HttpPost post = new HttpPost(args[0]);
        post.setConfig(RequestConfig.custom().setResponseTimeout(java.time.Duration.ofSeconds(2).toMillis(),
            java.util.concurrent.TimeUnit.MILLISECONDS).build());
        post.setEntity(new StringEntity("{}"));
        try (var client = HttpClients.createDefault()) {
            System.out.println("answered " + client.<Integer>execute(post, answer -> answer.getCode()));
        }
    }
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
posts=$(count)
rm requests
ended=0
timeout 20 java -cp 'lib/*:.' Call "$url/after/86400" > out 2>&1 || ended=$?
echo "requests of one POST: $posts; with Retry-After: 86400, exit after 20 s (124 is still waiting): $ended"
[ "$posts" = 2 ] && [ "$ended" = 124 ] && [ "$(count)" = 1 ]
