package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/internal/trouble"
	"sluice/rules"
)

// useStore notes what is written, unless it fails.
type useStore struct {
	written [][]access.Use
	err     error
	replica bool
	bounded bool
}

func (s *useStore) Replica() bool { return s.replica }

func (s *useStore) WriteTokenUses(ctx context.Context, uses []access.Use) error {
	_, s.bounded = ctx.Deadline()
	if s.err == nil {
		s.written = append(s.written, uses)
	}
	return s.err
}

func TestTokenUses_WaitInMemoryWhileTheDatabaseIsUnavailable(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	secret, hash := access.NewSecret()
	keyring := &access.Current{}
	keyring.Store(access.NewKeyring([]access.Token{{ID: 7, Hash: hash, Scopes: []access.Scope{access.ScopeCheck}}}))
	gate := access.Gate{Tokens: keyring, Now: func() time.Time { return now }}
	use := func() {
		t.Helper()
		if _, err := gate.Admit(access.Call{Endpoint: "check", Authorization: []string{"Bearer " + secret}},
			access.ScopeCheck); err != nil {
			t.Fatal(err)
		}
	}
	known := trouble.New(slog.New(slog.DiscardHandler), gate.Now, nil)
	store := &useStore{err: rules.ErrUnavailable}
	w := &tokenUses{uses: &keyring.Uses, store: store, now: gate.Now, trouble: known}
	w.write(t.Context(), false)
	if len(known.Codes()) > 0 {
		t.Error("nothing was used, and it was written")
	}
	use()
	w.write(t.Context(), false)
	if !known.On(usesUnwritten, "") || !store.bounded {
		t.Errorf("a failure: %q, with a deadline %v", known.Codes(), store.bounded)
	}
	store.err, store.replica = nil, true
	w.write(t.Context(), true)
	store.replica = false
	if len(store.written) > 0 {
		t.Error("it was written to a replica")
	}
	first := now
	now = now.Add(time.Hour)
	w.write(t.Context(), false)
	if len(store.written) != 1 || store.written[0][0] != (access.Use{Token: 7, At: first, Endpoint: "check"}) ||
		known.On(usesUnwritten, "") {
		t.Errorf("later: %v, %q", store.written, known.Codes())
	}
	now = now.Add(time.Second)
	use()
	w.write(t.Context(), false)
	if len(store.written) != 1 {
		t.Error("it was written twice in a minute")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.run(ctx) // the end
	if len(store.written) != 2 || !store.written[1][0].At.Equal(now) {
		t.Errorf("at the end: %v", store.written)
	}
}

// A token that expires in three days is an alert at a webhook, and the stop of the node stores its last use.
func TestTokens_ExpirySeenAndLastUseStored(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.WebhookAllow = []string{"127.0.0.1"}
	create := func(name string, lives time.Duration) (access.Token, string) {
		t.Helper()
		made, secret, err := CreateToken(t.Context(), cfg.Storage, NewToken{Name: name, By: "test",
			Scopes: []access.Scope{access.ScopeAdmin}, Lifetime: lives}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return made, secret
	}
	_, owner := create("owner", 0)
	n := start(t, cfg)
	n.token = owner
	hooks := receive(t)
	hooks.hook(n, `"token_expiring"`)
	made, secret := create("edge", 72*time.Hour)
	eventually(t, "the message arrives", func() bool { return len(hooks.alerts(t)) > 0 })
	a := hooks.alerts(t)[0]
	want := "The API token 2 (edge) expires at " + made.ExpiresAt.UTC().Format(time.DateTime) + " UTC. Rotate it, "
	if a.Type != "token_expiring" || a.Data.Numbers["token"] != 2 || !strings.HasPrefix(a.Data.Text, want) ||
		a.Data.Numbers["expires_at_ms"] != made.ExpiresAt.UnixMilli() || a.Data.Path != "/console/tokens" {
		t.Errorf("the message is %+v", a)
	}
	n.token = secret
	if status, _ := n.send("GET", "/ratelimit/rules", ""); status != http.StatusOK {
		t.Fatalf("rules: %d", status)
	}
	n.stop()
	list, err := Tokens(t.Context(), cfg.Storage)
	if err != nil || len(list) != 2 || list[1].LastUse == nil || list[1].LastUse.Endpoint != "rules" {
		t.Fatalf("stored %+v, %v", list, err)
	}
	if _, _, _, err := RotateToken(t.Context(), cfg.Storage, "edge", time.Hour, "test"); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := RotateToken(t.Context(), cfg.Storage, "2", time.Hour, "test"); !errors.Is(err,
		access.ErrNotRotatable) {
		t.Errorf("the old one by its id: %v", err)
	}
	gone, err := RevokeToken(t.Context(), cfg.Storage, "edge", "test")
	if err != nil || gone.ID != 3 {
		t.Errorf("a name is not that of the newest token: %v, %v", gone, err)
	}
	if _, err := RevokeToken(t.Context(), cfg.Storage, "2", "test"); err != nil {
		t.Errorf("the old one by its id: %v", err)
	}
}

func TestAlertFacts_TokensThatExpireSoon(t *testing.T) {
	f, _, _, now := gathering(t, "a")
	soon := now.Add(14 * 24 * time.Hour)
	later := soon.Add(time.Second)
	ring := access.NewKeyring([]access.Token{{ID: 3, Name: "edge", Hash: [32]byte{3}, ExpiresAt: &soon},
		{ID: 4, Hash: [32]byte{4}, ExpiresAt: &later}, {ID: 5, Hash: [32]byte{5}}})
	f.tokens.Store(ring)
	got, err := f.gather(t.Context())
	if err != nil || len(got.Sightings) != 1 {
		t.Fatalf("seen %+v, %v", got.Sightings, err)
	}
	if s := got.Sightings[0]; s.Subject != (alerts.Subject{Kind: alerts.KindTokenExpiring, Level: "3 (edge)"}) ||
		s.State != alerts.On || s.Numbers["expires_at_ms"] != soon.UnixMilli() || s.LifeMS == 0 {
		t.Errorf("seen %+v", s)
	}
	if !slices.Contains(alerts.Kinds(), string(alerts.KindTokenExpiring)) {
		t.Error("webhooks cannot ask for the kind")
	}
}
