package decide

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

// epoch is the time of the tests: the beginning of a minute, in ms.
const epoch = int64(1_795_260_000_000)

// fixture is a Checker on a memory store, with a clock that the test sets.
type fixture struct {
	*Checker
	t     testing.TB
	now   atomic.Int64 // ms
	store *faultStore
}

// newFixture returns a fixture with the given rules in force. edit may change the options of
// the Checker.
func newFixture(t testing.TB, rs []rules.Rule, edit func(*CheckerOptions)) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.now.Store(epoch)
	for i := range rs {
		rs[i].ID, rs[i].Version = int64(i+1), 1
	}
	set, err := match.Compile(rs, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sets match.Current
	sets.Store(set)
	f.store = &faultStore{Store: f.newStore()}
	opt := CheckerOptions{
		Sets: &sets, Store: f.store, Local: f.newStore(), Timeout: time.Second, Patience: MaxPatience,
		Now: func() time.Time { return time.UnixMilli(f.now.Load()).UTC() },
	}
	edit(&opt)
	if f.Checker, err = NewChecker(opt); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) newStore() limiter.Store {
	s := memstore.New(memstore.Options{Clock: f.now.Load})
	f.t.Cleanup(func() { s.Close() })
	return s
}

// asks asks a question about user 42, unless it names another user. It must be decided.
func (f *fixture) asks(op limiter.Op, q Question) *Answer {
	f.t.Helper()
	q.Op = op
	if q.Descriptor.User == "" {
		q.Descriptor.User = "42"
	}
	var a Answer
	if err := f.Do(f.t.Context(), &q, &a); err != nil {
		f.t.Fatal(err)
	}
	return &a
}

// take takes one unit for user 42.
func (f *fixture) take() *Answer {
	f.t.Helper()
	return f.asks(limiter.OpTake, Question{Weight: 1})
}

// left returns the remaining units of the only limit of user 42.
func (f *fixture) left() int64 {
	f.t.Helper()
	return f.asks(limiter.OpPeek, Question{}).Limits[0].Decision.Remaining
}

// admitted makes n takes for a user and returns how many were allowed.
func (f *fixture) admitted(n int, user string) int {
	f.t.Helper()
	allowed := 0
	for range n {
		if f.asks(limiter.OpTake, Question{Weight: 1, Descriptor: match.Descriptor{User: user}}).Allowed() {
			allowed++
		}
	}
	return allowed
}

// perUser returns a rule with a limit per second for each user.
func perUser(name, failMode string, limit int64) rules.Rule {
	return rules.Rule{
		Name: name, Scope: "user", Limit: limit, WindowMS: 1000, Algorithm: "fixed_window", IsActive: true,
		Throttle: "hard", Mode: "enforce", FailMode: failMode,
	}
}

// faultStore is a store that fails on demand.
type faultStore struct {
	limiter.Store
	err atomic.Pointer[limiter.StoreError]
}

func (s *faultStore) fail(err *limiter.StoreError) { s.err.Store(err) }

func (s *faultStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if err := s.err.Load(); err != nil {
		return err
	}
	return s.Store.Do(ctx, req, res)
}

func (s *faultStore) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

var errAway = &limiter.StoreError{Cause: limiter.CauseConnection, Err: io.ErrUnexpectedEOF}

// oneSecret seals reservations with one secret.
type oneSecret struct{}

func (oneSecret) Secrets(context.Context, bool) ([][]byte, error) {
	return [][]byte{make([]byte, 32)}, nil
}
