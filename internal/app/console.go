package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/secretfile"
	"sluice/internal/sso"
	"sluice/internal/tick"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web"
)

// sweepInterval is how often expired sessions are deleted.
const sweepInterval = 15 * time.Minute

// console is the web console.
type console struct {
	server *web.Server
	// welcome is the path of the one-time sign-in link, or "".
	welcome string
}

// openConsole creates the console, or returns nil if it is disabled.
func openConsole(ctx context.Context, cfg *config.Serve, host *Host, oidc *secretfile.File, d web.Deps,
	db *database.DB, f *fleetReporter, stops *stops) (*console, error) {
	if !cfg.Console.Console {
		return nil, nil //nolint:nilnil // a disabled console is not an error
	}
	c := &console{}
	d.Rules, d.Overrides, d.Users, d.Sessions, d.Views, d.Passwords = db, db, db, db, db, access.NewHasher()
	d.Guard, d.GuardLocal = f.counters.store, f.counters.local
	d.Fleet, d.Denials = f.live, f.live
	d.Marks = &marks{changes: db, events: db, incidents: d.Incidents}
	d.Settings = func() []web.SettingGroup { return shownSettings(cfg) }
	d.Node = func() web.Node { return consoleNode(cfg, host, f, db) }
	d.TLS = cfg.TLS()
	d.PublicURL, d.SessionIdle = cfg.ConsoleURL, cfg.SessionIdle
	var err error
	if d.TrustedProxies, err = cfg.TrustedNetworks(); err != nil {
		return nil, err
	}
	d.Logger, d.Now = host.Log, host.Now
	d.SSO = newSSO(cfg, oidc, db, host)
	if cfg.Loopback() {
		c.welcome, d.Welcome = welcome(ctx, db, host)
	}
	if c.server, err = web.New(d); err != nil {
		return nil, err
	}
	stops.add("session cleanup", task(func(ctx context.Context) { sweepSessions(ctx, db, host.Log) }))
	return c, nil
}

// welcome creates the one-time sign-in link if there is no account. If the database is
// unavailable or a read replica, it creates none.
func welcome(ctx context.Context, db *database.DB, host *Host) (path string, w *web.Welcome) {
	if n, err := db.CountUsers(ctx); err != nil || n > 0 || db.Replica() {
		return "", nil
	}
	w, secret := web.NewWelcome(host.Now())
	return web.WelcomePath(secret), w
}

// consoleNode returns the status of this node for the console.
func consoleNode(cfg *config.Serve, host *Host, f *fleetReporter, db *database.DB) web.Node {
	n := web.Node{Status: f.status(), Trouble: host.trouble.Current(), Embedded: !cfg.Postgres(), Replica: db.Replica(),
		Primary: strings.TrimSuffix(cfg.PrimaryURL, "/"), Region: cfg.Region}
	for _, t := range n.Trouble {
		if t.Condition == regionCutOff {
			n.CutOff = append(n.CutOff, t.Subject)
		}
	}
	return n
}

func sweepSessions(ctx context.Context, db *database.DB, log *slog.Logger) {
	for range tick.Every(ctx, sweepInterval) {
		if _, err := db.SweepSessions(ctx); err != nil && ctx.Err() == nil {
			log.Warn("deleting expired sessions failed", "error", err)
		}
	}
}

// mount adds the routes of the console to e, or a page of text if it is disabled.
func (c *console) mount(e *echo.Echo) {
	if c != nil {
		c.server.Routes(e)
		return
	}
	root := func(c echo.Context) error {
		c.Response().Header().Set("X-Content-Type-Options", "nosniff")
		return c.String(http.StatusOK, index)
	}
	e.GET("/", root)
	e.HEAD("/", root)
}

// printGreeting prints the URL of the console and, at the first start, a sign-in link.
func (c *console) printGreeting(w io.Writer, cfg *config.Serve, addr net.Addr) {
	if c == nil {
		return
	}
	base := cfg.ConsoleURL
	if base == "" {
		base = localURL(cfg, addr)
	}
	printConsoleURL(w, base, c.welcome)
}

// logWelcome says in the log how to create the first account, in place of a sign-in link: a log holds no secrets.
func (c *console) logWelcome(log *slog.Logger) {
	if c != nil && c.welcome != "" {
		log.Info("the console has no account", "advice", "create one with sluice user create NAME --role admin")
	}
}

// headersOf returns the function that makes the response headers of a decision by one limit of one rule.
func headersOf(resetDelta bool) func(*rules.Rule, limiter.Limit, limiter.Decision, int64) []web.Header {
	style := reply.HeaderStyle{ResetDelta: resetDelta}
	return func(r *rules.Rule, l limiter.Limit, decided limiter.Decision, at int64) (out []web.Header) {
		a := decide.Answer{Verdict: decide.Allowed, At: at,
			Limits: []decide.LimitAnswer{{Rule: r.Name, Of: r, Limit: l, Decision: decided, Known: true}}}
		if !decided.Allowed {
			a.Verdict = decide.Denied
		}
		style.Headers(&a, nil, func(name string, value []byte) {
			out = append(out, web.Header{Name: name, Value: string(value)})
		})
		return out
	}
}

// poolDeps returns what the pages of pools depend on.
func poolDeps(checker *decide.Checker, db *database.DB) web.Pools {
	return web.Pools{Store: db.Pools(), State: func(ctx context.Context, p *match.CompiledPool) web.PoolState {
		s := checker.PoolState(ctx, p)
		out := web.PoolState{Used: s.Used, Capacity: s.Capacity}
		if s.Load != nil {
			out.Load, out.LoadFor = &s.Load.Utilization, time.Duration(s.Load.ExpiresInMS)*time.Millisecond
		}
		return out
	}}
}

// inspectDeps returns what the pages about requests and keys depend on.
func inspectDeps(cfg *config.Serve, checker *decide.Checker, regions decide.Regions, db *database.DB) web.Inspect {
	deps := web.Inspect{
		Explain: func(ctx context.Context, d *match.Descriptor, weight int64) (web.Explanation, error) {
			return explain(ctx, checker, d, weight)
		},
		ExplainCall: func(ctx context.Context, call *web.AskedCall) (web.Explanation, error) {
			return explainCall(ctx, checker, call)
		},
		Held: func(ctx context.Context, rule *match.Compiled, key limiter.Key) []web.Held {
			return heldOf(checker.Held(ctx, rule, key))
		},
		Buckets: checker.Buckets, Resets: db, Deferrals: deferrals{checker, db}, RulesBackTo: db.RulesBackTo,
		TenantAttribute: cfg.TenantAttribute,
	}
	if regions != nil {
		deps.Spent, deps.Home = regions.Spent, regions.Home
	}
	return deps
}

// explain explains a request and converts the result to the types of the console.
func explain(ctx context.Context, checker *decide.Checker, d *match.Descriptor, weight int64) (web.Explanation, error) {
	said, err := checker.Explain(ctx, &decide.Question{Descriptor: *d, Weight: weight})
	if err != nil {
		return web.Explanation{}, withoutSet(err)
	}
	e := explanationOf(&said.Answer)
	e.SetVersion, e.Active = said.SetVersion, said.ActiveRules
	for i := range said.Rules {
		r := &said.Rules[i]
		e.Rules = append(e.Rules, web.ConsideredRule{
			Considered: r.Considered, Bucket: figuresOf(r.Bucket), Candidate: figuresOf(r.Candidate), Pool: shareOf(r.Pool),
		})
	}
	return e, nil
}

// explainCall is explain for a call of Envoy.
func explainCall(ctx context.Context, checker *decide.Checker, call *web.AskedCall) (web.Explanation, error) {
	q := &decide.DescriptorQuestion{Domain: call.Domain}
	for _, list := range call.Descriptors {
		q.Descriptors = append(q.Descriptors,
			decide.AskedDescriptor{Entries: list, Addend: call.Addend, Explicit: call.Explicit})
	}
	said, err := checker.ExplainDescriptors(ctx, q)
	if err != nil {
		return web.Explanation{}, withoutSet(err)
	}
	e := explanationOf(&said.Answer.Answer)
	e.SetVersion, e.Active = said.SetVersion, said.ActiveRules
	for i := range said.Descriptors {
		d := &said.Descriptors[i]
		out := web.ExplainedDescriptor{
			Explained: d.Explained, Replaced: d.State == decide.StateReplaced, Full: d.Full, Bucket: figuresOf(d.Bucket),
		}
		if out.Bucket != nil && !d.Bucket.Shadow {
			out.Bucket.Allowed = !d.Over
		}
		e.Descriptors = append(e.Descriptors, out)
	}
	return e, nil
}

// withoutSet makes the error of a node without rules the console's.
func withoutSet(err error) error {
	if errors.Is(err, decide.ErrNoSet) {
		return fmt.Errorf("%w: %w", rules.ErrUnavailable, err)
	}
	return err
}

// explanationOf returns what an explanation says about the answer as a whole.
func explanationOf(a *decide.Answer) web.Explanation {
	e := web.Explanation{Allowed: a.Allowed(), Status: reply.Status(a), Degraded: a.Degraded, Soft: a.Soft,
		Elastic: a.Elastic, Shed: a.Verdict == decide.Shed, Overloaded: a.Verdict == decide.Overloaded}
	if a.Strictest >= 0 {
		e.Strictest, e.RetryAfter = a.Limits[a.Strictest].Rule, a.Limits[a.Strictest].Decision.RetryAfter
	}
	return e
}

func figuresOf(l *decide.ConsideredLimit) *web.BucketFigures {
	if l == nil {
		return nil
	}
	f := web.FiguresOf(l.Limit, l.Decision)
	f.Banned = l.Ban > 0
	f.After, f.Known, f.Soft, f.Elastic, f.Degraded = l.After, l.Known, l.Soft, l.Elastic, l.Degraded
	f.Shed, f.Regions, f.Home, f.Whole, f.HeldBy = l.Shed != "", l.Regions, l.Home, l.Whole, heldOf(l.HeldBy)
	f.Overloaded = l.Overloaded
	return f
}

// heldOf converts who holds units to the type of the console.
func heldOf(list []decide.Held) (out []web.Held) {
	for _, h := range list {
		out = append(out, web.Held(h))
	}
	return out
}

func shareOf(p *decide.PoolShare) *web.PoolShare {
	if p == nil {
		return nil
	}
	out := &web.PoolShare{Name: p.Name, Priority: p.Priority, SharePercent: p.SharePercent, Used: -1, Capacity: p.Capacity,
		Load: -1}
	if p.Used != nil {
		out.Used = *p.Used
	}
	if p.Load != nil {
		out.Load = int64(p.Load.Utilization*100 + 0.5)
	}
	return out
}

// shownSettings returns the settings of this node for display.
func shownSettings(cfg *config.Serve) []web.SettingGroup {
	var out []web.SettingGroup
	for _, v := range config.Values(*cfg) {
		if len(out) == 0 || out[len(out)-1].Name != v.Group {
			out = append(out, web.SettingGroup{Name: v.Group})
		}
		g := &out[len(out)-1]
		g.Settings = append(g.Settings, web.Setting{Flag: v.Flag, Env: v.Env, Value: v.Value, Help: v.Help,
			Default: v.IsDefault})
	}
	return out
}

// newSSO returns the single sign-on of the console, or nil if it is not configured. It
// does not contact the provider, so that the server starts while it is unavailable. secret
// is the file with the client secret, or nil.
func newSSO(cfg *config.Serve, secret *secretfile.File, db *database.DB, host *Host) *web.SSO {
	if !cfg.SignsOn() {
		return nil
	}
	opt := sso.Options{
		Issuer: cfg.OIDCIssuer, ClientID: cfg.OIDCClientID, ClientSecret: cfg.OIDCClientSecret.Value,
		RedirectURL: strings.TrimSuffix(cfg.ConsoleURL, "/") + web.SignOnPath,
		Scopes:      cfg.OIDCScopeList(), Claim: cfg.OIDCGroupsClaim, Groups: cfg.OIDCGroups(), Now: host.Now,
	}
	if secret != nil {
		opt.ClientSecret, opt.CurrentSecret = secret.Value(), secret.Value
	}
	return &web.SSO{Name: cfg.OIDCName, Issuer: cfg.OIDCIssuer, Claim: cfg.OIDCGroupsClaim, Provider: sso.New(opt),
		Accounts: db}
}
