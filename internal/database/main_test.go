package database

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
	"sluice/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

var ada = rules.Actor{Kind: "user", Name: "ada"}

// backend is one way to keep rules; every promise is tested on each.
type backend struct {
	name string
	// dsn names a fresh database with the schema in it.
	dsn func(t testing.TB) string
}

var backends = []backend{
	{"postgres", func(t testing.TB) string {
		return testenv.PostgresFrom(t, "sluice_schema", migrateDSN)
	}},
	{"sqlite", func(t testing.TB) string {
		path := filepath.Join(t.TempDir(), "rules.db")
		testenv.SQLiteFrom(t, path, migrateDSN)
		return path
	}},
}

func migrateDSN(dsn string) error {
	ctx := context.Background()
	d, err := Open(ctx, Options{DSN: dsn})
	if err != nil {
		return err
	}
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	return d.Close()
}

// onEach runs a test on a fresh database of each backend, in parallel with others: it waits for the database most of
// the time.
func onEach(t *testing.T, test func(t *testing.T, d *DB)) {
	t.Helper()
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			test(t, open(t, b.dsn(t)))
		})
	}
}

// open opens a database whose clock starts at a fixed time and moves on by an
// odd stretch with every reading. A call may take long: the machine of the tests
// may be busy, and what is not about deadlines shall not depend on them.
func open(t testing.TB, dsn string) *DB {
	t.Helper()
	return openFor(t, dsn, patience)
}

// openFor is open with a deadline for calls, 0 for the usual one.
func openFor(t testing.TB, dsn string, callTimeout time.Duration) *DB {
	t.Helper()
	d, err := Open(t.Context(), Options{DSN: dsn, Now: stepClock(), CallTimeout: callTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

func ptr[T any](v T) *T { return &v }

func sample(name string) rules.Rule {
	return rules.Rule{
		Name: name, Description: "what it is for", Scope: "user", Route: ptr("/v1/charges"), Method: ptr("POST"),
		Algorithm: "token_bucket", Limit: 5, WindowMS: 1000, Burst: ptr[int64](9), WeightField: ptr("bytes"),
		Throttle: "hard", Mode: "enforce", FailMode: "closed", IsActive: true,
		ChargeOn: "request", OverLimit: "deny", HotKeys: "exact", Span: "region", Addend: "take",
	}
}

// loadRules is LoadRules in parts.
func loadRules(ctx context.Context, d *DB) ([]rules.Rule, int64, error) {
	src, err := d.LoadRules(ctx)
	return src.Rules, src.Version, err
}

// loadAllRules is LoadAllRules in parts.
func loadAllRules(ctx context.Context, d *DB) ([]rules.Rule, int64, error) {
	src, err := d.LoadAllRules(ctx)
	return src.Rules, src.Version, err
}

// mustCreate stores a rule.
func mustCreate(t testing.TB, d *DB, r rules.Rule) rules.Rule {
	t.Helper()
	created, err := d.CreateRule(t.Context(), ada, r)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// counts are the numbers of versions.
type counts struct{ Rules, Tokens, Overrides int64 }

func mustVersions(t testing.TB, d *DB) counts {
	t.Helper()
	v, err := d.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counts{v.Rules.N, v.Tokens.N, v.Overrides.N}
}
