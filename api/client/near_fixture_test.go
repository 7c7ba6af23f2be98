package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api"
	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

// near is a service in this process, whose counters are in memory and follow the clock of the bubble, and which any
// number of clients ask without a network.
type near struct {
	t       *testing.T
	handler http.Handler
	token   string
	sets    match.Current
	rules   []rules.Rule
	calls   atomic.Int64
	checks  atomic.Int64 // of these, checks and batches
	units   unitsOf

	mu   sync.Mutex
	trip func(path string) fault
}

// fault is what becomes of one call.
type fault struct {
	before, after time.Duration // the way there and back
	lost          bool          // the request does not arrive
	unheard       bool          // the answer does not arrive
}

var (
	errLost   = errors.New("the network lost it")
	errDialed = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
)

// unitsOf counts what the service has charged.
type unitsOf struct {
	decide.NopObserver
	admitted, refunded atomic.Int64
	allowed, denied    atomic.Int64 // requests in the statistics
	deniers            sync.Map     // how many requests each rule denied, *atomic.Int64 by its name
}

func (u *unitsOf) ObserveDecision(d *decide.Decision) {
	if d.Settled != nil && d.Settled.Decisions != nil {
		u.allowed.Add(d.Settled.Decisions.Allowed)
		u.deny(d.Answer, d.Settled.Decisions.Denied)
	}
	switch {
	case d.Answer.Op != limiter.OpTake || d.Lease:
	case d.Answer.Allowed():
		u.allowed.Add(1)
	default:
		u.deny(d.Answer, 1)
	}
}

func (u *unitsOf) deny(a *decide.Answer, n int64) {
	if n > 0 {
		u.denied.Add(n)
		of, _ := u.deniers.LoadOrStore(a.Limits[a.Strictest].Rule, new(atomic.Int64))
		of.(*atomic.Int64).Add(n) //nolint:forcetypeassert // it holds nothing else
	}
}

func (u *unitsOf) deniedBy(rule string) int64 {
	of, ok := u.deniers.Load(rule)
	if !ok {
		return 0
	}
	return of.(*atomic.Int64).Load() //nolint:forcetypeassert // it holds nothing else
}

func (u *unitsOf) ObserveUnits(is decide.Units) {
	switch is.Outcome {
	case decide.OutcomeAdmitted:
		u.admitted.Add(is.Count)
	case decide.OutcomeRefunded:
		u.refunded.Add(is.Count)
	}
}

type oneSecret struct{}

func (oneSecret) Secrets(context.Context, bool) ([][]byte, error) {
	return [][]byte{bytes.Repeat([]byte("s"), 32)}, nil
}

// The rules database is not asked.
type (
	noRules struct {
		api.RuleReader
		api.RuleWriter
	}
	histories = api.RuleHistory // which has a method of its own name
	noHistory struct{ histories }
	noPools   struct{ rules.Store[rules.Pool] }
)

// leasedRule permits near callers.
func leasedRule(name, scope, algorithm string, limit, window int64) rules.Rule {
	return rules.Rule{Name: name, Scope: scope, Algorithm: algorithm, Limit: limit, WindowMS: window,
		Throttle: rules.ThrottleHard, Mode: rules.ModeEnforce, FailMode: rules.FailClosed, HotKeys: rules.HotKeysLeased,
		ChargeOn: rules.ChargeOnRequest, IsActive: true}
}

func newNearService(t *testing.T, rs ...rules.Rule) *near {
	t.Helper()
	s := &near{t: t}
	s.putInForce(rs...)
	now := time.Now // the clock of the bubble
	store := memstore.New(memstore.Options{Clock: func() int64 { return now().UnixMilli() }})
	local := memstore.New(memstore.Options{Clock: func() int64 { return now().UnixMilli() }})
	t.Cleanup(func() { store.Close(); local.Close() })
	checker, err := decide.NewChecker(decide.CheckerOptions{Sets: &s.sets, Store: limiter.Store(store), Local: local,
		Timeout: -1, Secrets: oneSecret{}, Now: now, Observe: &s.units})
	if err != nil {
		t.Fatal(err)
	}
	var keys access.Current
	secret, hash := access.NewSecret()
	keys.Store(access.NewKeyring(nil).WithLocal(hash))
	s.token = secret
	server, err := api.New(api.Deps{Checker: checker, Rules: noRules{}, Writer: noRules{}, History: noHistory{},
		Pools: noPools{}, Access: &keys, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	server.Routes(e)
	s.handler = e
	return s
}

func (s *near) putInForce(rs ...rules.Rule) {
	s.t.Helper()
	for i := range rs {
		rs[i].ID, rs[i].Version = int64(i+1), 1
	}
	set, err := match.Compile(rs, 1, match.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.rules = rs
	s.sets.Store(set)
}

// RoundTrip carries one call to the service.
func (s *near) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.calls.Add(1)
	if r.URL.Path == "/ratelimit/check" || r.URL.Path == batchPath {
		s.checks.Add(1)
	}
	s.mu.Lock()
	trip := s.trip
	s.mu.Unlock()
	var f fault
	if trip != nil {
		f = trip(r.URL.Path)
	}
	if err := passes(r.Context(), f.before); f.lost && err == nil {
		return nil, errDialed
	}
	w := httptest.NewRecorder() // a request that has left arrives, also if its caller has left
	in := httptest.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, r.URL.Path, bytes.NewReader(body))
	in.Header = r.Header
	s.handler.ServeHTTP(w, in)
	if err := passes(r.Context(), f.after); err != nil {
		return nil, err
	}
	if f.unheard {
		return nil, errLost
	}
	res := w.Result()
	res.ContentLength = int64(w.Body.Len())
	return res, nil
}

// passes lets time pass.
func passes(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *near) set(trip func(path string) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trip = trip
}

// client returns a near client of the service.
func (s *near) client(opt Options) (*Client, *Near) {
	s.t.Helper()
	opt.Token = s.token
	if opt.FailMode == "" {
		opt.FailMode = FailClosed
	}
	c, err := New("http://sluice.test", opt)
	if err != nil {
		s.t.Fatal(err)
	}
	c.http.Transport = s
	s.t.Cleanup(c.Close)
	return c, NewNear(c, NearOptions{})
}

// used asks the service what counts of a check, by rule.
func (s *near) used(c *Client, q Check) map[string]int64 {
	s.t.Helper()
	q.Weight = new(int64(0))
	a, err := c.Check(context.Background(), q)
	if err != nil || a.Degraded != "" {
		s.t.Fatalf("a look: %+v, %v", a, err)
	}
	out := map[string]int64{}
	for _, l := range a.Limits {
		out[l.Rule] = *l.Used
	}
	return out
}

// addUp fails unless every request that was granted has one end.
func addUp(t *testing.T, n *Near) NearStats {
	t.Helper()
	st := n.Stats()
	if st.Held != 0 || st.Granted != st.Spent+st.Returned+st.Lost || min(st.Spent, st.Returned, st.Lost) < 0 {
		t.Errorf("the accounts do not add up: %+v", st)
	}
	return st
}

func user(name string) Check { return Check{Method: "POST", Route: "/v1/charges", User: name} }

// steady asks so many times a second for so long, and returns how many were allowed in each second, and after them.
func steady(t *testing.T, n *Near, q Check, rate int, seconds int) (allowed []int64) {
	t.Helper()
	allowed = make([]int64, seconds+1)
	begin := time.Now()
	for i := range rate * seconds {
		at := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
		<-time.After(time.Until(at))
		a, err := n.Check(context.Background(), q)
		if err != nil {
			t.Error(err)
			break
		}
		if a.Allowed {
			allowed[min(seconds, int(time.Since(begin)/time.Second))]++
		}
	}
	return allowed
}

func sum(of []int64) (all int64) {
	for _, n := range of {
		all += n
	}
	return all
}
