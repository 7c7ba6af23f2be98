package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStart_WarnsOfADataDirectoryThatOthersMayUse(t *testing.T) {
	t.Parallel()
	for mode, want := range map[os.FileMode]bool{0o700: false, 0o744: false, 0o750: true, 0o711: true, 0o702: true,
		0o720: true} {
		var lines buffer
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil { //nolint:gosec // the modes that are warned of
			t.Fatal(err)
		}
		warnOfOpenDataDir(dir, slog.New(slog.NewTextHandler(&lines, nil)))
		if got := strings.Contains(lines.String(), "level=WARN") && strings.Contains(lines.String(), dir); got != want {
			t.Errorf("%o: the log is %q", mode, lines.String())
		}
	}
	cfg := settings(t)
	if err := os.Chmod(cfg.DataDir, 0o755); err != nil { //nolint:gosec // the mode that is warned of
		t.Fatal(err)
	}
	if n := start(t, cfg); strings.Count(n.log.String(), "others may enter the data directory") != 1 {
		t.Errorf("the log is\n%s", n.log)
	}
}

func TestStart_RemovesTemporaryFilesOfAKill(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	left := []string{cfg.SnapshotFile() + ".1.tmp", cfg.CopyFile() + ".22.tmp", cfg.OverridesFile() + ".333.tmp",
		cfg.NodesFile() + ".4.tmp", secretFile(&cfg) + ".5.tmp", filepath.Join(cfg.DataDir, "deferred", "7.queue.new")}
	other := []string{filepath.Join(cfg.DataDir, "mine.tmp"), filepath.Join(cfg.DataDir, "notes.new")}
	for _, path := range slices.Concat(left, other) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	// A folder that other nodes share: the file may be one that is being written.
	removeLeftovers(&cfg, false, time.Now(), slog.New(slog.DiscardHandler))
	for _, path := range left {
		if !there(path) {
			t.Errorf("%s was removed while it may be in use", path)
		}
	}
	start(t, cfg)
	for _, path := range left {
		if there(path) {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range other {
		if !there(path) {
			t.Errorf("%s is not ours and was removed", path)
		}
	}
}
