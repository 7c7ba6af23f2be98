// Package config defines every setting of sluice: a flag, an environment
// variable, a default and a help text, in structs that the command line embeds.
// A test compares docs/configuration.md with them.
package config

import (
	"cmp"
	"time"
)

// Storage says where rules and tokens live. The commands serve, migrate and
// token share it.
type Storage struct {
	DataDir     string `name:"data-dir" env:"SLUICE_DATA_DIR" default:"./sluice-data" placeholder:"DIR" help:"Directory of the embedded rules database, of saved counters, and of the copy of the rules from which a node starts while the rules database is unavailable. A server without API tokens keeps its local token there. It is created with mode 0700."`
	DatabaseURL Secret `name:"database-url" env:"DATABASE_URL" changed:"New connections use a changed user or password" url:"true" placeholder:"URL" help:"Rules database, as in postgres://user:password@host:5432/sluice. Empty: an embedded SQLite file in the data directory."`

	PrimaryURL string `name:"primary-url" env:"SLUICE_PRIMARY_URL" placeholder:"URL" help:"URL of the API and console of nodes on the primary database, as in https://sluice-eu.example.com. Nodes and commands on a read replica of it refuse changes and name this URL."`
}

// Counters says where and how buckets are kept.
type Counters struct {
	RedisURL     Secret        `name:"redis-url" env:"REDIS_URL" changed:"New connections use a changed user or password" url:"true" placeholder:"URL" help:"Counter store, as in redis://host:6379/0 (rediss:// for TLS, several addresses separated by commas for Redis Cluster, redis+sentinel:// for Sentinel). Empty: counters are kept in the memory of this process."`
	KeyPrefix    string        `name:"key-prefix" env:"SLUICE_KEY_PREFIX" default:"sl:" placeholder:"TEXT" help:"Prefix of every key in Redis. Nodes with the same prefix share their counters. 1 to 32 letters, digits and ._:-"`
	StoreTimeout time.Duration `name:"store-timeout" env:"SLUICE_STORE_TIMEOUT" default:"25ms" placeholder:"TIME" help:"Time for a check. The fail mode decides if the counter store has not answered a sixth of it, but at most 4ms, before its end. 1ms to 10s."`
}

// Listener configures where and how requests are accepted.
type Listener struct {
	Listen          string `name:"listen" env:"SLUICE_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the HTTP API. An address that other machines can reach requires an API token (sluice token create) or --tls-client-scopes."`
	TLSCertFile     string `name:"tls-cert-file" env:"SLUICE_TLS_CERT_FILE" placeholder:"FILE" help:"Certificate for TLS in PEM form, followed by its intermediates. It is read again when it changes. Empty: no TLS."`
	TLSKeyFile      string `name:"tls-key-file" env:"SLUICE_TLS_KEY_FILE" placeholder:"FILE" help:"Private key of the certificate, in PEM form. It is read again when it changes."`
	TLSClientCAFile string `name:"tls-client-ca-file" env:"SLUICE_TLS_CLIENT_CA_FILE" placeholder:"FILE" help:"Authorities whose client certificates are accepted, in PEM form. Clients may connect without a certificate. It is read again when it changes. Empty: no client certificate is requested."`

	TLSClientScopes string `name:"tls-client-scopes" env:"SLUICE_TLS_CLIENT_SCOPES" placeholder:"NAME=SCOPES" help:"Scopes of client certificates by their names, as in gateway.example.com=check;ops=rules:write,counters. Such a client needs no token. Requires --tls-client-ca-file. Empty: certificates have no scopes."`

	TrustedProxies []string      `name:"trusted-proxies" env:"SLUICE_TRUSTED_PROXIES" placeholder:"CIDR" help:"Networks whose forwarding headers are trusted, as in 10.0.0.0/8,fd00::/8. Empty: none."`
	ResetHeader    string        `name:"reset-header" env:"SLUICE_RESET_HEADER" default:"epoch" placeholder:"FORM" help:"Form of X-RateLimit-Reset. epoch: seconds since 1970. delta: seconds from now. epoch or delta."`
	MetricsPublic  bool          `name:"metrics-public" env:"SLUICE_METRICS_PUBLIC" default:"false" negatable:"" help:"Serve /metrics without a token."`
	DrainDelay     time.Duration `name:"drain-delay" env:"SLUICE_DRAIN_DELAY" default:"0s" placeholder:"TIME" help:"Time after SIGTERM for which requests are accepted while /readyz answers 503, so that load balancers notice. 0 to 5m."`
}

// GRPC configures the listener for Envoy.
type GRPC struct {
	GRPCListen       string `name:"grpc-listen" env:"SLUICE_GRPC_LISTEN" placeholder:"HOST:PORT" help:"Address of the gRPC services that Envoy calls, as in 127.0.0.1:8081. It uses the TLS files of the HTTP API. An address that other machines can reach requires an API token (sluice token create) or --tls-client-scopes. Empty: no gRPC."`
	GRPCLimitHeaders bool   `name:"grpc-limit-headers" env:"SLUICE_GRPC_LIMIT_HEADERS" default:"false" negatable:"" help:"Add RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to the headers for the client, as envoyproxy/ratelimit does with LIMIT_RESPONSE_HEADERS_ENABLED."`
}

// Console says how people reach and use the console.
type Console struct {
	Console     bool          `name:"console" env:"SLUICE_CONSOLE" default:"true" negatable:"" help:"Serve the console under /console. --no-console disables it."`
	ConsoleURL  string        `name:"console-url" env:"SLUICE_CONSOLE_URL" placeholder:"URL" help:"URL under which people reach the console, as in https://sluice.example.com. Required behind a proxy. With https, its cookies are sent over TLS only."`
	SessionIdle time.Duration `name:"session-idle" env:"SLUICE_SESSION_IDLE" default:"12h" placeholder:"TIME" help:"Time without a request after which a console session ends. It ends in any case after 7 days. 1m to 168h."`
}

// Matching says how descriptors become keys.
type Matching struct {
	IPv4Prefix    int      `name:"ipv4-prefix" env:"SLUICE_IPV4_PREFIX" default:"32" placeholder:"BITS" help:"Leading bits of an IPv4 address that name its bucket. The same on every node. 1 to 32."`
	IPv6Prefix    int      `name:"ipv6-prefix" env:"SLUICE_IPV6_PREFIX" default:"64" placeholder:"BITS" help:"Leading bits of an IPv6 address that name its bucket. The same on every node. 1 to 128."`
	NAT64Prefixes []string `name:"nat64-prefixes" env:"SLUICE_NAT64_PREFIXES" default:"64:ff9b::/96" placeholder:"CIDR" help:"Prefixes under which a translator (NAT64) shows IPv4 clients to IPv6 servers. An address under one counts as the IPv4 address inside. The same on every node. 32, 40, 48, 56, 64 or 96 bits, as in RFC 6052. none: no prefix."`
	RouteCase     string   `name:"route-case" env:"SLUICE_ROUTE_CASE" default:"keep" placeholder:"CASE" help:"Whether routes that differ only in the case of ASCII letters are different. fold compares them in lower case, and keys have them so. The same on every node. keep or fold."`
}

// NewRules says what a new rule has that leaves it out.
type NewRules struct {
	FailDefaults string `name:"fail-defaults" env:"SLUICE_FAIL_DEFAULTS" placeholder:"LIST" help:"Fail modes of new rules that leave fail_mode out, as in POST,PUT,DELETE=closed;/payments*=closed. The first entry that matches the rule's method or route counts, and open if none does. The node that takes the write applies it; rules that exist keep theirs. Empty: open."`
}

// Stats says how figures are grouped.
type Stats struct {
	TenantAttribute string `name:"tenant-attribute" env:"SLUICE_TENANT_ATTRIBUTE" default:"tenant" placeholder:"NAME" help:"Attribute that names the tenant of a request, for figures and pages by tenant."`
}

// Tuning has a default that suits most installations. Its pages of the documentation say when to change one.
type Tuning struct {
	Loop          string        `name:"loop" env:"SLUICE_LOOP" default:"on" placeholder:"MODE" help:"Read many connections in one loop and decide what arrived together, which costs less CPU. It needs Linux; elsewhere, and with off, each connection is read by itself. on or off."`
	MaxKeys       Keys          `name:"max-keys" env:"SLUICE_MAX_KEYS" default:"auto" placeholder:"N" help:"Largest number of buckets in the memory of this process. Beyond it, the buckets that expire soonest are evicted. auto: a quarter of the available memory at 200 bytes a bucket, 100000 to 20000000; the log shows the result. auto, or 1000 to 1000000000."`
	DenyCache     string        `name:"deny-cache" env:"SLUICE_DENY_CACHE" default:"on" placeholder:"MODE" help:"Cache of denials in the memory of this node, each for up to 1s. on: a request is denied if one of its limits is known to deny. exact: only if all of them are, so that every figure is exact. off: every check asks Redis. on, exact or off."`
	RegionTimeout time.Duration `name:"region-timeout" env:"SLUICE_REGION_TIMEOUT" default:"500ms" placeholder:"TIME" help:"Time for a check of a rule with span global_exact whose key is at home in another region. The fail mode decides if that region has not answered by then. At least the round trip to the farthest region. 10ms to 5s."`
	StatsDays     int           `name:"stats-days" env:"SLUICE_STATS_DAYS" default:"90" placeholder:"DAYS" help:"Days for which the rules database keeps figures by hour. Figures by minute are kept for three days. 1 to 3650."`
}

// Log says what is logged and how.
type Log struct {
	LogLevel  string `name:"log-level" env:"SLUICE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"Lowest level that is logged. debug, info, warn or error."`
	LogFormat string `name:"log-format" env:"SLUICE_LOG_FORMAT" default:"text" placeholder:"FORM" help:"Format of the log on standard error. text, or json with one object a line."`
}

// Fixed holds values that no setting changes. Tests set fields of it; Fill gives the others the constants of the same
// names.
type Fixed struct {
	PollInterval, SnapshotInterval, DrainTimeout, GRPCMaxAge time.Duration
	RegionInterval, RegionShareInterval                      time.Duration
	HotKeyRate                                               int
}

const (
	// PollInterval is how often a node asks the rules database for changes. One small query each second costs a
	// database nothing that matters, and is the longest that a change waits when its notification is lost.
	PollInterval = time.Second
	// SnapshotInterval is how often counters in memory are saved: a crash loses at most that much of what was counted,
	// and saving millions of counters at this interval takes little of a processor.
	SnapshotInterval = 10 * time.Second
	// DrainTimeout is the time that requests in flight have to finish after the drain delay. Checks and edits are answered
	// within 5 s. With a drain delay of 5 s a node ends well within the 30 s that Kubernetes grants by default.
	DrainTimeout = 10 * time.Second
	// GRPCMaxAge is the age at which a gRPC connection is asked to move on, so that clients spread over new nodes. A
	// new connection twice an hour costs a client nothing that matters, and a new node gets its share of the calls within
	// half an hour.
	GRPCMaxAge = 30 * time.Minute
	// HotKeyRate is how many checks of one key a second make it hot on a node, until they fall below half of it. A node
	// decides tens of thousands of checks a second, so that such a key is a notable part of its load.
	HotKeyRate = 1000
	// RegionInterval is how often a region sends the others what it has spent. What is admitted beyond a limit grows with
	// the delay between regions plus this interval. The delay between continents is 50 to 150 ms, so that a shorter
	// interval would double the messages for a small gain.
	RegionInterval = 200 * time.Millisecond
	// RegionShareInterval is how often regions compare what they are asked for and lend each other parts of limits. Loans
	// last three intervals. A region that loses contact for a minute or two keeps what it has borrowed.
	RegionShareInterval = time.Minute
)

// Fill sets each value that is 0 to its constant.
func (f *Fixed) Fill() {
	*f = Fixed{
		PollInterval: cmp.Or(f.PollInterval, PollInterval), SnapshotInterval: cmp.Or(f.SnapshotInterval, SnapshotInterval),
		DrainTimeout: cmp.Or(f.DrainTimeout, DrainTimeout), GRPCMaxAge: cmp.Or(f.GRPCMaxAge, GRPCMaxAge),
		RegionInterval:      cmp.Or(f.RegionInterval, RegionInterval),
		RegionShareInterval: cmp.Or(f.RegionShareInterval, RegionShareInterval),
		HotKeyRate:          cmp.Or(f.HotKeyRate, HotKeyRate),
	}
}

// Serve holds the settings of sluice serve. Call Validate before use.
type Serve struct {
	Listener `group:"Listening"`
	GRPC     `group:"gRPC for Envoy"`
	Storage  `group:"Rules and tokens"`
	Counters `group:"Counters"`
	Regions  `group:"Regions"`
	Matching `group:"Matching"`
	NewRules `group:"New rules"`
	Stats    `group:"Figures"`
	Records  `group:"Decision log"`
	Kafka    `group:"Kafka"`
	Alerts   `group:"Alerts"`
	Console  `group:"Console"`
	SignOn   `group:"Single sign-on"`
	Log      `group:"Logging"`
	Tuning   `group:"Tuning"`
	Fixed    `kong:"-"`
}

// Remote says where a running server is.
type Remote struct {
	Server string `name:"server" env:"SLUICE_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"URL of the running server."`
	CAFile string `name:"ca" env:"SLUICE_CA_FILE" placeholder:"FILE" help:"Authorities that the server's certificate is checked against, in PEM form. Empty: those of the system."`
}

// Client holds the settings of commands that talk to a running server.
type Client struct {
	Remote
	Token Secret `name:"token" env:"SLUICE_TOKEN" changed:"A changed token is used" placeholder:"SECRET" help:"API token. Set it in the environment to keep it out of process listings."`

	DataDir string `name:"data-dir" env:"SLUICE_DATA_DIR" default:"./sluice-data" placeholder:"DIR" help:"Data directory of a server on this machine. While no API token exists, its file local-token has a token for the user who runs the server. It is used without --token and --client-cert, at a loopback address only."`

	ClientCertFile string `name:"client-cert" env:"SLUICE_CLIENT_CERT_FILE" placeholder:"FILE" help:"Client certificate to present to the server, in PEM form, followed by its intermediates. Every connection reads it again. Empty: none."`
	ClientKeyFile  string `name:"client-key" env:"SLUICE_CLIENT_KEY_FILE" placeholder:"FILE" help:"Private key of the client certificate, in PEM form."`
}
