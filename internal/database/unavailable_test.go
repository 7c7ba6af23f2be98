package database

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/internal/testenv"
	"sluice/rules"
)

// everyCall makes each call once and gives its error.
func everyCall(ctx context.Context, d *DB) map[string]error {
	errs := map[string]error{}
	_, tok := newToken("ci", access.ScopeCheck)
	_, errs["create"] = d.CreateRule(ctx, ada, sample("x"))
	_, errs["update"] = d.UpdateRule(ctx, ada, sample("x"), 1)
	_, errs["rollback"] = d.RollbackRule(ctx, ada, 1, 1, 1)
	errs["delete"] = d.DeleteRule(ctx, ada, 1, 1)
	errs["plan"] = d.ApplyPlan(ctx, ada, rules.Plan{Create: []rules.Rule{sample("x")}})
	_, errs["list"] = d.ListRules(ctx, rules.Query{})
	_, errs["get"] = d.GetRule(ctx, 1)
	_, errs["get by name"] = d.GetRuleByName(ctx, "x")
	_, errs["history"] = d.RuleHistory(ctx, 1, 0, 0)
	_, _, errs["load"] = loadRules(ctx, d)
	_, errs["versions"] = d.Versions(ctx)
	_, errs["audit"] = d.ListAudit(ctx, audit.Query{})
	_, errs["create token"] = d.CreateToken(ctx, ada, tok)
	errs["revoke token"] = d.RevokeToken(ctx, ada, 1)
	_, _, errs["load tokens"] = d.LoadTokens(ctx)
	_, errs["write figures"] = d.WriteStats(ctx, []history.LiveRow{{}})
	errs["read figures"] = d.ReadStats(ctx, nil, []history.Part{{}}, history.Both, func(*history.StoredRow) {})
	_, errs["add up figures"] = d.FoldStats(ctx, 1)
	_, errs["clean figures"] = d.CleanStats(ctx, history.KindDays, 1, 1)
	errs["add events"] = d.AddEvents(ctx, []incident.Event{{ID: "x"}})
	_, errs["events"] = d.Events(ctx, []string{"x"}, time.Now(), time.Now(), 1)
	errs["migrate"] = d.Migrate(ctx)
	return errs
}

func TestPostgresAway_IsUnavailableAndComesBackByItself(t *testing.T) {
	t.Parallel() // it waits for the server most of the time
	srv := testenv.PrivatePostgres(t)
	d := open(t, srv.DSN("postgres"))
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := mustCreate(t, d, sample("a"))
	srv.Stop()
	for name, err := range everyCall(t.Context(), d) {
		if !errors.Is(err, rules.ErrUnavailable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	srv.Restart()
	if _, err := d.UpdateRule(t.Context(), ada, a, 1); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// A listener that accepts and says nothing is a server that hangs.
func TestPostgresHangs_IsUnavailableByTheCallsOwnDeadline(t *testing.T) {
	t.Parallel() // it waits for a deadline
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	d := openFor(t, "postgres://sluice@"+silent.Addr().String()+"/x?sslmode=disable", 0)
	if _, err := d.CreateRule(context.Background(), ada, sample("a")); !errors.Is(err, rules.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestWriterThatHolds_MakesOthersUnavailableNotStuck(t *testing.T) {
	t.Parallel() // it waits for a deadline most of the time
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			dsn := b.dsn(t)
			holder, d := open(t, dsn), openFor(t, dsn, 0)
			tx := holder.write.Begin()
			if _, err := bump(tx, areaRules); err != nil {
				t.Fatal(err)
			}
			if _, err := d.CreateRule(context.Background(), ada, sample("a")); !errors.Is(err, rules.ErrUnavailable) {
				t.Errorf("write: got %v", err)
			}
			if _, _, err := loadRules(t.Context(), d); err != nil {
				t.Errorf("reading beside a writer: %v", err)
			}
			if err := tx.Rollback().Error; err != nil {
				t.Fatal(err)
			}
			mustCreate(t, d, sample("a"))
		})
	}
}

func TestVersions_WithoutTheirRowsAreUnavailable(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		if err := d.write.Exec(`DELETE FROM versions`).Error; err != nil {
			t.Fatal(err)
		}
		if _, err := d.Versions(t.Context()); !errors.Is(err, rules.ErrUnavailable) {
			t.Errorf("read: got %v", err)
		}
		if _, err := d.CreateRule(t.Context(), ada, sample("a")); !errors.Is(err, rules.ErrUnavailable) {
			t.Errorf("write: got %v", err)
		}
	})
}

func TestCaller_WhoGivesUpIsNotTheDatabasesFault(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, err := range everyCall(ctx, d) {
			if !errors.Is(err, context.Canceled) || errors.Is(err, rules.ErrUnavailable) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
}

func TestOpen_RefusesWhatIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("this is no database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, opt := range []Options{
		{},
		{DSN: "mysql://localhost/x"},
		{DSN: "postgres://%zz"},
		{DSN: "postgres://host:notaport/db"},
		{DSN: dir},
		{DSN: garbage},
		{DSN: filepath.Join(garbage, "below", "a", "file.db")},
	} {
		if d, err := Open(t.Context(), opt); err == nil {
			t.Errorf("%+v: opened", opt)
			_ = d.Close()
		}
	}
	_, err := Open(t.Context(), Options{DSN: "postgres://ada:hunter2@host:notaport/db"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows the password: %v", err)
	}
}

func TestOpen_MakesAFileThatOnlyItsOwnerReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data dir #1?%41")
	d, err := Open(t.Context(), Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, d, sample("a"))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 3 { // with the log and its index
		t.Fatalf("files: %v, %v", files, err)
	}
	for _, f := range append(files, dir) {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", f, info.Mode())
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// It is still there for the next start, and its mode is mended.
	path := filepath.Join(dir, "rules.db")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	if rs, v, err := loadRules(t.Context(), again); len(rs) != 1 || v != 1 || err != nil {
		t.Errorf("after reopening: %v, %d, %v", rs, v, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestStamp_KeepsUTCMilliseconds(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7_999_999, time.FixedZone("", 3600))
	v, err := newRowTime(at).Value()
	if want := "2026-02-03T03:05:06.007Z"; v != want || err != nil {
		t.Errorf("got %v, %v, want %v", v, err, want)
	}
	for _, in := range []any{v, []byte(v.(string)), at, "2026-02-03 03:05:06.007999+00:00"} {
		var s rowTime
		if err := s.Scan(in); err != nil || in != "2026-02-03 03:05:06.007999+00:00" &&
			!s.Equal(at.Truncate(time.Millisecond)) {
			t.Errorf("%v: got %v, %v", in, s, err)
		}
	}
	var s rowTime
	if err := s.Scan(nil); err != nil || !s.IsZero() {
		t.Errorf("NULL: got %v, %v", s, err)
	}
	if err := s.Scan(3.5); err == nil {
		t.Error("a number was read as a time")
	}
}
