package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/trouble"
	"sluice/rules"
)

func TestDiskFull_IsNamedLoggedOnceAndHeals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	if err := migrateDSN(path); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer // read after Close
	known := trouble.New(slog.New(slog.NewTextHandler(&log, nil)), time.Now, nil)
	d, err := Open(t.Context(), Options{DSN: path, CallTimeout: patience, Trouble: known})
	if err != nil {
		t.Fatal(err)
	}
	// SQLite's own bound on the size of the file fails a write as a full disk does.
	setPages(t, d, 1) // not below what is in use
	tried := make(chan error, 100)
	d.disk.retry = time.Millisecond
	d.disk.attempt = func(ctx context.Context) error {
		err := d.write.WithContext(ctx).Exec("CREATE TABLE room (x); INSERT INTO room VALUES (zeroblob(300000)); DROP " +
			"TABLE room").Error
		tried <- err
		return err
	}
	var many rules.Plan
	for i := range 100 {
		r := sample(fmt.Sprintf("r%d", i))
		r.Description = strings.Repeat("x", 1000)
		many.Create = append(many.Create, r)
	}
	for range 3 {
		if err := d.ApplyPlan(t.Context(), ada, many); !errors.Is(err, rules.ErrUnavailable) ||
			!errors.Is(err, rules.ErrDiskFull) {
			t.Fatalf("a full disk is %v", err)
		}
	}
	if len(known.Current()) != 1 {
		t.Error("the outage is not shown")
	}
	if <-tried == nil {
		t.Error("a disk that is still full counts as healed")
	}
	if _, err := d.ListRules(t.Context(), rules.Query{}); err != nil {
		t.Errorf("reading fails too: %v", err)
	}
	setPages(t, d, 1<<30)
	for <-tried != nil {
	}
	for len(known.Current()) > 0 { // the trial has succeeded, so the end is near
		runtime.Gosched()
	}
	if err := d.ApplyPlan(t.Context(), ada, many); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if err := d.tryDisk(t.Context()); err != nil {
		t.Errorf("the trial on a sound disk: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	said := log.String()
	if strings.Count(said, "level=ERROR") != 1 || !strings.Contains(said, path) ||
		strings.Count(said, "can be written again") != 1 {
		t.Errorf("the log says\n%s", said)
	}
}

func setPages(t *testing.T, d *DB, n int64) {
	t.Helper()
	var got int64
	if err := d.write.Raw("PRAGMA max_page_count = " + strconv.FormatInt(n, 10)).Scan(&got).Error; err != nil {
		t.Fatal(err)
	}
}
