package access

import (
	"sync"
	"testing"
	"time"
)

var usesBegan = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestGate_RemembersTheUsesItAdmits(t *testing.T) {
	now := usesBegan
	secret, hash := NewSecret()
	revoked, revokedHash := NewSecret()
	tokens := &Current{}
	tokens.Store(NewKeyring([]Token{{ID: 7, Hash: hash, Scopes: []Scope{ScopeCheck}},
		{ID: 8, Hash: revokedHash, Scopes: []Scope{ScopeCheck}, RevokedAt: &now}}))
	g := &Gate{Tokens: tokens, Now: func() time.Time { return now }}
	call := func(secret string) Call { return Call{Endpoint: "check", Authorization: []string{"Bearer " + secret}} }
	question := GatewayCall{Endpoint: "nginx", Token: []string{secret}}

	for what, refused := range map[string]error{
		"a revoked token":           ignore(g.Admit(call(revoked), ScopeCheck)),
		"another scope":             ignore(g.Admit(call(secret), ScopeAdmin)),
		"a profile without a token": g.AdmitGateway(question, &GatewayProof{}),
	} {
		if refused == nil {
			t.Errorf("%s is admitted", what)
		}
	}
	if due := tokens.Uses.Due(now, true); len(due) > 0 {
		t.Errorf("refused calls are uses: %v", due)
	}
	if err := ignore(g.Admit(call(secret), ScopeCheck)); err != nil {
		t.Fatal(err)
	}
	if due := tokens.Uses.Due(now, false); len(due) != 1 || due[0] != (Use{7, usesBegan, "check"}) {
		t.Errorf("a check: %v", due)
	}
	now = now.Add(useGrain)
	if err := g.AdmitGateway(question, &GatewayProof{Token: true}); err != nil {
		t.Fatal(err)
	}
	if due := tokens.Uses.Due(now, false); len(due) != 1 || due[0] != (Use{7, now, "nginx"}) {
		t.Errorf("a gateway: %v", due)
	}
}

func ignore(_ Token, err error) error { return err }

func TestUses_AreStoredOnceAMinuteAndNoneIsLost(t *testing.T) {
	var u Uses
	at := func(s int) time.Time { return usesBegan.Add(time.Duration(s) * time.Second) }
	due := func(s int, all bool) []Use { return u.Due(at(s), all) }
	u.note(0, "check", at(0)) // a token that is stored nowhere
	u.note(7, "check", at(0))
	first := due(0, false)
	if len(first) != 1 {
		t.Fatalf("the first use: %v", first)
	}
	if again := due(5, false); len(again) != 1 || again[0] != first[0] {
		t.Errorf("what was not stored is not returned again: %v", again)
	}
	u.note(7, "rules", at(3)) // while the first one is stored
	u.Stored(first, at(5))
	if got := due(64, false); len(got) > 0 {
		t.Errorf("stored again within a minute: %v", got)
	}
	if got := due(65, false); len(got) != 1 || got[0] != (Use{7, at(3), "rules"}) {
		t.Errorf("after a minute: %v", got)
	}
	if got := due(6, true); len(got) != 1 {
		t.Errorf("at the end: %v", got)
	}
	u.Stored(due(65, false), at(65))
	if got := due(500, true); len(got) > 0 {
		t.Errorf("nothing new: %v", got)
	}
}

func TestUses_AreBoundedAndCostACallNothing(t *testing.T) {
	var u Uses
	full := make(map[int64]*lastUse, maxUses)
	for id := int64(1); id <= maxUses; id++ {
		full[id] = &lastUse{}
	}
	u.of.Store(&full)
	u.note(maxUses+1, "check", usesBegan)
	if got := u.Due(usesBegan, true); len(got) > 0 {
		t.Errorf("one more than the bound: %v", got)
	}
	u.note(maxUses, "check", usesBegan)
	if got := u.Due(usesBegan, true); len(got) != 1 {
		t.Errorf("a known one: %v", got)
	}
	if n := testing.AllocsPerRun(100, func() { u.note(maxUses, "check", usesBegan) }); n > 0 {
		t.Errorf("a use costs %v allocations", n)
	}
}

// When all tokens of a busy service come back after a restart, each new one must not copy all others: they wait for it.
func TestUses_ManyNewTokensCopyLittle(t *testing.T) {
	var u Uses
	copies, last := 0, u.of.Load()
	for id := int64(1); id <= maxUses+1; id++ {
		u.note(id, "check", usesBegan)
		if now := u.of.Load(); now != last {
			copies, last = copies+1, now
		}
	}
	if copies > 20 {
		t.Errorf("%d tokens copied the map %d times", maxUses, copies)
	}
	if due := u.Due(usesBegan, true); len(due) != maxUses {
		t.Errorf("%d of %d uses are remembered", len(due), maxUses)
	}
	if n := testing.AllocsPerRun(100, func() { u.note(maxUses+1, "check", usesBegan) }); n > 0 {
		t.Errorf("a use beyond the bound costs %v allocations", n)
	}
}

func TestUses_OfManyCallsAtOnce(t *testing.T) {
	var u Uses
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 500 {
				u.note(int64(n%50+1), "check", usesBegan.Add(time.Duration(i*n)*time.Second))
				if i == 0 {
					u.Stored(u.Due(usesBegan, true), usesBegan)
				}
			}
		})
	}
	wg.Wait()
	u.Stored(u.Due(usesBegan, true), usesBegan)
	if n := len(u.known()); n != 50 {
		t.Errorf("%d tokens", n)
	}
}

func TestToken_ExpiresSoon(t *testing.T) {
	const day = 24 * time.Hour
	at := func(d time.Duration) *time.Time { return new(usesBegan.Add(d)) }
	for _, tt := range []struct {
		what  string
		token Token
		want  bool
	}{
		{"in 14 days", Token{CreatedAt: *at(-90 * day), ExpiresAt: at(14 * day)}, true},
		{"a moment later", Token{CreatedAt: *at(-90 * day), ExpiresAt: at(14*day + 1)}, false},
		{"created for a week", Token{CreatedAt: usesBegan, ExpiresAt: at(7 * day)}, true},
		{"created for hours", Token{CreatedAt: usesBegan, ExpiresAt: at(day - 1)}, false},
		{"never", Token{CreatedAt: usesBegan}, false},
		{"expired", Token{CreatedAt: *at(-day), ExpiresAt: at(0)}, false},
		{"revoked", Token{CreatedAt: *at(-day), ExpiresAt: at(day), RevokedAt: at(-1)}, false},
		{"rotated", Token{CreatedAt: *at(-day), ExpiresAt: at(day), ReplacedAt: at(-1)}, false},
	} {
		if got := tt.token.ExpiresSoon(usesBegan); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
		tt.token.Hash[0] = 1
		if got := len(NewKeyring([]Token{tt.token}).ExpireSoon(usesBegan)); (got == 1) != tt.want {
			t.Errorf("%s: %d in the keyring", tt.what, got)
		}
	}
}
