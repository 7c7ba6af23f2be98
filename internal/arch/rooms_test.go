package arch

// room lists what one package may import: packages of this module by their path in the module,
// foreign packages by a prefix. It may import the standard library, unless the room is pure.
type room struct {
	path    string
	may     []string
	foreign []string
	// inTests are packages of this module that only its tests may import.
	inTests []string
}

// Foreign modules that several rooms use.
const (
	echo       = "github.com/labstack/echo/v4"
	redis      = "github.com/redis/go-redis/v9"
	pgx        = "github.com/jackc/pgx/v5"
	prometheus = "github.com/prometheus"
	yaml       = "go.yaml.in/yaml/v4"
	kong       = "github.com/alecthomas/kong"
	otel       = "go.opentelemetry.io"
	templ      = "github.com/a-h/templ"
)

// rooms lists all rooms, from the arithmetic outwards. "" is the root package, which embeds
// openapi.yaml.
var rooms = []room{
	{path: ""},
	{path: "limiter"},
	{path: "limiter/redisstore", may: []string{"limiter", "limiter/redisstore/script"},
		foreign: []string{redis, prometheus}},
	{path: "limiter/redisstore/script", may: []string{"limiter"}},
	{path: "limiter/memstore", may: []string{"limiter", "internal/atomicfile", "internal/wire"}},
	{path: "limiter/nearstore", may: []string{"limiter"},
		foreign: []string{"github.com/maypok86/otter/v2", prometheus}},
	{path: "limiter/storetest", may: []string{"limiter"},
		foreign: []string{"pgregory.net/rapid", "github.com/google/go-cmp"}},
	{path: "rules/chars"},
	{path: "rules/route", may: []string{"rules/chars"}},
	{path: "rules/redact", may: []string{"rules/chars"}},
	{path: "rules/override", may: []string{"limiter"}, foreign: []string{"github.com/dchest/siphash"}},
	{path: "rules/tree"},
	{path: "rules/textmap"},
	{path: "rules/entries", may: []string{"rules/textmap"}},
	{
		path: "rules", may: []string{"limiter", "rules/chars", "rules/entries", "rules/override", "rules/redact",
			"rules/route", "rules/textmap", "rules/tree"},
		foreign: []string{"github.com/expr-lang/expr", "golang.org/x/net/idna", "golang.org/x/text"},
	},
	{path: "rules/yamltree", may: []string{"rules/tree"}, foreign: []string{yaml}},
	{path: "rules/rulefile", may: []string{"rules", "rules/chars", "rules/tree", "rules/yamltree"},
		inTests: []string{"rules/entries"}, foreign: []string{yaml}},
	{
		path: "rules/envoyfile",
		may: []string{"limiter", "rules", "rules/chars", "rules/entries", "rules/redact", "rules/rulefile",
			"rules/tree", "rules/yamltree"},
		foreign: []string{yaml},
	},
	{path: "rules/words", may: []string{"rules", "rules/entries"}},
	{path: "rules/facts", may: []string{"limiter", "rules", "rules/chars", "rules/entries", "rules/route"}},

	{path: "internal/access", foreign: []string{"golang.org/x/crypto/argon2"}},
	{path: "internal/atomicfile"},
	{path: "internal/localtoken", may: []string{"internal/access", "internal/atomicfile"}},
	{path: "internal/secretfile"},
	{path: "internal/tick"},
	{path: "internal/starvation", foreign: []string{prometheus}},
	{path: "internal/certificate", may: []string{"internal/tick"}},
	{path: "internal/wire"},
	{path: "internal/deferred/filequeue",
		may: []string{"internal/atomicfile", "internal/tick", "internal/wire", "api/decide"}},
	{path: "internal/deferred/redisqueue", may: []string{"api/decide", "limiter/redisstore"}, foreign: []string{redis}},
	{path: "internal/deferred/runner", may: []string{"api/client"}},
	{path: "internal/deferred/queuetest", may: []string{"api/decide"}},
	{path: "internal/rulecopy", may: []string{"rules", "rules/override", "internal/access", "internal/atomicfile"},
		inTests: []string{"rules/entries"}},
	{path: "internal/records", may: []string{"api/decide", "api/reply", "internal/atomicfile", "limiter", "rules",
		"rules/chars", "rules/redact"}, inTests: []string{"limiter/memstore"},
		foreign: []string{"github.com/klauspost/compress/gzip", prometheus}},
	{path: "internal/records/kafkasink", may: []string{"internal/records"},
		foreign: []string{"github.com/twmb/franz-go", "github.com/klauspost/compress"}},
	{path: "internal/region", may: []string{"limiter", "internal/wire"},
		foreign: []string{"github.com/cespare/xxhash/v2", "github.com/klauspost/compress/zstd"}},
	{path: "internal/region/matrix"},
	{path: "internal/region/share", may: []string{"limiter"},
		inTests: []string{"internal/region/matrix", "limiter/memstore", "rules"}},
	{path: "internal/region/sharing", may: []string{"internal/region", "internal/region/exchange",
		"internal/region/share", "internal/tick", "limiter", "rules"}, foreign: []string{prometheus}},
	{path: "internal/region/exchange", may: []string{"internal/region", "internal/tick", "limiter", "rules"},
		inTests: []string{"internal/capacity", "internal/fleet", "internal/region/matrix", "limiter/memstore",
			"limiter/redisstore"},
		foreign: []string{prometheus}},
	{path: "internal/region/home", may: []string{"internal/region", "internal/region/exchange", "internal/wire", "limiter",
		"rules"},
		inTests: []string{"internal/region/matrix", "limiter/memstore", "limiter/redisstore"},
		foreign: []string{prometheus}},
	{path: "internal/backtest", may: []string{"api/decide", "internal/records", "limiter", "limiter/memstore", "rules",
		"rules/chars"},
		inTests: []string{"rules/rulefile", "rules/override"}, foreign: []string{"github.com/klauspost/compress/gzip"}},
	{path: "internal/telemetry", may: []string{"api/decide", "limiter", "limiter/redisstore", "rules"},
		foreign: []string{prometheus}},
	{path: "internal/traces", may: []string{"api/decide", "limiter", "limiter/redisstore", "rules"},
		inTests: []string{"internal/traces/collector"},
		foreign: []string{otel, prometheus, "github.com/go-logr/logr", "google.golang.org/grpc"}},
	{path: "internal/traces/collector", foreign: []string{otel, "google.golang.org/grpc", "google.golang.org/protobuf"}},
	{path: "internal/stats", may: []string{"rules", "internal/tick", "internal/wire"},
		inTests: []string{"internal/fleet"}, foreign: []string{prometheus}},
	{path: "internal/stats/statstest", may: []string{"internal/stats"}},
	{path: "internal/doctor", may: []string{"internal/stats", "limiter", "rules"}},
	{path: "internal/fleet", may: []string{"limiter", "limiter/redisstore", "rules", "internal/stats",
		"internal/atomicfile", "internal/region/share", "internal/tick",
		"internal/wire"},
		foreign: []string{redis, prometheus}},
	{path: "internal/config", may: []string{"limiter", "rules", "rules/chars", "internal/access", "internal/alerts"},
		foreign: []string{kong}},
	{path: "internal/alerts", may: []string{"limiter", "rules", "rules/redact"},
		foreign: []string{"golang.org/x/net/idna"}},
	{path: "internal/alerts/evaluate", may: []string{"internal/alerts", "internal/tick"}},
	{path: "internal/alerts/sense", may: []string{"internal/alerts", "internal/alerts/evaluate", "internal/tick",
		"api/decide", "limiter", "rules"}, foreign: []string{prometheus}},
	{path: "internal/alerts/deliver", may: []string{"internal/alerts", "internal/tick", "rules"},
		foreign: []string{"github.com/standard-webhooks", prometheus}},
	{path: "internal/heap"},
	{path: "internal/audit", may: []string{"rules", "internal/access"}},
	{path: "internal/sso", may: []string{"internal/access"},
		foreign: []string{"github.com/coreos/go-oidc/v3", "golang.org/x/oauth2"}},
	{path: "internal/sso/ssotest"},
	{path: "migrations"},
	{
		path: "internal/database", may: []string{"internal/alerts", "internal/stats",
			"limiter", "rules", "rules/override", "migrations", "internal/access",
			"internal/audit"},
		inTests: []string{"rules/entries", "internal/alerts/deliver"},
		foreign: []string{"gorm.io", pgx, "github.com/glebarez", "github.com/pressly/goose/v3",
			"github.com/standard-webhooks", prometheus},
	},

	{path: "api/decide", may: []string{"limiter", "rules", "rules/entries", "internal/tick", "internal/wire"},
		inTests: []string{"limiter/nearstore"}},
	{path: "api/client", may: []string{"limiter", "internal/secretfile"}, inTests: []string{"internal/playbook"}},
	{path: "api/client/httplimit", may: []string{"api/client", "rules", "rules/facts"},
		inTests: []string{"internal/playbook"}},
	{path: "api/client/httplimit/echolimit", may: []string{"api/client", "api/client/httplimit"}, foreign: []string{echo},
		inTests: []string{"internal/playbook"}},
	{path: "api/reply", may: []string{"api/decide", "limiter", "rules", "rules/redact", "internal/access"}},
	{
		path: "api", may: []string{"internal/alerts", "internal/doctor", "internal/stats", "internal/records",
			"", "api/decide", "api/plain", "api/reply", "limiter", "rules", "rules/chars", "rules/entries",
			"rules/envoyfile", "rules/facts", "rules/rulefile", "rules/tree", "internal/access", "internal/fleet",
			"internal/heap",
			"internal/region", "internal/region/exchange", "internal/region/home",
			"internal/region/share", "internal/region/sharing"},
		foreign: []string{echo},
	},
	{path: "api/gateway", may: []string{"api/decide", "api/reply", "limiter", "rules", "rules/facts",
		"internal/access"}},
	{path: "api/plain", may: []string{"api/decide", "api/reply", "internal/access"},
		foreign: []string{"golang.org/x/sys"}},
	{
		path: "api/envoy", may: []string{"api/decide", "api/reply", "limiter", "rules", "rules/entries", "rules/facts",
			"internal/access"},
		foreign: []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto",
			"github.com/envoyproxy/go-control-plane/envoy", "golang.org/x/net"},
	},
	{
		path: "web", may: []string{"limiter", "internal/access", "internal/backtest", "internal/records",
			"internal/region/exchange", "internal/region/sharing", "web/alerts", "web/inspect", "web/kit",
			"web/overview", "web/people", "web/pools", "web/profiles", "web/replay", "web/ruleedit", "web/rulelist",
			"web/rulepage", "web/signin", "web/traffic", "web/transfer"},
		foreign: []string{echo},
		inTests: []string{"rules", "rules/chars", "rules/redact", "internal/audit",
			"internal/fleet", "internal/stats", "web/static", "web/view"},
	},
	{path: "web/signin", may: []string{"rules", "rules/chars", "internal/access", "web/kit", "web/view"},
		foreign: []string{templ}},
	{path: "web/overview", may: []string{"deploy", "internal/records", "internal/region/exchange",
		"internal/region/home", "internal/region/sharing", "internal/stats", "rules", "rules/chars", "internal/access",
		"internal/fleet", "web/kit", "web/static", "web/view"}, inTests: []string{"internal/region"},
		foreign: []string{templ}},
	{path: "web/profiles", may: []string{"rules", "internal/access", "web/kit", "web/view"}, foreign: []string{templ}},
	{path: "web/rulelist", may: []string{"internal/stats", "rules", "rules/chars", "rules/route", "rules/rulefile",
		"internal/access", "internal/fleet", "web/kit", "web/view"}, foreign: []string{templ}},
	{path: "web/rulepage", may: []string{"internal/doctor", "internal/stats", "rules", "rules/chars", "internal/access",
		"internal/fleet", "web/bind", "web/kit", "web/view"}, foreign: []string{templ}},
	{path: "web/ruleedit", may: []string{"deploy", "limiter", "rules", "rules/chars", "rules/entries", "rules/rulefile",
		"rules/words", "internal/access", "internal/fleet", "web/bind", "web/kit", "web/view"},
		foreign: []string{templ}},
	{path: "web/replay", may: []string{"internal/backtest", "limiter", "rules", "rules/chars", "internal/access",
		"web/kit", "web/view"}, foreign: []string{templ}},
	{path: "web/pools", may: []string{"rules", "internal/access", "web/bind", "web/kit", "web/view"},
		foreign: []string{templ}},
	{path: "web/inspect", may: []string{"internal/stats",
		"limiter", "rules", "rules/chars", "rules/entries", "rules/facts",
		"rules/redact", "internal/access", "internal/fleet", "web/kit", "web/view"}, foreign: []string{templ}},
	{path: "web/traffic", may: []string{"internal/stats", "rules", "rules/chars", "internal/access", "web/kit",
		"web/static", "web/view"}, foreign: []string{templ}},
	{path: "web/people", may: []string{"rules", "rules/chars", "internal/access", "internal/audit", "web/kit", "web/view"},
		foreign: []string{templ}},
	{path: "web/alerts", may: []string{"internal/alerts", "rules", "rules/chars", "internal/access", "web/bind",
		"web/kit", "web/view"},
		foreign: []string{templ}},
	{path: "web/transfer", may: []string{"limiter", "rules", "rules/envoyfile", "rules/rulefile", "internal/access",
		"internal/heap", "web/kit", "web/view"}, foreign: []string{templ},
		inTests: []string{"rules/entries"}},
	{
		path: "web/kit", may: []string{"internal/stats",
			"limiter", "rules", "internal/access", "internal/fleet", "web/static", "web/view"},
		foreign: []string{echo, templ, "github.com/alexedwards/scs/v2"},
	},
	{path: "web/bind", may: []string{"limiter", "rules", "web/view"}},
	{path: "web/view", may: []string{"internal/stats",
		"rules", "rules/chars", "rules/words", "internal/fleet", "web/static"},
		foreign: []string{templ}},
	{path: "web/static"},
	{path: "web/webtest", may: []string{"internal/alerts", "internal/backtest", "internal/records",
		"internal/region", "internal/region/exchange", "internal/region/sharing", "internal/stats",
		"limiter", "limiter/memstore", "rules", "rules/entries", "rules/override",
		"rules/redact", "internal/access", "internal/audit", "internal/fleet", "web"}, foreign: []string{echo}},
	{path: "web/browsertest", may: []string{"internal/access", "internal/fleet"},
		foreign: []string{"github.com/chromedp"}},
	{path: "web/gallery", may: []string{"internal/fleet", "web/browsertest", "web/static", "web/webtest"},
		foreign: []string{"github.com/chromedp"}},

	{
		path: "internal/app", may: []string{"internal/alerts", "internal/alerts/deliver", "internal/alerts/evaluate",
			"internal/alerts/sense", "internal/doctor", "internal/stats",
			"", "api", "api/decide", "api/envoy", "api/gateway", "api/plain", "api/reply", "web", "limiter", "limiter/memstore",
			"limiter/nearstore",
			"limiter/redisstore", "migrations",
			"rules", "rules/override", "rules/redact",
			"internal/access", "internal/atomicfile", "internal/audit", "internal/backtest", "internal/certificate",
			"internal/config", "internal/heap",
			"internal/database", "internal/fleet", "internal/records", "internal/records/kafkasink",
			"internal/region", "internal/region/exchange", "internal/region/home", "internal/region/share",
			"internal/region/sharing", "internal/rulecopy",
			"internal/localtoken", "internal/secretfile", "internal/sso", "internal/starvation",
			"internal/telemetry", "internal/tick", "internal/traces",
			"internal/deferred/filequeue", "internal/deferred/redisqueue",
		},
		foreign: []string{echo, redis, prometheus, "golang.org/x/sync", "golang.org/x/sys",
			"github.com/KimMachineGun/automemlimit"},
		inTests: []string{"api/client", "internal/capacity", "internal/traces/collector"},
	},
	{
		// Besides serve, the commands use one edge each: token and migrate the database, rules a
		// file, check and the rest the client.
		path: "cmd/sluice", may: []string{
			"api/client", "internal/app", "internal/capacity", "internal/config", "internal/access", "internal/database",
			"internal/deferred/runner", "internal/localtoken", "internal/secretfile", "internal/telemetry", "internal/tick",
			"limiter", "limiter/redisstore", "rules", "rules/chars", "internal/backtest", "internal/records/kafkasink",
			"rules/envoyfile", "rules/facts", "rules/rulefile",
		},
		foreign: []string{kong},
	},

	{path: "docs/callers"},
	{path: "deploy/gateways", inTests: []string{"api"}},
	{path: "deploy", may: []string{"internal/config"}, inTests: []string{"internal/localtoken"}},
	{path: "internal/arch"},
	{path: "internal/sim", may: []string{"api/decide", "limiter", "limiter/memstore", "rules"}},
	{path: "internal/road/node", may: []string{"internal/app", "internal/config"}, foreign: []string{kong}},
	{path: "internal/playbook", may: []string{"internal/app", "internal/config", "internal/localtoken",
		"internal/testenv"}},
	{path: "internal/capacity", may: []string{"limiter", "internal/region/share"}},
	{path: "internal/testenv", foreign: []string{pgx, prometheus}},
}

// forTests lists what the test files of every room may import in addition: real servers, both
// stores, the conformance suite. Tests may import any foreign module except those of notInTests.
var forTests = []string{"", "limiter", "rules/override", "rules/rulefile", "limiter/memstore", "limiter/redisstore",
	"limiter/storetest", "internal/testenv", "internal/deferred/filequeue", "internal/deferred/queuetest", "internal/sso",
	"internal/sso/ssotest", "internal/stats/statstest", "web/browsertest", "web/webtest"}

var stores = []string{"limiter/memstore", "limiter/nearstore", "limiter/redisstore"}

// upward lists what the lower rooms must not import even in their tests, because it would reverse
// an arrow.
var upward = map[string][]string{
	"limiter":        stores,
	"rules":          stores,
	"rules/chars":    stores,
	"rules/override": stores,
	"rules/redact":   stores,
	"rules/rulefile": stores,
	"rules/tree":     stores,
	"rules/yamltree": stores,
	"rules/entries":  stores,
	"rules/facts":    stores,
	"rules/words":    stores,
	"rules/route":    stores,
}

// beneath lists packages that a room must not import, directly or indirectly.
var beneath = map[string][]string{
	"api/decide":                     {"net/http", echo, redis, "gorm.io", module},
	"api/reply":                      {"net/http", echo, redis, "gorm.io", module},
	"api/client":                     {echo, redis, "gorm.io", "github.com"},
	"api/client/httplimit":           {echo, redis, "gorm.io"},
	"api/client/httplimit/echolimit": {redis, "gorm.io"},
}

// nowhere lists foreign packages that no room may import, with the reasons.
var nowhere = map[string]string{
	"modernc.org/sqlite": "registers the same driver name as glebarez/go-sqlite",
	"github.com/lib/pq":  "pgx is the one Postgres driver",
}

// onlyIn lists the rooms that alone may import a foreign module, including their tests.
var onlyIn = map[string][]string{
	"gorm.io": {"internal/database"},
}
