package web

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"sluice/internal/access"
	"sluice/internal/fleet"
	"sluice/limiter"
	"sluice/rules"
)

// Deps is what a Server needs. Fields without a remark must be given.
type Deps struct {
	// Rules finds rules to show.
	Rules RuleBrowser
	// Sets holds the rules in force on this node.
	Sets *rules.Current
	// Users are the accounts, Sessions who is signed in.
	Users    Users
	Sessions Sessions
	// Passwords hashes and checks passwords.
	Passwords Passwords
	// Guard takes the limits on signing in; GuardLocal stands in while Guard
	// cannot decide. GuardLocal may be nil: then signing in fails meanwhile.
	Guard      limiter.Store
	GuardLocal limiter.Store
	// Node tells how this node is. It is asked for every page, so it must answer
	// from memory.
	Node func() Node
	// Fleet has the figures of all nodes.
	Fleet Fleet
	// Writer and History change rules and tell how they were; Changed is called
	// after every change of the rules. It waits until this node decides by the
	// change, or gives up, and reports which.
	Writer  RuleWriter
	History RuleHistory
	Changed func(ctx context.Context) bool
	// Bulk edits many rules at once.
	Bulk RuleBulk
	// Denials are what the editor tries a rule on, Headers what it shows of an
	// answer.
	Denials RecentDenials
	Headers HeadersOf
	// Live is for the pages of rules, overrides, pools and hot keys.
	Live Live
	// Inspect is for the pages about denials, single requests and keys.
	Inspect Inspect
	// SSO is where people sign in besides here; nil if nowhere.
	SSO *SSO
	// Welcome is the one-time link of the first start; nil if there is none.
	Welcome *Welcome
	// Admin is for people, tokens, the audit log, import and settings.
	Admin Admin
	// PublicURL is where people reach the console, as in
	// https://sluice.example.com; "" if nobody said. With https, cookies are only
	// sent over TLS.
	PublicURL string
	// TrustedProxies are the networks whose X-Forwarded-Proto counts.
	TrustedProxies []netip.Prefix
	// SessionIdle and SessionLife end sessions after so long without a page, and
	// after so long in all. 0 means 12 hours and 7 days.
	SessionIdle, SessionLife time.Duration
	// Logger gets what an operator must know; nil discards.
	Logger *slog.Logger
	// Now is the wall clock.
	Now func() time.Time
}

// RuleBrowser finds rules. Errors wrap rules.ErrUnavailable.
type RuleBrowser interface {
	BrowseRules(ctx context.Context, b rules.Browse) (rules.Listing, error)
}

// Users are the accounts. Errors wrap rules.ErrNotFound, ErrNameTaken or
// ErrUnavailable, access.ErrNotFirst, or are a *rules.ValidationError.
type Users interface {
	GetUser(ctx context.Context, id int64) (access.User, error)
	GetUserByName(ctx context.Context, name string) (access.User, error)
	CountUsers(ctx context.Context) (int64, error)
	// CreateUser stores an account; with first only if there is none yet.
	CreateUser(ctx context.Context, actor rules.Actor, u access.User, first bool) (access.User, error)
	NoteLogin(ctx context.Context, id int64, at time.Time) error
}

// Passwords hashes and checks passwords, as *access.Hasher does. Errors are
// access.ErrBusy or those of the context; nothing was compared then.
type Passwords interface {
	HashPassword(ctx context.Context, lane access.Lane, password string) (string, error)
	CheckPassword(ctx context.Context, lane access.Lane, hash, password string) (bool, error)
}

// Sessions keep what belongs to a session under the hash of its secret, so that
// it survives a restart. Errors wrap rules.ErrUnavailable. Only CreateSession and
// ReplaceSession store a session that was not there; found is false, and nothing
// is written, if the session to change has ended.
type Sessions interface {
	FindSession(ctx context.Context, token string) (s access.Session, found bool, err error)
	CreateSession(ctx context.Context, s access.Session) error
	// UpdateSession writes the expiry, and the data unless it is nil.
	UpdateSession(ctx context.Context, s access.Session) (found bool, err error)
	// ReplaceSession ends the session of the hash old and stores s, in one step.
	ReplaceSession(ctx context.Context, old string, s access.Session) (found bool, err error)
	DeleteSession(ctx context.Context, token string) error
}

// Fleet tells about all nodes. It answers from what was read within the last
// second, and says in Live.Err when that is older.
type Fleet interface {
	Live(ctx context.Context) fleet.Live
}

// Node is how this node is.
type Node struct {
	fleet.Status
	// Refused is the version of the stored rules that does not compile, 0 for none.
	Refused int64
	// Embedded: the rules are in a file of this node, not in Postgres.
	Embedded bool
}

// Degraded reports whether some decisions are made without the counter store.
func (n *Node) Degraded() bool {
	for i := range n.Breakers {
		if n.Breakers[i].State != "closed" {
			return true
		}
	}
	return false
}

// addressOf is who is counted as one address when signing in: an IPv4 address,
// or an IPv6 network of 64 bits.
func addressOf(text string) string {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return "unknown"
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return "unknown"
	}
	return p.String()
}
