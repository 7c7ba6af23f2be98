package records

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is the time of the tests: the beginning of a minute, in ms.
const epoch = int64(1_795_260_000_000)

// sinkOf keeps what it gets, and delivers it.
type sinkOf struct {
	account *Account
	hold    chan struct{} // if not nil, Write waits until it is closed
	entered chan struct{}
	oldest  atomic.Int64 // ms

	mu    sync.Mutex
	lines [][]byte
	keys  []string
}

func (s *sinkOf) Write(b Batch) {
	if s.hold != nil {
		select {
		case s.entered <- struct{}{}:
		default:
		}
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, line := range b.Lines {
		s.lines = append(s.lines, bytes.Clone(line))
		s.keys = append(s.keys, b.Keys[i])
	}
	s.account.Deliver(len(b.Lines))
}

func (s *sinkOf) Oldest() time.Time {
	if at := s.oldest.Load(); at > 0 {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

func (s *sinkOf) Close(context.Context) error { return nil }

// fixture is a log that observes a checker on a memory store.
type fixture struct {
	t       testing.TB
	now     atomic.Int64 // ms
	checker *decide.Checker
	store   *breakable
	log     *Log
	sink    *sinkOf
	account *Account
}

// newFixture starts a log of everything with the given rules in force. edit may change its options.
func newFixture(t testing.TB, rs []rules.Rule, edit func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, account: &Account{}}
	f.sink = &sinkOf{account: f.account, entered: make(chan struct{}, 1)}
	f.now.Store(epoch)
	for i := range rs {
		rs[i].ID, rs[i].Version = int64(i+1), int64(10+i)
	}
	set, err := match.Compile(rs, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sets match.Current
	sets.Store(set)
	store := memstore.New(memstore.Options{Clock: f.now.Load})
	t.Cleanup(func() { store.Close() })
	f.store = &breakable{Store: store}
	opt := Options{Sink: f.sink, Account: f.account, Rate: 100, Address: AddressWhole, Node: "n1",
		Secret: func() []byte { return []byte("the key of every node") },
		Now:    func() time.Time { return time.UnixMilli(f.now.Load()) }}
	if edit != nil {
		edit(&opt)
	}
	if f.log, err = New(opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.close() })
	if f.checker, err = decide.NewChecker(decide.CheckerOptions{Sets: &sets, Store: f.store, Timeout: time.Second,
		Now: opt.Now, Observe: f.log, Rand: func(int64) int64 { return 0 }}); err != nil {
		t.Fatal(err)
	}
	return f
}

// breakable is a store that can be unavailable.
type breakable struct {
	limiter.Store
	broken atomic.Bool
}

func (b *breakable) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if b.broken.Load() {
		return &limiter.StoreError{Cause: limiter.CauseConnection}
	}
	return b.Store.Do(ctx, req, res)
}

func (b *breakable) DoAll(ctx context.Context, calls []limiter.Call) {
	if !b.broken.Load() {
		b.Store.DoAll(ctx, calls)
		return
	}
	for i := range calls {
		calls[i].Err = &limiter.StoreError{Cause: limiter.CauseConnection}
	}
}

// ask decides a question, which must have an answer.
func (f *fixture) ask(q decide.Question) *decide.Answer {
	f.t.Helper()
	var a decide.Answer
	if err := f.checker.Do(context.Background(), &q, &a); err != nil {
		f.t.Fatal(err)
	}
	return &a
}

// close ends the log and returns its lines.
func (f *fixture) close() [][]byte {
	f.t.Helper()
	if err := f.log.Close(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	f.sink.mu.Lock()
	defer f.sink.mu.Unlock()
	return f.sink.lines
}

// events ends the log and returns its events. The sum of the account must close.
func (f *fixture) events() []Event {
	f.t.Helper()
	lines := f.close()
	f.closes()
	out := make([]Event, len(lines))
	for i, line := range lines {
		conforms(f.t, line)
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&out[i]); err != nil {
			f.t.Fatalf("%s: %v", line, err)
		}
	}
	return out
}

// schema is docs/records.schema.json. Readers accept members that it does not have; here it accepts none.
var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := os.ReadFile("../../docs/records.schema.json")
	if err != nil {
		return nil, err
	}
	form, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	closeObjects(form)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("records.json", form); err != nil {
		return nil, err
	}
	return c.Compile("records.json")
})

// closeObjects makes every object of a schema refuse members that it does not describe.
func closeObjects(form any) {
	switch form := form.(type) {
	case map[string]any:
		for _, below := range form {
			closeObjects(below)
		}
		if _, has := form["properties"].(map[string]any); has {
			form["additionalProperties"] = false
		}
	case []any:
		for _, below := range form {
			closeObjects(below)
		}
	}
}

// A reader that checks events with the schema of its time reads those of a later version too.
func TestSchema_AcceptsNewMembersOfLaterVersions(t *testing.T) {
	later, err := jsonschema.NewCompiler().Compile("../../docs/records.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, []rules.Rule{perUser("r", 2)}, nil)
	f.ask(user("42"))
	line := bytes.ReplaceAll(f.close()[0], []byte(`{"`), []byte(`{"new":{},"`))
	event, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err == nil {
		err = later.Validate(event)
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	strict, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	if strict.Validate(event) == nil {
		t.Error("the tests of this package accept a member that the schema does not have")
	}
}

// conforms checks that a line is what the documentation says of events.
func conforms(t testing.TB, line []byte) {
	t.Helper()
	form, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err == nil {
		err = form.Validate(v)
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

// closes checks that every event is accounted for, and that the sink has those that were delivered.
func (f *fixture) closes() {
	f.t.Helper()
	t := f.account.Totals()
	if t.Buffered != 0 || t.Doubtful != 0 || t.Delivered != int64(len(f.sink.lines)) {
		f.t.Fatalf("the account is open: %+v, and the sink has %d", t, len(f.sink.lines))
	}
}

// user is a question of one unit about a user.
func user(name string) decide.Question {
	return decide.Question{Weight: 1, Descriptor: match.Descriptor{User: name, Route: "/v1/charges", Method: "POST",
		IP: netip.MustParseAddr("203.0.113.7")}}
}

// perUser is a rule by user, of a minute.
func perUser(name string, count int64) rules.Rule {
	return rules.Rule{Name: name, Scope: "user", Limit: count, WindowMS: 60_000, Algorithm: "fixed_window",
		Throttle: "hard", Mode: "enforce", FailMode: "open", IsActive: true}
}
