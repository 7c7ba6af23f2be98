package records

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/trouble"
)

// loggedFiles opens the log of a directory with a logger that the test reads.
func loggedFiles(t *testing.T, dir string, now *time.Time) (*FileSink, *Account, *bytes.Buffer) {
	t.Helper()
	a, text := &Account{}, &bytes.Buffer{}
	log, clock := slog.New(slog.NewTextHandler(text, nil)), func() time.Time { return *now }
	s, err := OpenFiles(FileOptions{Dir: dir, MaxBytes: 1 << 20, Account: a, Now: clock, Log: log,
		Trouble: trouble.New(log, clock, nil)})
	if err != nil {
		t.Fatal(err)
	}
	return s, a, text
}

// A file that was removed or moved away gets no more events: they would count as delivered and be gone.
func TestFiles_GoOnInANewFileWhenTheirsIsGone(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"the file was removed":      func(dir string) error { return os.Remove(filepath.Join(dir, currentFile)) },
		"the directory was removed": os.RemoveAll,
		"another program rotated it": func(dir string) error {
			return os.Rename(filepath.Join(dir, currentFile), filepath.Join(dir, "taken"))
		},
		"another file is there": func(dir string) error {
			path := filepath.Join(dir, currentFile)
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("torn"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, now := filepath.Join(t.TempDir(), "d"), time.UnixMilli(epoch)
			s, a, text := loggedFiles(t, dir, &now)
			s.Write(batchOf(0, 2))
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			s.Write(batchOf(2, 2))
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			lines := readFiles(t, dir)
			if n := len(lines); n < 2 || !strings.HasSuffix(lines[n-2], "2") || !strings.HasSuffix(lines[n-1], "3") {
				t.Errorf("the lines are %q", lines)
			}
			if got := a.Totals(); got.Delivered != 4 {
				t.Errorf("the account says %+v", got)
			}
			if n := strings.Count(text.String(), "\n"); n != 1 {
				t.Errorf("%d lines in the log, want 1: %s", n, text)
			}
		})
	}
}

// A clock that was set back does not make the newest file the first to be removed.
func TestFiles_KeepTheNewestWhenTheClockGoesBack(t *testing.T) {
	dir, now := t.TempDir(), time.UnixMilli(epoch).AddDate(1, 0, 0)
	s, _ := filesOf(t, dir, 1<<20, &now)
	write := func(from, rotations int) {
		for i := range rotations {
			s.Write(batchOf(from+i, 1))
			now = now.Add(maxAge)
			s.Write(Batch{Lines: [][]byte{[]byte("later\n")}, Keys: []string{""}})
		}
	}
	write(100, 1)
	now = time.UnixMilli(epoch)
	write(200, 2)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, line := range readFiles(t, dir) {
		if line != "later" {
			order = append(order, line[len(line)-3:])
		}
	}
	if want := []string{"100", "200", "201"}; !slices.Equal(order, want) {
		t.Errorf("the files are in the order %v, want %v", order, want)
	}
}

// A stop does not wait for the compression of a large file. The next start does it.
func TestFiles_StopWhileAFileIsCompressed(t *testing.T) {
	dir, now := t.TempDir(), time.UnixMilli(epoch)
	earlierFile := filepath.Join(dir, "decisions-20261122T000000.000000000Z"+plainEnd)
	if err := os.WriteFile(earlierFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const large = 1 << 36 // has no blocks, and takes minutes to compress
	if err := os.Truncate(earlierFile, large); err != nil {
		t.Fatal(err)
	}
	s, _ := filesOf(t, dir, 2*large, &now)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	names, err := earlier(dir)
	if err != nil || !slices.Equal(names, []string{filepath.Base(earlierFile)}) {
		t.Errorf("the directory has %v, %v", names, err)
	}
}
