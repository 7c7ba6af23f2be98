package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/bench/process"
)

// scenario is one server setup and the requests sent to it.
type scenario struct {
	name  string
	kind  kind
	rival string   // of kind rival: which
	redis bool     // of kind sluice: with a Redis
	rules []string // of kind sluice: created first
	// pool and profile, of kind sluice, are created first.
	pool, profile string
	env           []string // of kind sluice: settings
	// kafka, of kind sluice, starts a broker for the decision log, which keeps nothing.
	kafka bool
	// networks is the number of network overrides of the first rule.
	networks int
	// path is the path of all requests, and body returns the body of request number n. checks is the number of checks
	// in each request, 0 for one.
	path   string
	body   func(n, keys int) string
	checks int
	// headers replaces body for requests in the form of gateways: a GET without a body.
	headers func(n, keys int) string
	// lines are headers of every request, each with its line end. token adds one with a token, and tls sends all over TLS.
	lines      string
	token, tls bool
	grpc       *grpcCall // in place of both, a call over gRPC
	conns      int       // connections of the closed loop, 0 for the number of the flag
	// callers, if not 0, check through the Go client in the closed loop: alone, or together.
	callers int
	alone   bool
	// hot: they ask about one user. near: they decide in memory.
	hot, near bool
}

func direct(n, keys int) string {
	return fmt.Sprintf(`{"key":"user:%d:GET:/v1/charges","limit":1000000,"window_ms":60000}`, n%keys)
}

func described(n, keys int) string {
	return fmt.Sprintf(`{"method":"POST","route":"/v1/charges","ip":"203.0.113.%d","user":"u%d","api_key":"k%d"}`, n%250,
		n%keys, n%keys)
}

// addressed is described from addresses all over IPv4.
func addressed(n, keys int) string {
	ip := scattered(n % keys)
	return fmt.Sprintf(`{"method":"POST","route":"/v1/charges","ip":"%d.%d.%d.%d"}`, ip[0], ip[1], ip[2], ip[3])
}

// scattered returns address number n of a sequence that is spread evenly.
func scattered(n int) [4]byte {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], uint32(n)*2_654_435_761)
	return ip
}

// networkOverrides is a file of overrides of n networks, /12 to /28. They have the limit of the rule, so that every
// check is decided in the same way.
func networkOverrides(n int) string {
	var b strings.Builder
	b.WriteString("key,limit\n")
	seen := map[netip.Prefix]bool{}
	for i := 1; len(seen) < n; i++ {
		p := netip.PrefixFrom(netip.AddrFrom4(scattered(i*7)), 12+i%17).Masked()
		if !seen[p] {
			seen[p] = true
			fmt.Fprintf(&b, "%s,1000000\n", p)
		}
	}
	return b.String()
}

// hundred is a batch of a hundred described requests.
func hundred(n, keys int) string {
	all := make([]string, batchSize)
	for i := range all {
		all[i] = described(n*batchSize+i, keys)
	}
	return `{"checks":[` + strings.Join(all, ",") + `]}`
}

const batchSize = 100

// forwarded is a gateway's question about the request of described, with the headers that a client
// sends.
func forwarded(n, keys int) string {
	return "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /v1/charges\r\nX-Forwarded-Host: shop.example\r\n" +
		asked(n, keys)
}

// asked is forwarded without what ext_authz has in the request line.
func asked(n, keys int) string {
	return fmt.Sprintf("X-Forwarded-For: 203.0.113.%d\r\nX-User: u%d\r\nX-Api-Key: k%d\r\n", n%250, n%keys, n%keys) +
		"User-Agent: bench\r\nAccept: */*\r\n"
}

// gatewayProfile reads forwarded, asked, and extAuthzCheck.
const gatewayProfile = `{"name":"bench","facts":{"user":[{"header":"X-User"}],"api_key":[{"header":"X-Api-Key"}]},` +
	`"proof":{"networks":["127.0.0.1"]}}`

// domainProfile reads the descriptors of shouldRateLimit by facts.
const domainProfile = `{"name":"bench","domain":"bench","entries":{"user":"user"},"proof":{"networks":["127.0.0.1"]}}`

func envoyBody(n, keys int) string {
	return fmt.Sprintf(`{"domain":"bench","descriptors":[{"entries":[{"key":"user","value":"u%d"}]}]}`, n%keys)
}

func gubernatorBody(n, keys int) string {
	return fmt.Sprintf(`{"requests":[{"name":"bench","uniqueKey":"u%d","hits":1,"limit":1000000,"duration":60000}]}`,
		n%keys)
}

func rule(name, scope, algorithm string) string {
	return fmt.Sprintf(`{"name":%q,"scope":%q,"route":"/v1/charges","method":"POST","algorithm":%q,`+
		`"limit":1000000,"window_ms":60000}`, name, scope, algorithm)
}

var (
	oneRule = []string{rule("per-user", "user", "sliding_window_counter")}
	// hotRule permits callers to decide in memory.
	hotRule = []string{`{"name":"hot","scope":"user","route":"/v1/charges","limit":9000000000000,"window_ms":60000,` +
		`"algorithm":"fixed_window","hot_keys":"leased"}`}
	twoRules = append(oneRule[:1:1], rule("per-user-burst", "user", "token_bucket"))
	// anyMethod is oneRule for every method: ext_authz asks with the client's.
	anyMethod = []string{strings.Replace(oneRule[0], `"method":"POST",`, "", 1)}
	// everyRoute is oneRule for requests whose only known fact is the user.
	everyRoute = []string{strings.Replace(anyMethod[0], `"route":"/v1/charges",`, "", 1)}
	// byTree is oneRule for a descriptor.
	byTree = []string{`{"name":"per-user","descriptor":{"domain":"bench","entries":[{"key":"user"}]},` +
		`"algorithm":"sliding_window_counter","limit":1000000,"window_ms":60000}`}
	threeRule = append(twoRules[:2:2], rule("per-ip", "ip", "fixed_window"))
	byAddress = []string{rule("per-ip", "ip", "sliding_window_counter")}
	banning   = []string{with(oneRule[0], `"ban":{"after":20,"within_ms":60000,"for_ms":600000,"grow":2}`)}
	// delaying makes every second request of a user wait, as far as callers of the bench obey it.
	delaying = []string{with(oneRule[0], `"delay":{"after":1,"step_ms":10,"most_ms":1000}`)}
	daily    = []string{calendar(`"every":"day","zone":"Europe/Berlin"`)}
	dailyAt  = []string{calendar(`"every":"day","zone":"Europe/Berlin","at":"05:30"`)}
	// replacing has a second rule that does not apply, because the first one replaces it.
	replacing = []string{strings.Replace(everyRoute[0], "per-user", "everyone", 1),
		with(oneRule[0], `"replaces":["everyone"]`)}
	pooled = []string{with(oneRule[0], `"pool":"shop"`)}
)

// calendar is a rule of a fixed window with a calendar.
func calendar(members string) string {
	return with(strings.Replace(rule("per-user", "user", "fixed_window"), `,"window_ms":60000`, "", 1),
		`"calendar":{`+members+`}`)
}

// with returns a JSON object with one more member.
func with(object, member string) string { return strings.TrimSuffix(object, "}") + "," + member + "}" }

// pool has room for all checks. The pool that sheds differs from it in nothing else.
const pool = `{"name":"shop","limit":1000000000,"window_ms":60000}`

const check = "/ratelimit/check"

// loopOff makes a goroutine read each connection.
var loopOff = []string{"SLUICE_LOOP=off"}

// tenLines are headers that gateways and service meshes add.
const tenLines = "User-Agent: gateway/1.0\r\nAccept: */*\r\nAccept-Encoding: identity\r\n" +
	"X-Request-Id: 8f14e45f-ceea-467f-ab3d-1c2d3e4f5a6b\r\nX-Forwarded-For: 203.0.113.7\r\n" +
	"X-Forwarded-Proto: https\r\nTraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n" +
	"X-B3-Traceid: 4bf92f3577b34da6a3ce929d0e0e4736\r\nX-B3-Spanid: 00f067aa0ba902b7\r\nX-B3-Sampled: 1\r\n"

// scenarios are measured in this order in each round, so that a slow phase of the machine affects
// neighbours.
var scenarios = []scenario{
	{name: constant, kind: rival, rival: "constant", path: "/check", body: direct},
	{name: constantFast, kind: rival, rival: "constant-fasthttp", path: "/check", body: direct},
	{name: oneOnRedis, kind: sluice, redis: true, path: check, body: described, rules: oneRule},
	{name: withoutLoop, kind: sluice, redis: true, path: check, body: described, rules: oneRule, env: loopOff},
	{name: withToken, kind: sluice, redis: true, path: check, body: described, rules: oneRule, token: true,
		lines: tenLines},
	{name: withTLS, kind: sluice, redis: true, path: check, body: described, rules: oneRule, tls: true},
	{name: oneProcessor, kind: sluice, redis: true, path: check, body: described, rules: oneRule,
		env: []string{"GOMAXPROCS=1"}},
	{name: constant + with8, kind: rival, rival: "constant", path: "/check", body: direct, conns: 8},
	{name: oneOnRedis + with8, kind: sluice, redis: true, path: check, body: described, rules: oneRule,
		conns: 8},
	{name: constant + with512, kind: rival, rival: "constant", path: "/check", body: direct, conns: 512},
	{name: oneOnRedis + with512, kind: sluice, redis: true, path: check, body: described, rules: oneRule,
		conns: 512},
	{name: forwardFace, kind: sluice, redis: true, path: "/ratelimit/forward/bench", headers: forwarded, rules: oneRule,
		profile: gatewayProfile},
	{name: extAuthzFace, kind: sluice, redis: true, path: "/ratelimit/ext_authz/bench/v1/charges", headers: asked,
		rules: anyMethod, profile: gatewayProfile},
	{name: constantGRPC, kind: rival, rival: "constant-grpc", grpc: shouldRateLimit},
	{name: grpcTree, kind: sluice, redis: true, grpc: shouldRateLimit, rules: byTree},
	{name: grpcFacts, kind: sluice, redis: true, grpc: shouldRateLimit, rules: everyRoute, profile: domainProfile},
	{name: envoyGRPC, kind: ratelimit, grpc: shouldRateLimit},
	{name: grpcAuthz, kind: sluice, redis: true, grpc: extAuthzCheck, rules: anyMethod, profile: gatewayProfile},
	{name: naivePath, kind: rival, rival: "naive", path: "/check", body: direct},
	{name: bare, kind: rival, rival: "coalescer", path: "/check", body: direct},
	{name: "sluice on Redis, two rules", kind: sluice, redis: true, path: check, body: described, rules: twoRules},
	{name: threeRules, kind: sluice, redis: true, path: check, body: described, rules: threeRule},
	{name: "sluice on Redis, direct", kind: sluice, redis: true, path: check, body: direct},
	// With the usual number of connections Redis would be overloaded, and the fail mode would
	// be measured.
	{name: batches, kind: sluice, redis: true, path: check + "/batch", body: hundred,
		checks: batchSize, conns: 4, rules: oneRule},
	{name: ruleAlone, kind: sluice, redis: true, path: check, body: described, rules: oneRule},
	{name: ruleBan, kind: sluice, redis: true, path: check, body: described, rules: banning},
	{name: rulePool, kind: sluice, redis: true, path: check, body: described, rules: pooled, pool: pool},
	{name: ruleShed, kind: sluice, redis: true, path: check, body: described, rules: pooled,
		pool: with(pool, `"shed":true`)},
	{name: ruleDelay, kind: sluice, redis: true, path: check, body: described, rules: delaying},
	{name: ruleReplaces, kind: sluice, redis: true, path: check, body: described, rules: replacing},
	{name: ruleDaily, kind: sluice, redis: true, path: check, body: described, rules: daily},
	{name: ruleDailyAt, kind: sluice, redis: true, path: check, body: described, rules: dailyAt},
	{name: perAddress, kind: sluice, redis: true, path: check, body: addressed, rules: byAddress},
	{name: perNetwork, kind: sluice, redis: true, path: check, body: addressed, rules: byAddress, networks: 10_000},
	{name: logOff, kind: sluice, redis: true, path: check, body: described, rules: oneRule},
	{name: logAllKafka, kind: sluice, redis: true, path: check, body: described, rules: oneRule, kafka: true,
		env: []string{"SLUICE_DECISION_LOG=kafka", "SLUICE_DECISION_LOG_RATE=100"}},
	{name: logSomeKafka, kind: sluice, redis: true, path: check, body: described, rules: oneRule, kafka: true,
		env: []string{"SLUICE_DECISION_LOG=kafka", "SLUICE_DECISION_LOG_RATE=1"}},
	{name: logAllFile, kind: sluice, redis: true, path: check, body: described, rules: oneRule,
		env: []string{"SLUICE_DECISION_LOG=file", "SLUICE_DECISION_LOG_RATE=100"}},
	{name: embeddedOne, kind: sluice, path: check, body: described, rules: oneRule},
	{name: "sluice embedded, three rules", kind: sluice, path: check, body: described, rules: threeRule},
	{name: goShared, kind: sluice, redis: true, path: check, body: described, rules: oneRule, callers: 64},
	{name: goAlone, kind: sluice, redis: true, path: check, body: described, rules: oneRule, callers: 64, alone: true},
	{name: goOne, kind: sluice, redis: true, path: check, body: described, rules: oneRule, callers: 1},
	{name: goHot, kind: sluice, redis: true, path: check, body: described, rules: hotRule, callers: 64, hot: true},
	{name: goNear, kind: sluice, redis: true, path: check, body: described, rules: hotRule, callers: 64, hot: true,
		near: true},
	{name: envoy, kind: ratelimit, path: "/json", body: envoyBody},
	{name: "gubernator, HTTP (memory)", kind: gubernator, path: "/v1/GetRateLimits", body: gubernatorBody},
	{name: "redis_rate behind Echo", kind: rival, rival: "redis_rate", path: "/check", body: direct},
	{name: "throttled behind Echo, on Redis", kind: rival, rival: "throttled", path: "/check", body: direct},
	{name: "go-limiter behind Echo (memory)", kind: rival, rival: "go-limiter", path: "/check", body: direct},
}

// Scenarios to which others are compared.
const (
	constant     = "constant answer, Echo"
	constantFast = "constant answer, fasthttp"
	oneOnRedis   = "sluice on Redis, one rule"
	withToken    = "sluice on Redis, one rule, a token and ten more headers"
	withTLS      = "sluice on Redis, one rule, TLS"
	withoutLoop  = "sluice on Redis, one rule, without the loop"
	oneProcessor = "sluice on Redis, one rule, GOMAXPROCS=1"
	with8        = ", 8 connections"
	with512      = ", 512 connections"
	// The scenario with one rule, repeated next to the rows that are compared with it.
	ruleAlone    = "sluice on Redis, a rule alone"
	ruleBan      = "sluice on Redis, a rule with a ban"
	rulePool     = "sluice on Redis, a rule in a pool"
	ruleShed     = "sluice on Redis, a rule in a pool that sheds"
	ruleDelay    = "sluice on Redis, a rule with a delay"
	ruleReplaces = "sluice on Redis, a rule that replaces another"
	ruleDaily    = "sluice on Redis, a rule with a calendar"
	ruleDailyAt  = "sluice on Redis, a rule with a calendar and a time of day"
	// The scenario with one rule, repeated without and with a decision log.
	logOff       = "sluice on Redis, no decision log"
	logAllKafka  = "sluice on Redis, decision log of everything in Kafka"
	logSomeKafka = "sluice on Redis, decision log of 1 % in Kafka"
	logAllFile   = "sluice on Redis, decision log of everything in files"
	threeRules   = "sluice on Redis, three rules"
	embeddedOne  = "sluice embedded, one rule"
	perAddress   = "sluice on Redis, one rule by address"
	perNetwork   = "sluice on Redis, one rule by address, 10,000 networks"
	forwardFace  = "sluice on Redis, one rule, asked by forward"
	extAuthzFace = "sluice on Redis, one rule, asked by ext_authz"
	naivePath    = "naive: a script call a request"
	bare         = "bare coalescer: counts in batches"
	envoy        = "envoyproxy/ratelimit, JSON"
	constantGRPC = "constant answer, gRPC"
	grpcTree     = "sluice on Redis, gRPC, one rule by tree"
	grpcFacts    = "sluice on Redis, gRPC, one rule by facts"
	grpcAuthz    = "sluice on Redis, gRPC ext_authz, one rule"
	envoyGRPC    = "envoyproxy/ratelimit, gRPC"
	goShared     = "sluice on Redis, 64 callers share a Go client"
	goAlone      = "sluice on Redis, 64 callers, a Go client each"
	goOne        = "sluice on Redis, one caller of a Go client"
	goHot        = "sluice on Redis, 64 callers of one key share a Go client"
	goNear       = "sluice on Redis, 64 callers of one key, near"
)

// measurement is the result of one round of one scenario. Figures are per check.
type measurement struct {
	perSecond float64
	serverCPU time.Duration
	openCPU   time.Duration // of the server in the open loop
	clientCPU time.Duration // of this process in the closed loop
	redisCPU  time.Duration // 0 without Redis
	degraded  float64       // the part of the checks that sluice decided without its store
	closed    latencies     // of a request
	open      latencies
	openLat   []time.Duration // for the distribution; sorted
}

type result struct {
	scenario scenario
	rounds   []measurement
}

// measure starts the servers of a scenario, warms them up, and measures a closed and an open
// loop.
func measure(ctx context.Context, s settings, sc scenario, bin, dir string) (measurement, error) {
	var m measurement
	var redis *process.Process
	var redisAddr string
	if sc.needsRedis() {
		var err error
		if redis, redisAddr, err = process.StartRedis(ctx, dir); err != nil {
			return m, err
		}
		defer redis.Stop()
	}
	if sc.kafka {
		kafka, addr, err := startKafka(ctx, dir, "-discard")
		if err != nil {
			return m, err
		}
		defer kafka.Stop()
		sc.env = append(slices.Clip(sc.env), "SLUICE_KAFKA_BROKERS="+addr)
	}
	srv, err := startServer(ctx, bin, sc, dir, redisAddr, s.gogc)
	if err != nil {
		return m, err
	}
	defer srv.Stop()
	if sc.pool != "" {
		if err := srv.Expect(ctx, http.MethodPost, "/ratelimit/pools", sc.pool, http.StatusCreated); err != nil {
			return m, err
		}
	}
	for _, r := range sc.rules {
		if err := srv.Expect(ctx, http.MethodPost, "/ratelimit/rules", r, http.StatusCreated); err != nil {
			return m, err
		}
	}
	if sc.networks > 0 {
		if err := srv.Expect(ctx, http.MethodPost, "/ratelimit/rules/1/overrides/import", networkOverrides(sc.networks),
			http.StatusOK); err != nil {
			return m, err
		}
	}
	if sc.profile != "" {
		if err := srv.Expect(ctx, http.MethodPost, "/ratelimit/profiles", sc.profile, http.StatusCreated); err != nil {
			return m, err
		}
	}
	to, callers := connector(nil), s.conns
	if sc.grpc == nil {
		to = connections(srv.Target, requests(srv.Target, sc, s.keys))
	} else {
		var stop func()
		if to, stop, err = sc.grpc.connect(ctx, srv.grpc, s.keys); err != nil {
			return m, err
		}
		defer stop()
		callers = grpcCallers
	}
	closed := func(length time.Duration) ([]time.Duration, error) {
		if sc.callers > 0 {
			return goClient(ctx, srv.Target, sc, s.keys, length)
		}
		return closedLoop(ctx, to, cmp.Or(sc.conns, callers), length)
	}
	if _, err := closed(time.Second); err != nil {
		return m, err
	}
	without0, err := sc.degraded(ctx, srv.Target)
	if err != nil {
		return m, err
	}
	cpu0, redis0, own0 := srv.CPU(), redis.CPU(), ownCPU()
	length := time.Duration(s.seconds) * time.Second
	lat, err := closed(length)
	if err != nil {
		return m, err
	}
	n := len(lat) * max(sc.checks, 1)
	if sc.hot {
		n *= sampled
	}
	m.clientCPU = (ownCPU() - own0) / time.Duration(n)
	m.closed = summarize(lat)
	m.perSecond = float64(n) / length.Seconds()
	m.serverCPU = (srv.CPU() - cpu0) / time.Duration(n)
	m.redisCPU = (redis.CPU() - redis0) / time.Duration(n)
	without, err := sc.degraded(ctx, srv.Target)
	if err != nil {
		return m, err
	}
	m.degraded = (without - without0) / float64(n*max(1, len(sc.rules)))
	if s.before != "" || !sc.openLoop() {
		return m, nil // a rate of requests is not comparable here
	}
	cpu0 = srv.CPU()
	if lat, err = openLoop(ctx, to, callers, s.rate, length); err != nil {
		return m, err
	}
	m.openCPU = (srv.CPU() - cpu0) / time.Duration(max(1, len(lat)))
	m.open, m.openLat = summarize(lat), lat
	return m, nil
}

// ownCPU is the CPU that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for the process itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// openLoop reports whether the scenario is measured at a fixed rate too.
func (sc *scenario) openLoop() bool { return sc.checks <= 1 && sc.callers == 0 }

// degraded returns the number of limits that sluice has decided without its store, 0 for other
// programs.
func (sc *scenario) degraded(ctx context.Context, to process.Target) (sum float64, err error) {
	if sc.kind != sluice {
		return 0, nil
	}
	return to.Metric(ctx, "sluice_degraded_total{")
}
