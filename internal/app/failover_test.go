package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/database"
	"sluice/internal/testenv"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

var editor = rules.Actor{Kind: "user", Name: "ada"}

// edits is what an editor makes of the base that two databases share.
type edits struct {
	limit, pool int64
	blocked     string
	revoke      bool
}

// secrets of the two tokens of the base.
var keptSecret, keptHash = access.NewSecret()
var lostSecret, lostHash = access.NewSecret()

func openDatabase(t *testing.T, dsn string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{DSN: dsn, CallTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func makeBase(dsn string) error {
	ctx := context.Background()
	db, err := database.Open(ctx, database.Options{DSN: dsn, CallTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.Pools().Create(ctx, editor, rules.Pool{Name: "p", Limit: 10, WindowMS: 1000}); err != nil {
		return err
	}
	r, err := db.CreateRule(ctx, editor, goodRule(0, "r"))
	if err != nil {
		return err
	}
	if _, err := db.CreateOverride(ctx, editor, rules.Override{RuleID: r.ID, Key: "user:base", Blocked: true},
		match.Options{}); err != nil {
		return err
	}
	for name, hash := range map[string][32]byte{"kept": keptHash, "lost": lostHash} {
		if _, err := db.CreateToken(ctx, editor,
			access.Token{Name: name, Hash: hash, Scopes: []access.Scope{access.ScopeAdmin}}); err != nil {
			return err
		}
	}
	return nil
}

// sleeping is a rule that decides nothing.
func sleeping(name string) rules.Rule {
	r := goodRule(0, name)
	r.IsActive = false
	return r
}

// live makes the changes of a edits, always as many of each kind.
func (h edits) live(t *testing.T, db *database.DB) {
	t.Helper()
	ctx := t.Context()
	r := goodRule(1, "r")
	r.Limit = h.limit
	_, err := db.UpdateRule(ctx, editor, r, 0)
	if err == nil {
		_, err = db.Pools().Update(ctx, editor, rules.Pool{Name: "p", Limit: h.pool, WindowMS: 1000}, 0)
	}
	if err == nil {
		_, err = db.CreateOverride(ctx, editor, rules.Override{RuleID: 1, Key: "user:" + h.blocked, Blocked: true},
			match.Options{})
	}
	if err == nil && h.revoke {
		tokens, _ := db.ListTokens(ctx)
		for i := range tokens {
			if tokens[i].Hash == lostHash {
				err = db.RevokeToken(ctx, editor, tokens[i].ID)
			}
		}
	} else if err == nil {
		_, hash := access.NewSecret()
		_, err = db.CreateToken(ctx, editor,
			access.Token{Name: "soon-lost", Hash: hash, Scopes: []access.Scope{access.ScopeCheck}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// either is a database that is another one after a failover; servers cannot be
// told apart, so that nothing but the stamps does.
type either struct{ atomic.Pointer[database.DB] }

func (e *either) Migrate(context.Context) error { return nil }
func (e *either) Versions(ctx context.Context) (database.Versions, error) {
	v, err := e.Load().Versions(ctx)
	v.Server = ""
	return v, err
}
func (e *either) LoadRules(ctx context.Context) (rules.Source, error) { return e.Load().LoadRules(ctx) }
func (e *either) LoadChanges(ctx context.Context, since database.Version) (match.Delta, database.Version, bool, error) {
	return e.Load().LoadChanges(ctx, since)
}
func (e *either) LoadTokens(ctx context.Context) ([]access.Token, database.Version, error) {
	return e.Load().LoadTokens(ctx)
}
func (e *either) LoadOverrides(ctx context.Context, since database.Version, begin func(bool),
	each func(override.Row)) (database.Version, error) {
	return e.Load().LoadOverrides(ctx, since, begin, each)
}

func TestReload_EqualNumbersOfAnotherHistoryAreNoticed(t *testing.T) {
	t.Parallel()
	bases := map[string]func(t *testing.T) string{
		"postgres": func(t *testing.T) string { return testenv.PostgresFrom(t, "failover", makeBase) },
		"sqlite":   nil,
	}
	var file []byte
	bases["sqlite"] = func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "sluice.db")
		if file == nil {
			testenv.SQLiteFrom(t, path, migrated)
			if err := makeBase(path); err != nil {
				t.Fatal(err)
			}
			var err error
			if file, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, base := range bases {
		// A node may look when the numbers are equal, or when the new history is ahead.
		for _, ahead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ahead=%v", name, ahead), func(t *testing.T) {
				lost, lagging := openDatabase(t, base(t)), openDatabase(t, base(t))
				from := &either{}
				from.Store(lost)
				r, log := reloaderOf(&shelf{})
				r.database, r.overrideDatabase = from, from
				pass(t, r)
				edits{limit: 6, pool: 20, blocked: "lost"}.live(t, lost)
				pass(t, r)
				if limitFor(r, "u") != 6 || limitFor(r, "lost") != 0 {
					t.Fatalf("the changes did not come in force:\n%s", log)
				}

				edits{limit: 7, pool: 30, blocked: "found", revoke: true}.live(t, lagging)
				if ahead {
					if _, err := lagging.CreateRule(t.Context(), editor, sleeping("more")); err != nil {
						t.Fatal(err)
					}
					if _, err := lagging.CreateOverride(t.Context(), editor,
						rules.Override{RuleID: 1, Key: "user:more", Blocked: true}, match.Options{}); err != nil {
						t.Fatal(err)
					}
				} else if was, is := versionsOf(t, lost), versionsOf(t,
					lagging); was.Rules.N != is.Rules.N || was.Tokens.N != is.Tokens.N || was.Overrides.N != is.Overrides.N {
					t.Fatalf("the histories are not equally long: %v and %v", was, is)
				}
				from.Store(lagging)
				pass(t, r)
				if got := limitFor(r, "u"); got != 7 {
					t.Errorf("limit %d in force, want 7: the lost rule stays", got)
				}
				if got := r.sets.Load().Pool("p").Pool.Limit; got != 30 {
					t.Errorf("the pool has %d in force, want 30", got)
				}
				if got := limitFor(r, "lost"); got != 7 {
					t.Errorf("limit %d for a user whose override is lost, want 7", got)
				}
				if limitFor(r, "found") != 0 || limitFor(r, "base") != 0 {
					t.Error("who is blocked is not")
				}
				if _, err := r.access.Load().Find(lostSecret, time.Now()); err == nil {
					t.Error("a revoked token is still accepted")
				}
				if _, err := r.access.Load().Find(keptSecret, time.Now()); err != nil {
					t.Error("a good token is refused")
				}
			})
		}
	}
}

func versionsOf(t *testing.T, db *database.DB) database.Versions {
	t.Helper()
	v, err := db.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFailoverToALaggingCopy_NodesFollowWhatIsThere(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	if err := makeBase(cfg.DatabaseURL.Value); err != nil {
		t.Fatal(err)
	}
	other := settings(t)
	other.DatabaseURL.Value = cfg.DatabaseURL.Value
	lagging := postgres.Copy(t)

	nodes := []*node{start(t, cfg), start(t, other)}
	for _, n := range nodes {
		n.token = lostSecret
	}
	db, later := openDatabase(t, cfg.DatabaseURL.Value), openDatabase(t, lagging.DSN("postgres"))
	edits{limit: 6, pool: 20, blocked: "lost"}.live(t, db)
	for _, n := range nodes {
		eventually(t, "the changes are in force", func() bool { return n.limitOf() == 6 && !n.allowed(`{"user":"lost"}`) })
	}
	// The copy lacks these changes. By the time a node looks, the editor has
	// repeated as many.
	edits{limit: 7, pool: 30, blocked: "found", revoke: true}.live(t, later)
	if was, is := versionsOf(t, db), versionsOf(t, later); was.Rules.N != is.Rules.N || was.Tokens.N != is.Tokens.N ||
		was.Overrides.N != is.Overrides.N {
		t.Fatalf("the histories are not equally long: %v and %v", was, is)
	}
	postgres.FailOver(lagging)
	for i, n := range nodes {
		eventually(t, fmt.Sprintf("node %d refuses the revoked token", i), func() bool {
			status, _ := n.send(http.MethodPost, "/ratelimit/check", anyUser)
			return status == http.StatusUnauthorized
		})
		n.token = keptSecret
		eventually(t, fmt.Sprintf("node %d decides by what is there", i), func() bool {
			return n.limitOf() == 7 && n.allowed(`{"user":"lost"}`) && !n.allowed(`{"user":"found"}`) &&
				!n.allowed(`{"user":"base"}`)
		})
		if !strings.Contains(n.log.String(), "a different server") {
			t.Errorf("no log line says so:\n%s", n.log)
		}
	}
}
