package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/internal/records"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// Deps are the dependencies of a Server. Checker, Rules, History, Writer, Pools, Profiles,
// Access and Now are required.
type Deps struct {
	// Checker decides requests.
	Checker *decide.Checker
	// Rules, Writer and History are the rules database; one value usually implements
	// all three.
	Rules   RuleReader
	Writer  RuleWriter
	History RuleHistory
	// Pools reads and writes the pools of the rules database.
	Pools rules.Store[rules.Pool]
	// Profiles reads and writes the profiles of the rules database.
	Profiles rules.Store[profile.Profile]
	// Overrides and OverrideWriter read and write overrides. Without them the routes
	// of overrides do not exist.
	Overrides      OverrideReader
	OverrideWriter OverrideWriter
	// FailDefaults fill in the fail mode of new rules that leave it out.
	FailDefaults rules.FailDefaults
	// Access holds the API tokens in force.
	Access *access.Current
	// OpenMode means that the listener is on a loopback address. Until the first token
	// exists, the open calls (access.OpenCall) then need no credentials if they have a
	// loopback name as Host and no header of a proxy.
	OpenMode bool
	// Certificates gives scopes to client certificates; nil gives none.
	Certificates *access.Certificates
	// Refused receives each call without sufficient credentials, with one of Endpoints; it may be nil.
	Refused func(endpoint string, r *access.Refusal)
	// Changed is called after each committed change of rules, before the response is
	// sent. It waits until the change is in force on this node, so that the next check
	// of the client applies it, and reports whether it is in force: false if ctx or its
	// own timeout ends, or if the rules do not compile. A nil func counts as true.
	Changed func(ctx context.Context) bool
	// Ready returns nil if this node can answer checks, or the reason why not, which is
	// shown to clients. A nil func means always ready.
	Ready func() error
	// RuleState describes the rules in force, for /readyz. It is called only while the
	// node is ready. If nil, the response has no rules.
	RuleState func() RuleState
	// Trouble returns the codes of the conditions that are set on this node, for /readyz. If it is nil, there are none.
	Trouble func() []string
	// Hot lists up to that many of the busiest buckets of this node. Nil without
	// hot-key detection.
	Hot func(most int) []limiter.HotKey
	// HotEverywhere lists the busiest buckets of all nodes, the busiest first. Nil if
	// there is only this node.
	HotEverywhere func(ctx context.Context) ([]history.HotLive, error)
	// Stats has the figures of what was decided. If nil, nothing is known of them.
	Stats history.Source
	// Usage has the statements of what keys spent. If nil, its route does not exist.
	Usage Usage
	// UsageRestorer charges what counters lack of statements. If nil, its route does not exist.
	UsageRestorer UsageRestorer
	// Figures takes figures of nodes at a read replica. If nil, its route does not exist.
	Figures Figures
	// DecisionLogs are the accounts of the decision logs of this node, by sink. If nil, it has none.
	DecisionLogs map[string]func() records.Totals
	// Incidents lists the incidents of all nodes. If nil, there are none.
	Incidents IncidentLister
	// Webhooks are where alerts are sent. If nil, the routes of webhooks do not exist.
	Webhooks Webhooks
	// Alerts and Silences are the active alerts, and what silences and acknowledges them. If Silences is nil, their routes
	// do not exist.
	Alerts   Alerts
	Silences Silences
	// Regions takes part in the exchange between regions. If nil, there are none, and its route does not exist.
	Regions Regions
	// RLS answers a call of Envoy's RateLimitService in the JSON form of proto3, with a status and a body. If nil, the
	// route does not exist.
	RLS func(ctx context.Context, body []byte) (status int, answer []byte, err error)
	// Metrics serves /metrics. If nil, the route does not exist.
	Metrics http.Handler
	// MetricsPublic serves /metrics without credentials.
	MetricsPublic bool
	// ResetDelta makes X-RateLimit-Reset seconds from now instead of seconds since the
	// epoch.
	ResetDelta bool
	// TrustedProxies are the networks whose X-Forwarded-For header is used for the
	// client's address in logs. If empty, it is the address of the connection.
	TrustedProxies []netip.Prefix
	// Checked is called for each request to POST /ratelimit/check that came through the routes; it may be nil.
	Checked func()
	// LargeRefused is called for each large batch that found no place; it may be nil.
	LargeRefused func()
	// WriteTimeout is the time of the HTTP server to write a response, which a large batch has from when it was read; 0
	// for no bound.
	WriteTimeout time.Duration
	// Panicked is called after a panic of a handler; it may be nil.
	Panicked func()
	// Logger receives errors for operators; nil discards them.
	Logger *slog.Logger
	// Now is the wall clock, for the expiry of tokens.
	Now func() time.Time
}

// IncidentLister finds incidents, as incident.Source does.
type IncidentLister interface {
	Incidents(ctx context.Context, q incident.Query) ([]incident.Incident, error)
}

// Webhooks reads, writes and tries webhooks. What Create and Rotate return has the secret; nothing else has.
type Webhooks interface {
	rules.Store[alerts.Webhook]
	Rotate(ctx context.Context, actor rules.Actor, name string, ifVersion int64) (alerts.Webhook, error)
	// Test sends a message now and returns what became of it.
	Test(ctx context.Context, name string) (alerts.Delivery, error)
	// Deliveries returns up to limit deliveries of a webhook before an id (0: from the newest), newest first.
	Deliveries(ctx context.Context, name string, before int64, limit int) ([]alerts.Delivery, error)
}

// RuleReader reads rules. Errors wrap rules.ErrNotFound or rules.ErrUnavailable.
type RuleReader interface {
	ListRules(ctx context.Context, q rules.Query) (rules.Page, error)
	GetRule(ctx context.Context, id int64) (rules.Rule, error)
}

// RuleWriter writes rules. Each call is one transaction, including the audit entry. An
// ifVersion of 0 means any version. Errors wrap rules.ErrNotFound, ErrNameTaken,
// ErrStale or ErrUnavailable, or are a *field.ValidationError.
type RuleWriter interface {
	CreateRule(ctx context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error)
	UpdateRule(ctx context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error)
	DeleteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) error
	ApplyPlan(ctx context.Context, actor rules.Actor, p rules.Plan) error
}

// OverrideReader reads overrides. It returns the same errors as RuleReader.
type OverrideReader interface {
	ListOverrides(ctx context.Context, q rules.OverrideQuery) (rules.OverridePage, error)
	GetOverride(ctx context.Context, ruleID, id int64) (rules.Override, error)
}

// OverrideWriter writes overrides, like RuleWriter. opt has the prefix lengths of
// addresses in keys. Errors may also wrap rules.ErrOverrideExists.
type OverrideWriter interface {
	CreateOverride(ctx context.Context, actor rules.Actor, o rules.Override, opt match.Options) (rules.Override, error)
	UpdateOverride(ctx context.Context, actor rules.Actor, o rules.Override, ifVersion int64,
		opt match.Options) (rules.Override, error)
	DeleteOverride(ctx context.Context, actor rules.Actor, ruleID, id, ifVersion int64) error
	ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport,
		opt match.Options) (rules.OverrideImported, error)
}

// RuleHistory reads and restores earlier versions of rules, including deleted rules.
type RuleHistory interface {
	// RuleHistory returns up to limit revisions before version before, newest first; 0
	// means from the newest.
	RuleHistory(ctx context.Context, id int64, limit int, before int64) ([]rules.Revision, error)
	// LastNames returns the current or last names of rules. Ids that never existed are
	// omitted.
	LastNames(ctx context.Context, ids []int64) (map[int64]string, error)
	// RollbackRule creates a new version with the content of version toVersion.
	RollbackRule(ctx context.Context, actor rules.Actor, id, toVersion, ifVersion int64) (rules.Rule, error)
	// PromoteRule creates a new version in which the candidate is the limit, or shadow
	// mode is enforce; see Rule.Promote.
	PromoteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error)
}
