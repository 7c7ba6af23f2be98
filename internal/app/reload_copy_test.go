package app

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/database"
	"sluice/internal/rulecopy"
	"sluice/rules"
)

var savedAt = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// lastRun is the copy of version 7: one rule of limit 5, one token.
func lastRun() *rulecopy.Copy {
	return &rulecopy.Copy{
		At: savedAt, Version: 7, Rules: []rules.Rule{goodRule(1, "kept")},
		Tokens: []access.Token{{ID: 1, Name: "gateway", Hash: [32]byte{1}, Scopes: []access.Scope{access.ScopeCheck}}},
	}
}

// recalling is a reloader with that copy at hand, two and a half hours later,
// and what it hands over to be saved.
func recalling(s *shelf) (*reloader, *buffer, *[]inForce) {
	r, log := reloaderOf(s)
	var kept []inForce
	r.loadCopy = func() (*rulecopy.Copy, error) { return lastRun(), nil }
	r.saveCopy = func(f inForce, changed bool) {
		if changed {
			kept = append(kept, f)
		}
	}
	r.now = func() time.Time { return savedAt.Add(150 * time.Minute) }
	r.readiness.now = r.now
	return r, log, &kept
}

func TestFallBack_DecidesWithTheCopyUntilTheDatabaseAnswers(t *testing.T) {
	s := &shelf{migrate: rules.ErrUnavailable}
	r, log, kept := recalling(s)
	pass(t, r)
	if err := r.readiness.ready(); err != nil || r.sets.Load().Version() != 7 || r.access.Load().Len() != 1 {
		t.Fatalf("not ready with the copy: %v", err)
	}
	state := r.readiness.ruleState()
	if state.Version != 7 || state.Source != "copy" || state.AgeMS != 150*60*1000 || state.RefusedVersion != nil {
		t.Errorf("readiness tells %+v", state)
	}
	for _, want := range []string{"saved copy of the rules", "age=2h30m0s", "version=7",
		"checks use the rules last loaded"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if len(*kept) != 0 {
		t.Error("the copy was saved as if the database had confirmed it")
	}
	// The same version numbers, other content: the database's is what counts.
	s.set(func(s *shelf) {
		s.migrate = nil
		s.versions = database.Versions{Rules: at(7)}
		s.rules = []rules.Rule{goodRule(2, "stored"), goodRule(3, "too")}
	})
	pass(t, r)
	if got := r.sets.Load().Len(); got != 2 || r.access.Load().Len() != 0 {
		t.Errorf("%d rules and %d tokens in force, want the database's", got, r.access.Load().Len())
	}
	if got := r.readiness.ruleState().Source; got != "database" {
		t.Errorf("source %q after the database came back", got)
	}
	if len(*kept) != 1 || (*kept)[0].set != r.sets.Load() {
		t.Errorf("kept %d times, want once, what the database gave", len(*kept))
	}
}

func TestFallBack_PoisonedDatabaseAtStartLeavesTheCopyInForce(t *testing.T) {
	bad := goodRule(1, "poisoned")
	bad.Scope = "moon"
	s := &shelf{rules: []rules.Rule{bad}, versions: database.Versions{Rules: at(8), Tokens: at(1)},
		tokens: []access.Token{{ID: 2, Hash: [32]byte{2}}, {ID: 3, Hash: [32]byte{3}}}}
	r, log, kept := recalling(s)
	pass(t, r)
	state := r.readiness.ruleState()
	if r.readiness.ready() != nil || state.Source != "copy" || state.Version != 7 || state.RefusedVersion == nil ||
		*state.RefusedVersion != 8 {
		t.Errorf("readiness tells %+v", state)
	}
	if r.access.Load().Len() != 2 {
		t.Error("tokens of the copy are in force although the database gave newer ones")
	}
	if !strings.Contains(log.String(), "poisoned") {
		t.Errorf("the log does not name the rule:\n%s", log)
	}
	if len(*kept) != 1 || (*kept)[0].set.Version() != 7 || !(*kept)[0].at.Equal(savedAt) || len((*kept)[0].tokens) != 2 {
		t.Errorf("kept %+v, want the good rules at their own age with the new tokens", *kept)
	}
	s.set(func(s *shelf) { s.rules[0].Scope = "user"; s.versions.Rules = at(9) })
	pass(t, r)
	if state := r.readiness.ruleState(); state.Source != "database" || state.Version != 9 || state.RefusedVersion != nil {
		t.Errorf("after the repair readiness tells %+v", state)
	}
}

func TestFallBack_WhereATokenIsNeededACopyWithoutOneIsRefused(t *testing.T) {
	s := &shelf{migrate: rules.ErrUnavailable}
	r, log, _ := recalling(s)
	r.checkTokens = func(k *access.Keyring) error {
		if k.Live(r.now()) > 5 {
			return nil
		}
		return errNoCredentials
	}
	pass(t, r) // and does not end the server
	if r.readiness.ready() == nil || r.sets.Load() != nil || !strings.Contains(log.String(), "rejected") {
		t.Errorf("the copy is in force without credentials:\n%s", log)
	}
}

func TestFallBack_ACopyThatDoesNotCompileIsRefused(t *testing.T) {
	r, log, _ := recalling(&shelf{migrate: rules.ErrUnavailable})
	r.loadCopy = func() (*rulecopy.Copy, error) {
		c := lastRun()
		c.Rules[0].Algorithm = "guesswork"
		return c, nil
	}
	pass(t, r)
	if r.readiness.ready() == nil || !strings.Contains(log.String(), "do not compile") {
		t.Errorf("ready, or silent:\n%s", log)
	}
}

func TestFallBack_NoCopyMeansWaiting(t *testing.T) {
	r, log := reloaderOf(&shelf{migrate: rules.ErrUnavailable})
	for range 3 {
		pass(t, r)
	}
	if r.readiness.ready() == nil || strings.Count(log.String(), "no saved copy") != 1 {
		t.Errorf("ready without rules, or not one line about it:\n%s", log)
	}
}

func TestReload_GoingBackToTheVersionInForceEndsTheRefusal(t *testing.T) {
	s := &shelf{rules: []rules.Rule{goodRule(1, "a")}, versions: database.Versions{Rules: at(3)}}
	r, _ := reloaderOf(s)
	pass(t, r)
	s.set(func(s *shelf) { s.rules[0].Scope = "moon"; s.versions.Rules = at(4) })
	pass(t, r)
	if got := r.readiness.ruleState().RefusedVersion; got == nil || *got != 4 {
		t.Fatalf("refused version %v, want 4", got)
	}
	s.set(func(s *shelf) { s.rules[0].Scope = "user"; s.versions.Rules = at(3) }) // a restored backup
	pass(t, r)
	if got := r.readiness.ruleState().RefusedVersion; got != nil {
		t.Errorf("version %d still counts as refused", *got)
	}
}
