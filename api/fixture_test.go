package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

// epoch is when tests happen: the beginning of a minute.
const epoch = int64(1_795_260_000_000)

// fixture is a whole server on a memory store whose clock a test sets.
type fixture struct {
	t       testing.TB
	now     atomic.Int64 // ms
	book    *book
	pools   []rules.Pool // in force beside the book's rules
	sets    match.Current
	access  access.Current
	store   *faultStore
	seen    observed
	checker *decide.Checker
	server  *Server
	wire    *wire
	echo    *echo.Echo
	host    string
	token   string
}

// newFixture starts in open mode with the given rules in force, and its token is the local secret. edit may change
// what the server is made of.
func newFixture(t testing.TB, rs []rules.Rule, edit ...func(*decide.CheckerOptions, *Deps)) *fixture {
	t.Helper()
	f := &fixture{t: t, host: "localhost:8080"}
	f.now.Store(epoch)
	f.book = &book{now: func() time.Time { return time.UnixMilli(f.now.Load()).UTC() }}
	for _, r := range rs {
		if _, err := f.book.CreateRule(t.Context(), rules.Actor{Kind: "system", Name: "test"}, r); err != nil {
			t.Fatal(err)
		}
	}
	f.store = &faultStore{Store: f.newStore()}
	secret, hash := access.NewSecret()
	f.token = secret
	f.access.Store(access.NewKeyring(nil).WithLocal(hash))
	opt := decide.CheckerOptions{
		Sets: &f.sets, Store: f.store, Local: f.newStore(), Timeout: time.Second, Patience: decide.MaxPatience,
		Now: f.book.now, Observe: &f.seen,
	}
	silences := f.book.shelfOfSilences()
	deps := Deps{
		Rules: f.book, Writer: f.book, History: f.book, Pools: f.book.shelfOfPools(),
		Usage: statements{}, UsageRestorer: restorer{}, Profiles: f.book.shelfOfProfiles(),
		Overrides: f.book, Webhooks: f.book.shelfOfWebhooks(), Alerts: silences, Silences: silences,
		OverrideWriter: f.book,
		Access:         &f.access, OpenMode: true,
		Changed: func(context.Context) bool {
			f.reload()
			return true
		}, Now: f.book.now, Panicked: f.seen.panicked,
		Regions: &elsewhere{}, Figures: &takenRows{},
		RLS: func(context.Context, []byte) (int, []byte, error) {
			return http.StatusOK, []byte(`{"overallCode":"OK"}`), nil
		},
	}
	for _, e := range edit {
		e(&opt, &deps)
	}
	var err error
	if f.checker, err = decide.NewChecker(opt); err != nil {
		t.Fatal(err)
	}
	deps.Checker = f.checker
	s, err := New(deps)
	if err != nil {
		t.Fatal(err)
	}
	f.echo = echo.New()
	s.Routes(f.echo)
	f.server = s
	f.reload()
	return f
}

func (f *fixture) newStore() limiter.Store {
	s := memstore.New(memstore.Options{Clock: f.now.Load})
	f.t.Cleanup(func() { s.Close() })
	return s
}

// reload compiles what the book holds, as the app does after a change.
func (f *fixture) reload() {
	f.t.Helper()
	src := f.book.source()
	src.Pools = append(src.Pools, f.pools...)
	set, err := match.CompileSource(src, match.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.sets.Store(set.WithOverrides(f.book.loadOverrides()))
}

// answered is an HTTP answer, read whole.
type answered struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// do sends one request; header pairs follow the body. The answer is held to
// openapi.yaml.
func (f *fixture) do(method, path, body string, header ...string) *answered {
	f.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, reader)
	r.Host = f.host
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if f.token != "" {
		r.Header.Set("Authorization", "Bearer "+f.token)
	}
	if name, _, _ := strings.Cut(f.t.Name(), "/"); len(header) > 0 || strings.HasPrefix(path, "/ratelimit/check") {
		forWire.Store(name, true)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	a := f.send(r)
	holdToDocument(f.t, method, path, a)
	return a
}

// send sends a request to the handler, or over a connection; see bothWays.
func (f *fixture) send(r *http.Request) *answered {
	f.t.Helper()
	if !onWire || strings.ContainsRune(r.Host, '@') { // net/http refuses such a host
		w := httptest.NewRecorder()
		f.echo.ServeHTTP(w, r)
		return &answered{t: f.t, status: w.Code, header: w.Header(), body: w.Body.String()}
	}
	if f.wire == nil {
		f.wire = newWire(f.t, f, byServer)
	}
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", r.Method, r.URL.RequestURI(), r.Host,
		len(sent))
	if err := r.Header.Write(&text); err != nil {
		f.t.Fatal(err)
	}
	text.WriteString("\r\n")
	text.Write(sent)
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(f.wire.send(text.Bytes(), text.Len()))), r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return &answered{t: f.t, status: res.StatusCode, header: res.Header, body: string(body)}
}

// post is a POST that must answer 200.
func (f *fixture) post(path, body string) *answered {
	f.t.Helper()
	return f.do(http.MethodPost, path, body).want(http.StatusOK)
}

func (a *answered) want(status int) *answered {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// decode reads the body into v.
func (a *answered) decode(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
}

// object is the body as a map, with integers as json.Number.
func (a *answered) object() map[string]any {
	a.t.Helper()
	d := json.NewDecoder(strings.NewReader(a.body))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
	return m
}

// fields are the names of the fields that a problem complains about.
func (a *answered) fields() []string {
	a.t.Helper()
	var p reply.Problem
	a.decode(&p)
	var names []string
	for _, e := range p.Errors {
		names = append(names, e.Field)
		if e.Message == "" {
			a.t.Errorf("field %s has no message", e.Field)
		}
	}
	slices.Sort(names)
	return names
}

// checkReply is an answer of the check family, as a client reads it.
type checkReply struct {
	Allowed      bool              `json:"allowed"`
	Status       int               `json:"status"`
	Limit        *int64            `json:"limit"`
	Burst        *int64            `json:"burst"`
	Remaining    *int64            `json:"remaining"`
	Used         *int64            `json:"used"`
	ResetMS      *int64            `json:"reset_ms"`
	RetryAfterMS *int64            `json:"retry_after_ms"`
	RetryAfterS  *int64            `json:"retry_after_s"`
	BanMS        int64             `json:"ban_ms"`
	DelayMS      *int64            `json:"delay_ms"`
	Degraded     *string           `json:"degraded"`
	Overloaded   bool              `json:"overloaded"`
	Rule         *string           `json:"rule"`
	Soft         bool              `json:"soft"`
	Elastic      bool              `json:"elastic"`
	Shed         bool              `json:"shed"`
	Replayed     bool              `json:"replayed"`
	Lease        string            `json:"lease"`
	Ticket       string            `json:"ticket"`
	Reservation  string            `json:"reservation"`
	ExpiresInMS  int64             `json:"expires_in_ms"`
	Granted      int64             `json:"granted"`
	SpendWithin  int64             `json:"spend_within_ms"`
	Shrinks      bool              `json:"shrinks"`
	NotDeferred  string            `json:"not_deferred"`
	Deferred     string            `json:"deferred"`
	Refunded     *int64            `json:"refunded"`
	Reset        *int64            `json:"reset"`
	Ended        *bool             `json:"ended"`
	Limits       []replyLimit      `json:"limits"`
	Headers      map[string]string `json:"headers"`
	Body         map[string]any    `json:"body"`
}

type replyLimit struct {
	Rule         *string `json:"rule"`
	Key          string  `json:"key"`
	Allowed      bool    `json:"allowed"`
	Limit        int64   `json:"limit"`
	Burst        *int64  `json:"burst"`
	Remaining    *int64  `json:"remaining"`
	Used         *int64  `json:"used"`
	ResetMS      *int64  `json:"reset_ms"`
	RetryAfterMS *int64  `json:"retry_after_ms"`
	BanMS        int64   `json:"ban_ms"`
	DelayMS      int64   `json:"delay_ms"`
	Mode         string  `json:"mode"`
	Soft         bool    `json:"soft"`
	Elastic      bool    `json:"elastic"`
	Shed         bool    `json:"shed"`
	Degraded     string  `json:"degraded"`
}

func (a *answered) reply() checkReply {
	a.t.Helper()
	var r checkReply
	a.decode(&r)
	return r
}

// check is a POST to /ratelimit/check that must be decided.
func (f *fixture) check(body string) checkReply {
	f.t.Helper()
	return f.post("/ratelimit/check", body).reply()
}

// perUser is the rule of the design's example.
func perUser(name string, limit int64) rules.Rule {
	return rules.Rule{
		Name: name, Scope: "user", Limit: limit, WindowMS: 1000, Algorithm: "fixed_window", IsActive: true,
		Throttle: "hard", Mode: "enforce", FailMode: "open",
	}
}

func ptr[T any](v T) *T { return &v }

// faultStore is a store that can be told to fail.
type faultStore struct {
	limiter.Store
	mu   sync.Mutex
	err  error
	lost bool              // answers are, after the store has carried out what they answer
	asks []limiter.Request // every request seen
	// bound is that of the last request.
	bound limiter.Bound
}

func (s *faultStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *faultStore) loseAnswers(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = lost
}

// after is the error of what was carried out.
func (s *faultStore) after(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.lost {
		return errLost
	}
	return err
}

func (s *faultStore) note(ctx context.Context, req *limiter.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := ctx.(limiter.Bounded); ok {
		s.bound = b.Bound()
	}
	cp := *req
	cp.Asks = slices.Clone(req.Asks)
	s.asks = append(s.asks, cp)
	return s.err
}

func (s *faultStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if err := s.note(ctx, req); err != nil {
		return err
	}
	return s.after(s.Store.Do(ctx, req, res))
}

func (s *faultStore) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.note(ctx, &calls[i].Request)
		if calls[i].Err == nil {
			calls[i].Err = s.after(s.Store.Do(ctx, &calls[i].Request, &calls[i].Result))
		}
	}
}

var errAway = &limiter.StoreError{Cause: limiter.CauseConnection, Err: io.ErrUnexpectedEOF}

// observed is an Observer that remembers.
type observed struct {
	decide.NopObserver
	mu       sync.Mutex
	limits   []string
	degraded []string
	above    []string
	bans     []string
	requests int
	panics   int
	origins  []decide.Origin
	// deferrals are what became of deferred requests.
	deferrals []string
}

func (o *observed) ObserveDeferral(d decide.Deferral) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deferrals = append(o.deferrals, strings.Join([]string{d.Rule, d.What, d.Reason, strconv.Itoa(d.Count)}, " "))
}

// ObserveDecision remembers the limits of what spends.
func (o *observed) ObserveDecision(d *decide.Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests++
	o.origins = append(o.origins, d.Origin)
	a := d.Answer
	for i := range a.Limits {
		la := &a.Limits[i]
		word := "denied"
		if la.Decision.Allowed {
			word = "allowed"
		}
		if a.Op != limiter.OpTake && a.Op != limiter.OpCharge {
			continue
		}
		o.limits = append(o.limits, la.Name()+" "+la.Mode()+" "+word)
		if (la.Soft || la.Elastic) && !la.Shadow {
			o.above = append(o.above, la.Name()+" "+la.Throttle())
		}
		if la.Decision.BanBegan {
			o.bans = append(o.bans, la.Name())
		}
	}
}

func (o *observed) ObserveDegraded(d decide.Degraded) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.degraded = append(o.degraded, d.FailMode+" "+string(d.Cause))
}

// panicked counts panics that were contained.
func (o *observed) panicked() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.panics++
}
