package kit

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/internal/trouble"
	"sluice/internal/usage"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// Deps are the dependencies that several areas share. Fields are required unless noted.
type Deps struct {
	// Rules stores rules.
	Rules RuleStore
	// Sets holds the rules in force on this node.
	Sets *match.Current
	// Overrides stores overrides of rules.
	Overrides Overrides
	// Changed is called after every change of the rules. It waits until the change is in force on this node. It returns
	// false if the change takes too long.
	Changed func(ctx context.Context) bool
	// FailDefaults fill in the fail mode of new rules that leave it out.
	FailDefaults rules.FailDefaults
	// Users stores accounts, Sessions the sessions of signed-in people.
	Users    Users
	Sessions Sessions
	// Views stores the saved views of accounts.
	Views Views
	// Passwords hashes and checks passwords.
	Passwords Passwords
	// SSO is the single sign-on provider, nil for none.
	SSO *SSO
	// Guard decides the limits on sign-in attempts, and GuardLocal decides them if Guard cannot. GuardLocal may be nil:
	// then such an attempt fails.
	Guard      limiter.Store
	GuardLocal limiter.Store
	// Node returns the state of this node. Every page calls it, so it must answer from memory.
	Node func() Node
	// Fleet returns metrics of all nodes, Denials sampled requests.
	Fleet   Fleet
	Denials DenialLog
	// Stats holds the figures of decisions, Marks the events at the same time.
	Stats history.Source
	Marks history.MarkSource
	// Statements holds the spent units of keys of rules with keep_periods.
	Statements Statements
	// ActiveAlerts returns how many active alerts nobody has handled, by acknowledging or silencing them, and how many
	// somebody has. known is false until that was read once. Every page calls it, so it must answer from memory. Package
	// web sets it.
	ActiveAlerts func() (open, handled int, known bool)
	// Incidents are the times in which a node could not use Redis or the rule database.
	Incidents incident.Source
	// PublicURL is where people reach the console, as in
	// https://sluice.example.com; "" if nobody said. With https, cookies are only
	// sent over TLS.
	PublicURL string
	// TLS says that the listener uses TLS, which decides about cookies without a PublicURL.
	TLS bool
	// TrustedProxies are the networks whose X-Forwarded-Proto counts.
	TrustedProxies []netip.Prefix
	// SessionIdle is how long a session lasts without a page. 0 means 12 hours.
	SessionIdle time.Duration
	// Tour leads through the console. Only sluice demo has one.
	Tour []TourStop
	// Logger is for operators; nil discards.
	Logger *slog.Logger
	// Now is the wall clock.
	Now func() time.Time
}

var checked = []reflect.Kind{reflect.Interface, reflect.Func, reflect.Pointer, reflect.String}

// RequireFields returns an error that names the first missing dependency, except for the optional ones.
func RequireFields(deps any, optional ...string) error {
	v := reflect.ValueOf(deps)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		kind := v.Field(i).Kind()
		if slices.Contains(checked, kind) && v.Field(i).IsZero() && !slices.Contains(optional, name) {
			return fmt.Errorf("web: %s.%s is required", v.Type(), name)
		}
	}
	return nil
}

// Users stores accounts. Errors wrap rules.ErrNotFound, ErrNameTaken or
// ErrUnavailable, access.ErrNotFirst, or are a *field.ValidationError.
type Users interface {
	GetUser(ctx context.Context, id int64) (access.User, error)
	GetUserByName(ctx context.Context, name string) (access.User, error)
	CountUsers(ctx context.Context) (int64, error)
	// CreateUser stores an account. If first is set, it fails unless there is no account yet.
	CreateUser(ctx context.Context, actor rules.Actor, u access.User, first bool) (access.User, error)
	NoteLogin(ctx context.Context, id int64, at time.Time) error
}

// Passwords hashes and checks passwords, as *access.Hasher does. Errors are access.ErrBusy or errors of the context.
// After an error, nothing was compared.
type Passwords interface {
	HashPassword(ctx context.Context, lane access.Lane, password string) (string, error)
	CheckPassword(ctx context.Context, lane access.Lane, hash, password string) (bool, error)
}

// Sessions stores session data under the hash of the session's secret, so that it survives a restart. Errors wrap
// rules.ErrUnavailable. Only CreateSession and ReplaceSession store a session that was not there; found is false, and
// nothing is written, if the session to change has ended.
type Sessions interface {
	FindSession(ctx context.Context, token string) (s access.Session, found bool, err error)
	CreateSession(ctx context.Context, s access.Session) error
	// UpdateSession writes the expiry, and the data unless it is nil.
	UpdateSession(ctx context.Context, s access.Session) (found bool, err error)
	// ReplaceSession ends the session of the hash old and stores s, in one step.
	ReplaceSession(ctx context.Context, old string, s access.Session) (found bool, err error)
	DeleteSession(ctx context.Context, token string) error
}

// Fleet reports on all nodes. Its data is at most one second old, or Live.Err is set.
type Fleet interface {
	Live(ctx context.Context) history.Live
	// DeniedKeys returns the keys that were denied in the last minute, the most denied first. With an error they are those
	// of this node only, or missing.
	DeniedKeys(ctx context.Context) ([]history.KeyDenials, error)
}

// Statements reads statements, as usage.Database does. Errors wrap rules.ErrUnavailable.
type Statements interface {
	UsagePeriods(ctx context.Context, rule int64, most int) ([]int64, error)
	UsageTotals(ctx context.Context, rule int64, key string, periods []int64) ([]usage.Total, error)
}

// DenialLog returns sampled requests of all nodes, newest first.
type DenialLog interface {
	Requests(ctx context.Context, f history.Filter, n int) ([]history.Request, error)
	// Denials is Requests without allowed ones, of which more time is stored.
	Denials(ctx context.Context, f history.Filter, n int) ([]history.Request, error)
	// Request returns a request that is still stored.
	Request(ctx context.Context, id string) (history.Request, bool, error)
}

// Overrides stores overrides. opt are the settings by which addresses
// are counted, ifVersion is the version that the page showed. Errors wrap
// rules.ErrNotFound, ErrStale, ErrOverrideExists or ErrUnavailable, or are a
// *field.ValidationError.
type Overrides interface {
	ListOverrides(ctx context.Context, q rules.OverrideQuery) (rules.OverridePage, error)
	GetOverride(ctx context.Context, ruleID, id int64) (rules.Override, error)
	CreateOverride(ctx context.Context, actor rules.Actor, o rules.Override, opt match.Options) (rules.Override, error)
	UpdateOverride(ctx context.Context, actor rules.Actor, o rules.Override, ifVersion int64,
		opt match.Options) (rules.Override, error)
	DeleteOverride(ctx context.Context, actor rules.Actor, ruleID, id, ifVersion int64) error
}

// Node is the state of this node.
type Node struct {
	history.Status
	// Trouble is what is wrong on this node.
	Trouble []trouble.Trouble
	// Embedded: the rules are in a file of this node, not in Postgres.
	Embedded bool
	// Replica: the rules database is a read replica, so nothing can be changed here. Primary is the URL of a console where
	// it can, "" if unknown.
	Replica bool
	Primary string
	// Region is the region of this node, "" without regions. Figures of all nodes cover the nodes of this region.
	Region string
	// CutOff are the regions that are cut off from this one.
	CutOff []string
}

// Degraded reports whether a circuit breaker is not closed, so that fail modes decide some requests.
func (n *Node) Degraded() bool {
	return slices.ContainsFunc(n.Breakers, func(b history.Breaker) bool { return b.State != "closed" })
}

// SSO is single sign-on at one provider. Every field is required.
type SSO struct {
	// Name is the provider's name on the button, Issuer its address, Claim the claim that lists groups.
	Name, Issuer, Claim string
	Provider            SignOn
	Accounts            SignOnAccounts
}

// SSOName is the name of the single sign-on provider, "" if there is none.
func (k *Kit) SSOName() string {
	if k.SSO == nil {
		return ""
	}
	return k.SSO.Name
}

// SignOn is a provider of single sign-on. Errors wrap access.ErrProviderUnavailable or
// access.ErrIdentity, and are for the log.
type SignOn interface {
	// AuthURL returns the address to which the browser goes with a challenge.
	AuthURL(ctx context.Context, c access.Challenge) (string, error)
	// Exchange turns the code that the browser returns with into an identity, which may have no role.
	Exchange(ctx context.Context, code string, c access.Challenge) (access.Identity, error)
}

// SignOnAccounts finds and creates accounts of people who use single sign-on.
type SignOnAccounts interface {
	// SignOn returns the account of an identity. Errors wrap access.ErrNoRole,
	// access.ErrDisabled or rules.ErrUnavailable, or are a *field.ValidationError.
	SignOn(ctx context.Context, id access.Identity) (access.User, error)
}
