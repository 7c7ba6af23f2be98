package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/access"
	"sluice/internal/database"
	"sluice/internal/rulecopy"
	"sluice/internal/telemetry"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
)

// shelf is a catalog whose content and failures a test sets.
type shelf struct {
	mu       sync.Mutex
	rules    []rules.Rule
	versions database.Versions
	tokens   []access.Token
	err      error
	migrate  error
	loads    int
	takes    time.Duration // of a load
}

func (s *shelf) set(change func(*shelf)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *shelf) Migrate(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.migrate
}

func (s *shelf) Versions(context.Context) (database.Versions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions, s.err
}

func (s *shelf) LoadRules(ctx context.Context) (rules.Source, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return rules.Source{}, ctx.Err()
	}
	return rules.Source{Rules: s.rules, Version: s.versions.Rules.N, Stamp: s.versions.Rules.Stamp}, s.err
}

func (s *shelf) LoadChanges(context.Context, database.Version) (match.Delta, database.Version, bool, error) {
	return match.Delta{}, database.NoVersion, false, nil
}

func (s *shelf) LoadTokens(context.Context) ([]access.Token, database.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens, s.versions.Tokens, s.err
}

// at is version n in one of the histories that a database may have.
func at(n int64) database.Version { return database.Version{N: n, Stamp: "first"} }

func goodRule(id int64, name string) rules.Rule {
	r := rules.Rule{ID: id, Name: name, Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true, Version: 1}
	r.Normalize()
	return r
}

func reloaderOf(s *shelf) (*reloader, *buffer) {
	log := &buffer{}
	sets, keyring := &match.Current{}, &access.Current{}
	var r *reloader
	now := func() time.Time { return r.now() }
	r = newReloader(&reloader{
		trouble:  trouble.New(slog.New(slog.NewTextHandler(log, nil)), now, nil),
		database: s, sets: sets, access: keyring, now: time.Now,
		metrics: newRuleMetrics(prometheus.NewRegistry(), time.Now), series: telemetry.New(telemetry.Build{}),
		log:         slog.New(slog.NewTextHandler(log, nil)),
		readiness:   &readiness{sets: sets, access: keyring, now: time.Now},
		saveCopy:    func(inForce, bool) {},
		loadCopy:    func() (*rulecopy.Copy, error) { return nil, fs.ErrNotExist },
		checkTokens: func(*access.Keyring) error { return nil },
		fatal:       func(error) {},
	})
	return r, log
}

func pass(t *testing.T, r *reloader) {
	t.Helper()
	if err := r.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestReload_ALoadMayTakeLong: 100,000 rules on a slow machine. A load that is cut
// off after a fixed time starts again from the first rule, for ever.
func TestReload_ALoadMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{rules: []rules.Rule{goodRule(1, "a")}, versions: database.Versions{Rules: at(1)}, takes: 10 * time.Minute}
		r, log := reloaderOf(s)
		pass(t, r)
		if set := r.sets.Load(); set == nil || set.Len() != 1 {
			t.Fatalf("no rule is in force: %s", log)
		}
	})
}

// An outage is logged once for each reason, and at most once an interval: the text may have a port that changes.
func TestReload_AnotherReasonOfAnOutageIsLogged(t *testing.T) {
	s := &shelf{rules: []rules.Rule{goodRule(1, "a")}, versions: database.Versions{Rules: at(1)}}
	r, log := reloaderOf(s)
	clock := time.Unix(1_000_000, 0)
	r.now = func() time.Time { return clock }
	pass(t, r)
	fails := func(why string, after time.Duration, lines int) {
		t.Helper()
		clock = clock.Add(after)
		s.set(func(s *shelf) { s.err = errors.New(why) })
		_ = r.pass(t.Context())
		if got := strings.Count(log.String(), "the rules database is unavailable"); got != lines {
			t.Errorf("%s: %d lines, want %d:\n%s", why, got, lines, log)
		}
	}
	fails("connection terminated", 0, 1)
	fails("connection terminated", time.Hour, 1)
	fails("relation rules does not exist", outageLogInterval, 2)
	fails("another reason", time.Second, 2)
	fails("another reason", outageLogInterval, 3)
	if !strings.Contains(log.String(), "relation rules does not exist") {
		t.Errorf("the reason is missing:\n%s", log)
	}
}

// torn is a catalog whose versions can be read, but not its rules, as after a migration down.
type torn struct {
	*shelf
	why string
}

func (s *torn) LoadRules(context.Context) (rules.Source, error) {
	return rules.Source{}, errors.New(s.why)
}

func TestReload_AFailureIsLoggedOnceAndWhenItChanges(t *testing.T) {
	s := &shelf{rules: []rules.Rule{goodRule(1, "a")}, versions: database.Versions{Rules: at(1)}}
	r, log := reloaderOf(s)
	clock := time.Unix(1_000_000, 0)
	r.now = func() time.Time { return clock }
	pass(t, r)
	s.versions.Rules = at(2)
	for i, c := range []struct {
		why   string
		after time.Duration
		lines int
	}{
		{"no column shed", 0, 1}, {"no column shed", time.Hour, 1}, {"no table pools", 0, 2},
		{"no table pools", time.Hour, 2},
	} {
		clock, r.database = clock.Add(c.after), &torn{s, c.why}
		pass(t, r)
		if got := strings.Count(log.String(), "reload failed"); got != c.lines {
			t.Errorf("pass %d: %d lines, want %d:\n%s", i, got, c.lines, log)
		}
	}
}

func TestReload_ErrorLeavesPreviousSet(t *testing.T) {
	s := &shelf{rules: []rules.Rule{goodRule(1, "a")}, versions: database.Versions{Rules: at(1)}}
	r, log := reloaderOf(s)
	pass(t, r)
	before := r.sets.Load()
	s.set(func(s *shelf) {
		s.versions.Rules = at(2)
		bad := goodRule(2, "poisoned")
		bad.Algorithm = "guesswork"
		s.rules = append(s.rules, bad)
	})
	pass(t, r)
	if r.sets.Load() != before {
		t.Fatal("a set that does not compile changed what is in force")
	}
	if !strings.Contains(log.String(), "poisoned") {
		t.Errorf("the log does not name the rule:\n%s", log)
	}
	if err := r.readiness.ready(); err != nil {
		t.Errorf("not ready with a good set in force: %v", err)
	}
	loads := s.loads
	pass(t, r)
	if s.loads != loads {
		t.Error("a refused version was loaded again")
	}
	s.set(func(s *shelf) { s.versions.Rules = at(3); s.rules = s.rules[:1] })
	pass(t, r)
	if got := r.sets.Load().Version(); got != 3 {
		t.Errorf("version %d in force, want 3: repaired rules did not follow", got)
	}
}

// Loading one rule is no reason for a collection of the heap of all rules.
func TestReload_ALargeLoadReturnsItsMemory(t *testing.T) {
	forced := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	s := &shelf{versions: database.Versions{Rules: at(1)}}
	r, _ := reloaderOf(s)
	for i := range largeLoad - 1 {
		s.rules = append(s.rules, goodRule(int64(i+1), fmt.Sprint("rule-", i)))
	}
	before := forced()
	if pass(t, r); forced() != before {
		t.Errorf("a load of %d rules forced a collection", len(s.rules))
	}
	s.set(func(s *shelf) {
		s.rules = append(s.rules, goodRule(largeLoad, "last"))
		s.versions.Rules = at(2)
	})
	if pass(t, r); r.sets.Load().Len() != largeLoad || forced() == before {
		t.Errorf("%d rules in force, want %d and a collection", r.sets.Load().Len(), largeLoad)
	}
}

func TestReload_EmptySetIsLegal(t *testing.T) {
	r, _ := reloaderOf(&shelf{})
	pass(t, r)
	if set := r.sets.Load(); set == nil || set.Len() != 0 {
		t.Errorf("set %v, want an empty one", set)
	}
}

func TestReload_DatabaseAwayKeepsTheSetAndReturns(t *testing.T) {
	s := &shelf{rules: []rules.Rule{goodRule(1, "a")}, versions: database.Versions{Rules: at(1)}}
	r, log := reloaderOf(s)
	pass(t, r)
	s.set(func(s *shelf) { s.err = rules.ErrUnavailable })
	for range 5 {
		pass(t, r)
	}
	if got := strings.Count(log.String(), "checks use the rules last loaded"); got != 1 {
		t.Errorf("%d log lines about one outage, want 1", got)
	}
	if r.sets.Load().Version() != 1 || r.readiness.ready() != nil {
		t.Error("an outage of the database disturbed checks")
	}
	s.set(func(s *shelf) { s.err = nil; s.versions.Rules = at(2) })
	pass(t, r)
	if r.sets.Load().Version() != 2 {
		t.Error("reload did not resume")
	}
}

func TestReload_DatabaseAwayAtStartIsRetried(t *testing.T) {
	s := &shelf{migrate: rules.ErrUnavailable}
	r, log := reloaderOf(s)
	pass(t, r)
	if !errors.Is(r.readiness.ready(), errNoSet) || !strings.Contains(log.String(), "not ready") {
		t.Errorf("ready without rules, or silent about it:\n%s", log)
	}
	s.set(func(s *shelf) { s.migrate = nil })
	pass(t, r)
	if err := r.readiness.ready(); err != nil {
		t.Errorf("not ready after the database came: %v", err)
	}
}

func TestReload_BrokenSchemaEndsTheServer(t *testing.T) {
	broken := errors.New("the schema is unknown")
	r, _ := reloaderOf(&shelf{migrate: broken})
	if err := r.pass(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestReload_LostNotificationIsCaughtByThePoll(t *testing.T) {
	s := &shelf{versions: database.Versions{Rules: at(1)}}
	r, _ := reloaderOf(s)
	stop := task(func(ctx context.Context) { r.run(ctx, 5*time.Millisecond) })
	defer func() {
		if err := stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s.set(func(s *shelf) { s.versions.Rules = at(9) })
	eventually(t, "the poll finds version 9", func() bool {
		set := r.sets.Load()
		return set != nil && set.Version() == 9
	})
}

func TestChanged_ReturnsOnceTheChangeIsInForce(t *testing.T) {
	s := &shelf{versions: database.Versions{Rules: at(1)}}
	r, _ := reloaderOf(s)
	stop := task(func(ctx context.Context) { r.run(ctx, time.Hour) })
	defer func() {
		if err := stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for v := range int64(50) {
		s.set(func(s *shelf) { s.versions.Rules = at(v + 2) })
		inForce := r.changed(t.Context())
		if got := r.sets.Load().Version(); got != v+2 || !inForce {
			t.Fatalf("version %d in force after the change, want %d; the writer was told %t", got, v+2, inForce)
		}
	}
}

func TestChanged_WaitsForADatabaseThatCannotBeReadAtOnce(t *testing.T) {
	s := &shelf{versions: database.Versions{Rules: at(1)}}
	r, log := reloaderOf(s)
	pass(t, r)
	stop := task(func(ctx context.Context) { r.run(ctx, 5*time.Millisecond) })
	defer func() {
		if err := stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s.set(func(s *shelf) { s.versions.Rules, s.err = at(2), rules.ErrUnavailable })
	answered := make(chan int64, 1)
	go func() {
		if !r.changed(t.Context()) {
			t.Error("the writer was told that its change is not in force")
		}
		answered <- r.sets.Load().Version()
	}()
	eventually(t, "a pass fails", func() bool { return strings.Contains(log.String(), "retrying") })
	s.set(func(s *shelf) { s.err = nil })
	if got := <-answered; got != 2 {
		t.Errorf("the writer was answered while version %d was in force, want 2", got)
	}
}

func TestChanged_EndsWithItsCaller(t *testing.T) {
	s := &shelf{versions: database.Versions{Rules: at(1)}}
	r, log := reloaderOf(s)
	pass(t, r)
	stop := task(func(ctx context.Context) { r.run(ctx, 5*time.Millisecond) })
	defer func() {
		if err := stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s.set(func(s *shelf) { s.versions.Rules, s.err = at(2), rules.ErrUnavailable })
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan bool, 1)
	go func() { told <- r.changed(ctx) }()
	eventually(t, "a pass fails", func() bool { return strings.Contains(log.String(), "retrying") })
	cancel()
	if <-told {
		t.Error("told that the change is in force while the database cannot be read")
	}
	if !strings.Contains(log.String(), "not in force on this node yet") {
		t.Errorf("the log does not say so:\n%s", log)
	}
}

func TestChanged_TellsOfRulesThatDoNotCompile(t *testing.T) {
	s := &shelf{rules: []rules.Rule{goodRule(1, "a")}, versions: database.Versions{Rules: at(1)}}
	r, _ := reloaderOf(s)
	pass(t, r)
	stop := task(func(ctx context.Context) { r.run(ctx, time.Hour) })
	defer func() {
		if err := stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	s.set(func(s *shelf) {
		bad := goodRule(2, "poisoned")
		bad.Algorithm = "guesswork"
		s.rules, s.versions.Rules = append(s.rules, bad), at(2)
	})
	if r.changed(t.Context()) {
		t.Error("told that rules are in force that do not compile")
	}
	s.set(func(s *shelf) { s.versions.Tokens = at(5) })
	if !r.changedTokens(t.Context()) {
		t.Error("rules that do not compile kept tokens from being told in force")
	}
	s.set(func(s *shelf) { s.rules, s.versions.Rules = s.rules[:1], at(3) })
	if !r.changed(t.Context()) {
		t.Error("repaired rules are told not in force")
	}
}

func TestChanged_ReturnsAfterTheLoopHasEnded(t *testing.T) {
	r, _ := reloaderOf(&shelf{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.run(ctx, time.Hour)
	if r.changed(t.Context()) {
		t.Error("a writer was told that its change is in force by a node that is stopping")
	}
	r.notify()
	r.notify()
}

func TestStops_UnwindLastInFirstOutAndGoOnAfterErrors(t *testing.T) {
	var order []string
	s := &stops{log: slog.New(slog.DiscardHandler)}
	bad := errors.New("stuck")
	for _, name := range []string{"first", "second", "third"} {
		s.add(name, func(context.Context) error {
			order = append(order, name)
			if name == "second" {
				return bad
			}
			return nil
		})
	}
	err := s.unwind(t.Context())
	if got := strings.Join(order, " "); got != "third second first" {
		t.Errorf("order %q", got)
	}
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "second") {
		t.Errorf("got %v, want the error with the part's name", err)
	}
	if err := s.unwind(t.Context()); err != nil {
		t.Errorf("unwinding twice: %v", err)
	}
}
