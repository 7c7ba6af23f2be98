// Package webtest is a console with canned data and no servers: rules, people
// and figures in memory, and a clock that stands still. The tests of package web
// and the gallery of its pages use it.
//
// One worked example: w, _ := webtest.New(webtest.Full) has a dozen rules and the
// accounts vera, edda and ada; w.As(access.RoleEditor) is a browser in which edda
// has signed in; its Get("/console/rules") answers 200 with a page of rules.
package webtest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/internal/backtest"
	"sluice/internal/history"
	"sluice/internal/records"
	"sluice/internal/region"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
	"sluice/web"
)

// Now is where the clock of a World stands at first.
var Now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Password is everyone's.
const Password = "correct horse battery"

// passwordHash is the hash of Password at the lowest possible cost: tests sign in thousands of times.
const passwordHash = "$argon2id$v=19$m=8,t=1,p=1$Y2FubmVkLXNhbHQtMDAwMQ$Rlm3P1Vc64MAe5Uzqj0n9SEvXsYWF/GeQ1bE1TxQNLo"

// Kind says how much there is in a World.
type Kind int

// The kinds.
const (
	// Full has rules, people and traffic.
	Full Kind = iota
	// Empty has people and nothing else.
	Empty
	// Fresh has not even people: a first start.
	Fresh
	// SignOn is Full, and people sign in elsewhere: As goes there.
	SignOn
	// Failing is Full while Redis is unreachable and the rule database does not answer the nodes.
	Failing
	// Replica is Full, and the rule database is a read replica. As signs in at the primary.
	Replica
)

// World is one console. Its fields may be changed between requests.
type World struct {
	Rules    *Rules
	Users    *Users
	Provider *Provider
	Sessions *Sessions
	// Passwords hashes new ones at the cost of a real one.
	Passwords *Passwords
	Fleet     *Fleet
	// Stats contains the stored figures, and marks.
	Stats *Stats
	// Statements contains the spent units of keys in each period.
	Statements *Statements
	// Incidents contains the incidents.
	Incidents *Incidents
	// Figures, Overrides and Pools are the data on the pages of rules.
	Figures   *Figures
	Overrides *Overrides
	Pools     *Objects[rules.Pool]
	// Profiles are the profiles of gateways.
	Profiles *Objects[profile.Profile]
	// Gateways are the gateways that were connected in the console.
	Gateways *Gateways
	// Alerts contains the alerts, Webhooks the receivers of their messages.
	Alerts   *Alerts
	Webhooks *Webhooks
	Silences *Silences
	// Views are the saved views.
	Views *Views
	// Logs are the accounts of the decision logs.
	Logs map[string]records.Totals
	// Regions returns the known data about other regions, nil without regions.
	Regions func() region.Overview
	Sets    *match.Current
	Node    web.Node
	nodeMu  sync.Mutex
	Clock   *Clock
	// Changes counts the changes that the console has reported.
	Changes int
	// NotYetInForce makes the node answer that a saved change is not in force yet.
	NotYetInForce bool
	// Deferrals are the queues of deferred requests.
	Deferrals *Deferrals
	// Counters are the buckets.
	Counters *Counters
	// Tokens, Log, Book and Settings are for the pages of administration.
	Tokens   *Tokens
	Log      *Log
	Book     *Book
	Settings []web.SettingGroup
	// WelcomeSecret opens the link of the first start.
	WelcomeSecret string
	// Replays reads the decision log, which OpenLog opens if it is set, else SampleLog.
	Replays *backtest.Jobs
	OpenLog func(ctx context.Context, from int64) (*backtest.Log, func(), error)
	// last is the browser in which someone signed in last.
	last *Browser
	// Guard counts attempts to sign in.
	Guard  *memstore.Store
	Server *web.Server
	// Handler serves the requests of browsers; at first all routes of Server.
	Handler http.Handler
}

// New creates a world. Close it in the end.
func New(kind Kind) (*World, error) {
	w := &World{
		Rules: &Rules{}, Users: &Users{}, Passwords: &Passwords{Hasher: access.NewHasher()},
		Sessions: &Sessions{byToken: map[string]access.Session{}}, Fleet: &Fleet{},
		Sets: &match.Current{}, Clock: &Clock{now: Now},
	}
	w.Guard = memstore.New(memstore.Options{Clock: func() int64 { return w.Clock.Now().UnixMilli() }})
	w.Sessions.clock = w.Clock
	w.Replays = newReplays(w)
	w.Counters, w.Deferrals = &Counters{world: w}, &Deferrals{}
	w.Tokens, w.Log, w.Book, w.Settings = &Tokens{}, &Log{}, &Book{w: w, Version: 41}, settings()
	if kind != Fresh {
		w.Users.list = people()
	}
	full := kind != Empty && kind != Fresh
	if full {
		w.Rules.List = SampleRules()
		w.Fleet.Figures, w.Fleet.Denied = traffic(w.Rules.List), append(denials(), SampleDenials()...)
		w.Fleet.Allowed = sampleAllowed()
	}
	if kind == SignOn {
		w.Provider = &Provider{world: w}
	}
	w.Rules.remember()
	w.Statements = &Statements{}
	w.Stats, w.Incidents = newStats(w.Rules, w.Clock.Now), newIncidents()
	w.Stats.Quiet = !full
	w.Figures, w.Overrides, w.Pools = newFigures(), sampleOverrides(w.Rules), &Objects[rules.Pool]{kind: rules.PoolKind}
	w.Profiles = &Objects[profile.Profile]{kind: rules.ProfileKind}
	w.Alerts, w.Webhooks = &Alerts{ReadAt: Now}, newWebhooks()
	if full {
		w.Alerts, w.Webhooks, w.Logs = sampleAlerts(), sampleWebhooks(), sampleLogs()
		w.Regions = sampleRegions
		w.Pools, w.Profiles = samplePools(), sampleProfiles()
		w.Tokens.List, w.Log.List = tokens(), entries(120)
	}
	w.Silences, w.Views = &Silences{}, &Views{}
	w.Alerts.Silences = w.Silences
	w.Log.clock, w.Rules.log, w.Overrides.log = w.Clock, w.Log, w.Log
	w.Gateways = &Gateways{world: w, made: map[string]profile.Connection{}}
	if err := w.compile(); err != nil {
		return nil, err
	}
	w.Node = web.Node{Status: node(w.Sets.Load()), Embedded: true, Replica: kind == Replica,
		Primary: Primary}
	w.Fleet.Figures.Hot = hotKeys(w.Sets.Load())
	w.Fleet.Figures.Nodes = []history.NodeLive{{Status: w.Node.Status}}
	if kind == Failing {
		fail(w)
	}
	welcome, secret := web.NewWelcome(Now)
	w.WelcomeSecret = secret
	return w, w.Serve(w.Deps(welcome))
}

// Serve makes the console of a world again.
func (w *World) Serve(d web.Deps) error {
	s, err := web.New(d)
	if err != nil {
		return err
	}
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect()
	s.Routes(e)
	w.Server, w.Handler = s, e
	return nil
}

// Start is New for a test, with which the world ends.
func Start(t testing.TB, kind Kind) *World {
	t.Helper()
	w, err := New(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Primary is the console of the primary region.
const Primary = "https://eu.sluice.example"

// Close ends what runs in the world.
func (w *World) Close() error {
	return errors.Join(w.Replays.Close(context.Background()), w.Guard.Close())
}

// Deps are what the console of this world gets.
func (w *World) Deps(welcome *web.Welcome) web.Deps {
	d := web.Deps{
		Welcome: welcome, Settings: func() []web.SettingGroup { return w.Settings },
		Trials: w.Figures, Headers: headers, Replays: w.Replays, Watching: true,
		Pools: web.Pools{Store: w.Pools.Store(), State: w.poolState},
		Inspect: web.Inspect{Explain: w.Counters.Explain, ExplainCall: w.Counters.ExplainCall,
			Buckets: w.Counters.Buckets, Spent: w.Counters.Spent, Held: w.Counters.Held, Home: w.Counters.Home,
			Resets:          w.Counters,
			Deferrals:       w.Deferrals,
			RulesBackTo:     w.Rules.RulesBackTo,
			TenantAttribute: "tenant"},
		Profiles: web.Profiles{Store: w.Profiles.Store(), Gateways: w.Gateways, Tokens: w.Tokens, TokensChanged: w.changed},
		Alerts: web.Alerts{Board: w.Alerts, Events: w.Alerts, Webhooks: w.Webhooks,
			Silences: w.Silences},
		People: web.People{People: &People{w}, Tokens: w.Tokens, Audit: w.Log, TokensChanged: w.changed},
		Transfer: struct {
			*Book
			*Rules
			*Overrides
		}{w.Book, w.Rules, w.Overrides},
	}
	d.Rules, d.Sets, d.Overrides, d.Changed = w.Rules, w.Sets, w.Overrides, w.changed
	d.Users, d.Sessions, d.Passwords, d.Guard, d.SSO = w.Users, w.Sessions, w.Passwords, w.Guard, w.signOn()
	d.Views = w.Views
	d.Node, d.Fleet, d.Denials, d.Now = w.node, w.Fleet, w.Fleet, w.Clock.Now
	d.Regions = w.Regions
	d.DecisionLogs = map[string]func() records.Totals{}
	for sink := range w.Logs {
		d.DecisionLogs[sink] = func() records.Totals { return w.Logs[sink] }
	}
	d.Stats, d.Marks, d.Incidents, d.Statements = w.Stats, w.Stats, w.Incidents, w.Statements
	return d
}

func (w *World) node() web.Node {
	w.nodeMu.Lock()
	defer w.nodeMu.Unlock()
	return w.Node
}

// ChangeNode changes the state of the node while pages are open.
func (w *World) ChangeNode(change func(*web.Node)) {
	w.nodeMu.Lock()
	defer w.nodeMu.Unlock()
	change(&w.Node)
}

// ServeHTTP answers as the console does.
func (w *World) ServeHTTP(out http.ResponseWriter, r *http.Request) { w.Handler.ServeHTTP(out, r) }

// changed loads the rules as they are now. Rules that do not compile change
// nothing, as on a real node.
func (w *World) changed(context.Context) bool {
	w.Rules.mu.Lock()
	defer w.Rules.mu.Unlock()
	w.Changes++
	return w.compile() == nil && !w.NotYetInForce
}

// Compile puts the rules as they are now in force.
func (w *World) Compile() error {
	w.Rules.mu.Lock()
	defer w.Rules.mu.Unlock()
	return w.compile()
}

func (w *World) compile() error {
	var active []rules.Rule
	for _, r := range w.Rules.List {
		if r.IsActive {
			active = append(active, r)
		}
	}
	set, err := match.CompileSource(rules.Source{Rules: active, Pools: w.Pools.List, Profiles: w.Profiles.List,
		Version: 42},
		match.Options{IPv4Prefix: 32, IPv6Prefix: 64, Regions: 3})
	if err != nil {
		return err
	}
	w.Sets.Store(w.Overrides.apply(set))
	return nil
}

// Clock stands still until it is moved. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now reads the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock on.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Rules are the stored rules. Err, if not nil, is what every call fails with.
// Calls are safe for concurrent use; the fields are for when there are none.
type Rules struct {
	mu   sync.Mutex
	List []rules.Rule
	// Revisions are the versions since the world began, newest first, by id.
	Revisions map[int64][]rules.Revision
	Err       error
	// log receives an entry for each change. bulk is the bulk edit that is running, bulks are all earlier ones.
	log   *Log
	bulk  *bulkEdit
	bulks []*bulkEdit
}

// BrowseRules implements kit.RuleStore; of the orders it knows name, updated_at, id and owner.
func (f *Rules) BrowseRules(_ context.Context, b rules.Browse) (rules.Listing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return rules.Listing{}, f.Err
	}
	var found []*rules.Rule
	for i := range f.List {
		if r := &f.List[i]; b.Selects(r) {
			found = append(found, r)
		}
	}
	slices.SortStableFunc(found, func(x, y *rules.Rule) int {
		c := strings.Compare(x.Name, y.Name)
		switch b.Sort {
		case "updated_at":
			c = x.UpdatedAt.Compare(y.UpdatedAt)
		case "id":
			c = cmp.Compare(x.ID, y.ID)
		case "owner":
			return cmp.Or(cmp.Compare(btoi(x.Owner == nil), btoi(y.Owner == nil)),
				strings.Compare(ownerOf(x), ownerOf(y)), c)
		}
		if b.Desc {
			return -c
		}
		return c
	})
	list := rules.Listing{Total: int64(len(found)), Editors: map[int64]rules.Actor{}}
	from := min(max(0, b.Offset), len(found))
	for _, r := range found[from:min(len(found), from+b.PageSize)] {
		list.Rules = append(list.Rules, *r)
	}
	for _, r := range list.Rules {
		list.Editors[r.ID] = rules.Actor{Kind: "user", Name: []string{"ada", "edda"}[r.ID%2]}
	}
	return list, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func ownerOf(r *rules.Rule) string {
	if r.Owner == nil {
		return ""
	}
	return *r.Owner
}

// Fleet has canned figures. Err, if not nil, is what reading denials fails with, and KeysErr what reading keys does.
type Fleet struct {
	mu      sync.Mutex
	Figures history.Live
	Denied  []history.Request
	Allowed []history.Request
	Keys    []history.KeyDenials
	Err     error
	KeysErr error
}

// DeniedKeys implements kit.Fleet.
func (f *Fleet) DeniedKeys(context.Context) ([]history.KeyDenials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.Keys), f.KeysErr
}

// Live implements kit.Fleet.
func (f *Fleet) Live(context.Context) history.Live {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := f.Figures
	live.Rules = slices.Clone(live.Rules)
	return live
}

// SetErr sets Err. It is safe while pages are served.
func (f *Fleet) SetErr(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Err = err
}

// Deny adds a denial. It is safe while pages are served.
func (f *Fleet) Deny(d history.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Denied = append([]history.Request{d}, f.Denied...)
}

// Change edits the figures of rules. It is safe while pages are served.
func (f *Fleet) Change(edit func(*history.Live)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.Figures)
}
