package database

import (
	"path/filepath"
	"strings"
	"testing"
)

func identity(t *testing.T, opt Options) string {
	t.Helper()
	d, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	id, err := d.Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestIdentity_IsTheDatabaseNotTheWayThere(t *testing.T) {
	const base = "postgres://ops:hunter2@db.example:5432/sluice?sslmode=disable"
	of := func(dsn string) string { t.Helper(); return identity(t, Options{DSN: dsn}) }
	want := of(base)
	for _, same := range []string{
		"postgres://other:secret@db.example/sluice",
		"postgresql://ops@db.example:5432/sluice?sslmode=require&connect_timeout=3&application_name=x",
	} {
		if got := of(same); got != want {
			t.Errorf("%s: got %q, want %q", same, got, want)
		}
	}
	for _, other := range []string{
		"postgres://ops@db.example:5432/staging", "postgres://ops@db2.example:5432/sluice",
		"postgres://ops@db.example:6432/sluice", "postgres://ops@db.example:5432/sluice?search_path=tenant",
	} {
		if got := of(other); got == want {
			t.Errorf("%s has the identity of %s", other, base)
		}
	}
	if a, b := of("postgres://a,b/sluice"), of("postgres://b,a/sluice"); a != b {
		t.Errorf("the order of servers changes the identity: %q, %q", a, b)
	}
	if strings.Contains(want, "hunter2") || strings.Contains(want, "ops") {
		t.Errorf("%q holds credentials", want)
	}
}

func TestIdentity_OfAFileIsItsPath(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.db"), filepath.Join(dir, "two.db")
	if identity(t, Options{DSN: one}) == identity(t, Options{DSN: two}) {
		t.Error("two files have one identity")
	}
	if got := identity(t, Options{DSN: one}); !strings.HasSuffix(got, one) {
		t.Errorf("got %q, want the path %s", got, one)
	}
	// The folder's own file: Identity follows Open in where it is.
	if a, b := identity(t, Options{DataDir: dir}), identity(t, Options{DSN: filepath.Join(dir, sqliteName)}); a != b {
		t.Errorf("got %q and %q for one file", a, b)
	}
}
