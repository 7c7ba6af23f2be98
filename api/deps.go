package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
)

// Deps is what a Server needs. Checker, Rules, History, Writer, Pools and Access must
// be given; every other field has a working zero value.
type Deps struct {
	// Checker decides.
	Checker *decide.Checker
	// Rules, Writer and History are the rule database; one value usually
	// implements all three.
	Rules   RuleReader
	Writer  RuleWriter
	History RuleHistory
	// Pools is the rule database too.
	Pools PoolBook
	// Overrides and OverrideWriter keep overrides; without them their routes are
	// left out.
	Overrides      OverrideReader
	OverrideWriter OverrideWriter
	// Access holds the API tokens in force.
	Access *access.Current
	// OpenMode says that the listener is on a loopback address. Then, until the
	// first token exists, requests whose Host is a loopback name and that no proxy
	// forwarded need no credentials.
	OpenMode bool
	// Changed is called after each committed change of rules, before the answer
	// is sent. It waits until this node decides by the change, so that a client's
	// next check meets the rule it has just written, and reports whether it does:
	// false once ctx or its patience ends, or if the rules do not compile. Nil
	// reports true.
	Changed func(ctx context.Context) bool
	// Ready is nil when checks can be answered, else why not; its text is public.
	// Nil means always ready.
	Ready func() error
	// RuleState says by which rules the node decides, for /readyz; it is called
	// only while the node is ready. Nil leaves it out.
	RuleState func() RuleState
	// Hot lists this node's busiest buckets, at most so many. Nil where nobody looks
	// for them.
	Hot func(most int) []limiter.HotKey
	// HotEverywhere lists the busiest buckets of all nodes, the busiest first. Nil:
	// there is only this node.
	HotEverywhere func(ctx context.Context) ([]fleet.HotLive, error)
	// Metrics serves /metrics; nil leaves the route out.
	Metrics http.Handler
	// MetricsPublic serves /metrics without credentials.
	MetricsPublic bool
	// ResetDelta makes X-RateLimit-Reset delta seconds; otherwise it is seconds
	// since the epoch.
	ResetDelta bool
	// TrustedProxies are the networks whose X-Forwarded-For counts when a
	// client's address is logged. Empty: the address of the connection.
	TrustedProxies []netip.Prefix
	// Panicked is called after a panic that was contained in one request; nil is not.
	Panicked func()
	// Logger gets what an operator must know; nil discards.
	Logger *slog.Logger
	// Now is the wall clock, for token expiry; nil is not allowed.
	Now func() time.Time
}

// RuleReader finds rules. Errors wrap rules.ErrNotFound or
// rules.ErrUnavailable.
type RuleReader interface {
	ListRules(ctx context.Context, q rules.Query) (rules.Page, error)
	GetRule(ctx context.Context, id int64) (rules.Rule, error)
}

// RuleWriter changes rules. Each call is one transaction with its audit entry.
// ifVersion 0 means any version. Errors wrap rules.ErrNotFound, ErrNameTaken,
// ErrStale or ErrUnavailable, or are a *rules.ValidationError.
type RuleWriter interface {
	CreateRule(ctx context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error)
	UpdateRule(ctx context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error)
	DeleteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) error
	ApplyPlan(ctx context.Context, actor rules.Actor, p rules.Plan) error
}

// OverrideReader finds overrides. Errors are those of RuleReader.
type OverrideReader interface {
	ListOverrides(ctx context.Context, q rules.OverrideQuery) (rules.OverridePage, error)
	GetOverride(ctx context.Context, ruleID, id int64) (rules.Override, error)
}

// OverrideWriter changes overrides, as RuleWriter does rules. opt are the
// settings by which addresses are counted. Errors may also wrap
// rules.ErrOverrideExists.
type OverrideWriter interface {
	CreateOverride(ctx context.Context, actor rules.Actor, o rules.Override, opt rules.Options) (rules.Override, error)
	UpdateOverride(ctx context.Context, actor rules.Actor, o rules.Override, ifVersion int64, opt rules.Options) (rules.Override, error)
	DeleteOverride(ctx context.Context, actor rules.Actor, ruleID, id, ifVersion int64) error
	ImportOverrides(ctx context.Context, actor rules.Actor, in rules.OverrideImport, opt rules.Options) (rules.OverrideImported, error)
}

// RuleHistory reads and restores earlier versions. A deleted rule keeps its
// history.
type RuleHistory interface {
	// RuleHistory gives up to limit revisions older than version before (0: from
	// the newest), newest first.
	RuleHistory(ctx context.Context, id int64, limit int, before int64) ([]rules.Revision, error)
	// LastNames gives the names that rules have, or had when they were deleted. Ids
	// that never were are left out.
	LastNames(ctx context.Context, ids []int64) (map[int64]string, error)
	// RollbackRule makes a new version with the content of version toVersion.
	RollbackRule(ctx context.Context, actor rules.Actor, id, toVersion, ifVersion int64) (rules.Rule, error)
	// PromoteRule makes a new version in which what was on trial is in force; see
	// Rule.Promote.
	PromoteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error)
}

// PoolReader finds pools. Errors wrap rules.ErrNotFound or rules.ErrUnavailable.
type PoolReader interface {
	// ListPools gives all, in order of name.
	ListPools(ctx context.Context) ([]rules.Pool, error)
	GetPool(ctx context.Context, name string) (rules.Pool, error)
}

// PoolWriter changes pools, as RuleWriter does rules. Deleting one that rules
// name is rules.ErrPoolUsed.
type PoolWriter interface {
	CreatePool(ctx context.Context, actor rules.Actor, p rules.Pool) (rules.Pool, error)
	UpdatePool(ctx context.Context, actor rules.Actor, p rules.Pool, ifVersion int64) (rules.Pool, error)
	DeletePool(ctx context.Context, actor rules.Actor, name string, ifVersion int64) error
}

// PoolBook is both.
type PoolBook interface {
	PoolReader
	PoolWriter
}
