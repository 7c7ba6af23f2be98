package database

import (
	"path/filepath"
	"regexp"
	"testing"

	"sluice/internal/testenv"
)

// idOf migrates a database and returns its id.
func idOf(t *testing.T, dsn string) string {
	t.Helper()
	d, err := Open(t.Context(), Options{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, err := d.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestID_IsRandomAndStays(t *testing.T) {
	seen := map[string]bool{}
	for _, dsn := range []string{
		filepath.Join(t.TempDir(), "one.db"), filepath.Join(t.TempDir(), "two.db"), testenv.Postgres(t), testenv.Postgres(t),
	} {
		id := idOf(t, dsn)
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) || seen[id] {
			t.Errorf("the id %q has another form or is that of another database", id)
		}
		if again := idOf(t, dsn); again != id {
			t.Errorf("opened again the id is %q, was %q", again, id)
		}
		seen[id] = true
	}
}

// A backup of the file has the id of the original.
func TestID_IsKeptByACopy(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.db"), filepath.Join(dir, "to.db")
	id := idOf(t, from)
	d, err := Open(t.Context(), Options{DSN: from})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.write.WithContext(t.Context()).Exec("VACUUM INTO ?", to).Error; err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if got := idOf(t, to); got != id {
		t.Errorf("the copy has the id %q, the original %q", got, id)
	}
}
