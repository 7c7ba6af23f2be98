// Package config holds every setting of sluice: a flag, its environment twin, a
// default and one sentence of help each, in structs that the command line
// embeds. docs/configuration.md is tested against them.
package config

import "time"

// Storage says where rules and tokens live. The commands serve, migrate and
// token share it.
type Storage struct {
	DataDir     string `name:"data-dir" env:"SLUICE_DATA_DIR" default:"./sluice-data" placeholder:"DIR" help:"Folder of the embedded rule database, of counter snapshots, and of the copy of the rules with which a node starts while DATABASE_URL does not answer; created with mode 0700."`
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" placeholder:"URL" help:"Rule database, as in postgres://user:password@host:5432/sluice. Empty keeps the rules in an embedded SQLite file in the data directory."`
}

// Counters says where and how buckets are kept.
type Counters struct {
	RedisURL         string        `name:"redis-url" env:"REDIS_URL" placeholder:"URL" help:"Counter store, as in redis://host:6379/0 (rediss:// for TLS; several addresses separated by commas mean Redis Cluster). Empty keeps the counters in this process."`
	KeyPrefix        string        `name:"key-prefix" env:"SLUICE_KEY_PREFIX" default:"sl:" placeholder:"TEXT" help:"What every Redis key begins with; 1 to 32 letters, digits and ._:-"`
	PlainKeys        bool          `name:"plain-keys" env:"SLUICE_PLAIN_KEYS" negatable:"" help:"Keep every key name in Redis readable. Otherwise short ones are packed, which saves 16 bytes a bucket; on a cluster they never are. The same on every node: a change starts the counters afresh."`
	StoreTimeout     time.Duration `name:"store-timeout" env:"SLUICE_STORE_TIMEOUT" default:"25ms" placeholder:"TIME" help:"How long a check may wait for the counter store before its fail mode decides; 1ms to 10s."`
	MaxKeys          Keys          `name:"max-keys" env:"SLUICE_MAX_KEYS" default:"auto" placeholder:"N" help:"The most buckets kept in this process; beyond it those that expire soonest are evicted, and counted. 1000 to 1000000000, or auto: 200 bytes each in a quarter of the smallest of GOMEMLIMIT, the container's limit and this machine's memory, 100000 to 20000000; the log says how many."`
	MaxRecordBytes   Bytes         `name:"max-record-bytes" env:"SLUICE_MAX_RECORD_BYTES" default:"64MiB" placeholder:"SIZE" help:"Memory for the stored answers of requests with a request_id in this process; the ids of one key use at most an eighth of it. Beyond it the oldest are dropped, and counted. 1MiB to 64GiB."`
	SnapshotInterval time.Duration `name:"snapshot-interval" env:"SLUICE_SNAPSHOT_INTERVAL" default:"10s" placeholder:"TIME" help:"How often in-process counters are saved to the data directory, and so the most that a crash forgets; 0 saves at shutdown only. Otherwise 1s to 1h."`
}

// Near says what a node answers without asking Redis. Without REDIS_URL there is
// nothing to save, and it does not apply.
type Near struct {
	DenyCache     string `name:"deny-cache" env:"SLUICE_DENY_CACHE" default:"on" placeholder:"MODE" help:"Answer what is denied until a known instant from memory until then, at most a second: on; exact, only where every limit of the request denies, so that no figure is ever a second old; or off."`
	DenyCacheSize int    `name:"deny-cache-size" env:"SLUICE_DENY_CACHE_SIZE" default:"100000" placeholder:"N" help:"The most buckets of which denials are remembered, about 500 bytes each; 100 to 10000000."`
	HotKeys       string `name:"hot-keys" env:"SLUICE_HOT_KEYS" default:"on" placeholder:"MODE" help:"Find hot keys, and serve those of rules with hot_keys leased or sharded as they say: on, or off. Off on one node means off on all, or sharded limits are enforced twice."`
	HotKeyRate    int    `name:"hot-key-rate" env:"SLUICE_HOT_KEY_RATE" default:"1000" placeholder:"N" help:"Checks a second on this node from which a key is hot, until they fall below half; 10 to 1000000."`
	HotKeyShards  int    `name:"hot-key-shards" env:"SLUICE_HOT_KEY_SHARDS" default:"8" placeholder:"N" help:"In how many parts the buckets of rules with hot_keys sharded are split; 2 to 64, the same on every node."`
}

// Listener says where and how requests are accepted.
type Listener struct {
	Listen         string        `name:"listen" env:"SLUICE_LISTEN" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the HTTP API. Off loopback it needs at least one API token (sluice token create)."`
	TrustedProxies []string      `name:"trusted-proxies" env:"SLUICE_TRUSTED_PROXIES" placeholder:"CIDR" help:"Networks whose forwarding headers are believed, as in 10.0.0.0/8,fd00::/8. None by default."`
	ResetHeader    string        `name:"reset-header" env:"SLUICE_RESET_HEADER" default:"epoch" placeholder:"FORM" help:"What X-RateLimit-Reset says: epoch (seconds since 1970) or delta (seconds from now)."`
	MetricsPublic  bool          `name:"metrics-public" env:"SLUICE_METRICS_PUBLIC" negatable:"" help:"Serve /metrics without a token."`
	DrainDelay     time.Duration `name:"drain-delay" env:"SLUICE_DRAIN_DELAY" default:"0s" placeholder:"TIME" help:"How long after SIGTERM requests are still accepted while /readyz already answers 503, so that balancers notice; 0 to 5m."`
	DrainTimeout   time.Duration `name:"drain-timeout" env:"SLUICE_DRAIN_TIMEOUT" default:"10s" placeholder:"TIME" help:"How long requests in flight may take to finish after that; 1s to 5m."`
}

// Console says how people reach and use the console.
type Console struct {
	Console     bool          `name:"console" env:"SLUICE_CONSOLE" default:"true" negatable:"" help:"Serve the console under /console; --no-console leaves it out."`
	ConsoleURL  string        `name:"console-url" env:"SLUICE_CONSOLE_URL" placeholder:"URL" help:"Where people reach the console, as in https://sluice.example.com; needed behind a proxy. With https its cookies are sent over TLS only."`
	SessionIdle time.Duration `name:"session-idle" env:"SLUICE_SESSION_IDLE" default:"12h" placeholder:"TIME" help:"How long someone stays signed in to the console without opening a page; 1m to 720h."`
	SessionLife time.Duration `name:"session-life" env:"SLUICE_SESSION_LIFE" default:"168h" placeholder:"TIME" help:"How long someone stays signed in at all; 5m to 2160h."`
}

// Matching says how descriptors become keys.
type Matching struct {
	IPv4Prefix   int           `name:"ipv4-prefix" env:"SLUICE_IPV4_PREFIX" default:"32" placeholder:"BITS" help:"IPv4 addresses that share this many leading bits share a bucket; 1 to 32."`
	IPv6Prefix   int           `name:"ipv6-prefix" env:"SLUICE_IPV6_PREFIX" default:"64" placeholder:"BITS" help:"IPv6 addresses that share this many leading bits share a bucket; 1 to 128."`
	PollInterval time.Duration `name:"poll-interval" env:"SLUICE_POLL_INTERVAL" default:"1s" placeholder:"TIME" help:"How often the rule database is asked whether rules or tokens changed, beside its notifications; 100ms to 1m."`
}

// Memory says how much of it garbage may fill.
type Memory struct {
	MemoryBudget Mebibytes `name:"memory-budget" env:"SLUICE_MEMORY_BUDGET" default:"64" placeholder:"MIB" help:"MiB that the heap may fill before garbage is collected, where less than half of it is in use, up to four times what is in use; more in use is collected when the heap has doubled. More spends memory to save processor time. 0 leaves that to Go, and so does GOGC where it is set; GOMEMLIMIT holds in any case. 0 to 1048576."`
}

// Log says what is logged and how.
type Log struct {
	LogLevel  string `name:"log-level" env:"SLUICE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"The least severe log line written: debug, info, warn or error."`
	LogFormat string `name:"log-format" env:"SLUICE_LOG_FORMAT" default:"text" placeholder:"FORM" help:"Form of log lines on standard error: text, or json (one object a line)."`
}

// Serve is everything that sluice serve can be told. Call Validate before use.
type Serve struct {
	Listener `group:"Listening"`
	Storage  `group:"Rules and tokens"`
	Counters `group:"Counters"`
	Near     `group:"Near answers"`
	Matching `group:"Matching"`
	Console  `group:"Console"`
	SignOn   `group:"Single sign-on"`
	Memory   `group:"Memory"`
	Log      `group:"Logging"`
}

// Client is what commands need that talk to a running server.
type Client struct {
	Server string `name:"server" env:"SLUICE_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"The running server to talk to."`
	Token  string `name:"token" env:"SLUICE_TOKEN" placeholder:"SECRET" help:"API token to present; better given in the environment, where it does not show in process listings."`
}
