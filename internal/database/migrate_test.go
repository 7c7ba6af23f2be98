package database

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/testenv"
	"sluice/rules"
)

// emptyDatabases are databases without a schema.
var emptyDatabases = []backend{
	{"postgres", func(t testing.TB) string { return testenv.Postgres(t) }},
	{"sqlite", func(t testing.TB) string { return filepath.Join(t.TempDir(), "rules.db") }},
}

func TestMigrate_MakesTheSchemaOnce(t *testing.T) {
	t.Parallel()
	for _, b := range emptyDatabases {
		t.Run(b.name, func(t *testing.T) {
			d := open(t, b.dsn(t))
			ctx := t.Context()
			if _, _, err := loadRules(ctx, d); !errors.Is(err, rules.ErrUnavailable) {
				t.Errorf("before the first migration: got %v, want unavailable", err)
			}
			if got := applied(t, d); len(got) == 0 || slices.Contains(got, true) {
				t.Errorf("before the first migration: applied %v", got)
			}
			if err := d.Migrate(ctx); err != nil {
				t.Fatal(err)
			}
			mustCreate(t, d, sample("a"))
			if err := d.Migrate(ctx); err != nil {
				t.Fatalf("again: %v", err)
			}
			if got := mustVersions(t, d).Rules; got != 1 {
				t.Errorf("migrating again lost data: version %d", got)
			}
			if got := applied(t, d); slices.Contains(got, false) {
				t.Errorf("after all: applied %v", got)
			}
		})
	}
}

// A database of a build before 1.0.0 is refused and stays as it is.
func TestMigrate_RefusesAnEarlierBuild(t *testing.T) {
	for _, b := range emptyDatabases {
		t.Run(b.name, func(t *testing.T) {
			d := open(t, b.dsn(t))
			for _, sql := range []string{
				"CREATE TABLE goose_db_version (id INTEGER, version_id BIGINT, is_applied BOOLEAN)",
				"INSERT INTO goose_db_version VALUES (1, 17, true)", "CREATE TABLE rule_revisions (rule_id BIGINT)"} {
				if err := d.write.Exec(sql).Error; err != nil {
					t.Fatal(err)
				}
			}
			before := everyColumn(t, d)
			if err := d.Migrate(t.Context()); !errors.Is(err, ErrSchema) ||
				!strings.Contains(err.Error(), "sluice rules export") {
				t.Errorf("got %v", err)
			}
			if _, err := d.Migrations(t.Context()); !errors.Is(err, ErrSchema) {
				t.Errorf("status: %v", err)
			}
			if err := d.checkSchema(t.Context()); !errors.Is(err, ErrSchema) {
				t.Errorf("replica: %v", err)
			}
			if diff := cmp.Diff(before, everyColumn(t, d)); diff != "" {
				t.Errorf("the refused database changed:\n%s", diff)
			}
		})
	}
}

// Another program's table of steps, and a step of a newer version, are no reason to refuse a database.
func TestMigrate_AcceptsWhatOthersAdd(t *testing.T) {
	t.Parallel()
	for _, b := range emptyDatabases {
		t.Run(b.name, func(t *testing.T) {
			d := open(t, b.dsn(t))
			if err := d.write.Exec("CREATE TABLE goose_db_version (id INTEGER)").Error; err != nil {
				t.Fatal(err)
			}
			if err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustCreate(t, d, sample("a"))
			err := errors.Join(d.write.Exec("ALTER TABLE rules ADD COLUMN later TEXT").Error,
				d.write.Exec("INSERT INTO schema_steps (version_id, is_applied) VALUES (9, ?)", true).Error)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Migrations(t.Context()); err != nil {
				t.Error(err)
			}
			mustCreate(t, d, sample("b"))
		})
	}
}

func TestMigrate_DialectsHaveTheSameColumns(t *testing.T) {
	var got [2]map[string][]string
	for i, b := range backends {
		got[i] = columns(t, open(t, b.dsn(t)))
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Errorf("postgres (-), sqlite (+):\n%s", diff)
	}
	promised := []string{"scope", "route", "method", "limit_count", "window_ms", "weight_field", "is_active", "created_at",
		"updated_at"}
	for _, column := range promised {
		if !slices.Contains(got[0]["rules"], column) {
			t.Errorf("rules has no column %s", column)
		}
	}
}

func TestMigrate_ManyNodesStartAtOnce(t *testing.T) {
	for _, b := range emptyDatabases {
		t.Run(b.name, func(t *testing.T) {
			dsn := b.dsn(t)
			nodes := make([]*DB, 4)
			errs := make([]error, len(nodes))
			var wg sync.WaitGroup
			for i := range nodes {
				wg.Go(func() {
					if nodes[i], errs[i] = Open(context.Background(), Options{DSN: dsn, CallTimeout: patience}); errs[i] == nil {
						errs[i] = nodes[i].Migrate(context.Background())
					}
				})
			}
			wg.Wait()
			for _, d := range nodes {
				if d != nil {
					defer func() { _ = d.Close() }() //nolint:gocritic // a handful, closed with the test
				}
			}
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			mustCreate(t, nodes[0], sample("a"))
			for _, d := range nodes {
				if got := mustVersions(t, d).Rules; got != 1 {
					t.Errorf("a node sees version %d", got)
				}
			}
		})
	}
}

func TestMigrate_EveryStepIsInBothDialects(t *testing.T) {
	var names [2][]string
	for i, b := range emptyDatabases {
		list, err := open(t, b.dsn(t)).Migrations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			names[i] = append(names[i], m.Name)
		}
	}
	if diff := cmp.Diff(names[0], names[1]); diff != "" {
		t.Errorf("postgres (-), sqlite (+):\n%s", diff)
	}
}

// applied says of each step whether it is done.
func applied(t *testing.T, d *DB) []bool {
	t.Helper()
	list, err := d.Migrations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var done []bool
	for _, m := range list {
		done = append(done, m.AppliedAt != nil)
	}
	return done
}

// columns returns our tables and their columns, in order of name.
func columns(t *testing.T, d *DB) map[string][]string {
	t.Helper()
	tables := everyColumn(t, d)
	delete(tables, stepsTable)
	return tables
}

// everyColumn is columns with the table of steps.
func everyColumn(t *testing.T, d *DB) map[string][]string {
	t.Helper()
	query := `SELECT table_name AS t, column_name AS c FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2`
	if d.dialect == dialectSQLite {
		query = `SELECT m.name AS t, c.name AS c FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2`
	}
	var rows []struct{ T, C string }
	if err := d.read.Raw(query).Scan(&rows).Error; err != nil {
		t.Fatal(err)
	}
	tables := map[string][]string{}
	for _, row := range rows {
		if !strings.HasPrefix(row.T, "sqlite_") {
			tables[row.T] = append(tables[row.T], row.C)
		}
	}
	return tables
}
