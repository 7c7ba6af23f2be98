package records

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobodyIf is the user of asNobody.
func nobodyIf(t *testing.T) int {
	t.Helper()
	if os.Geteuid() == 0 {
		return nobody
	}
	return -1
}

const nobody = 65534

// asNobody makes this goroutine's thread use files as a user without rights, until the test ends.
func asNobody(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // the thread ends with the goroutine
	if os.Geteuid() == 0 {
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
	}
}

// In a directory that became read-only no file can be ended. The log says so once, the files keep within their size,
// and new files begin once that is possible.
func TestFiles_KeepTheirSizeInAReadOnlyDirectory(t *testing.T) {
	dir, now := t.TempDir(), time.UnixMilli(epoch)
	s, a, text := loggedFiles(t, dir, &now)
	for _, path := range []string{filepath.Dir(dir), dir, filepath.Join(dir, currentFile)} {
		if err := os.Chown(path, nobodyIf(t), -1); err != nil {
			t.Fatal(err)
		}
	}
	const most, each = 1 << 20, 100
	produced := 0
	done := make(chan struct{})
	go func() { // its thread cannot be used again
		defer close(done)
		asNobody(t)
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Error(err)
		}
		for range 2 * most / each / 100 {
			s.Write(batchOf(produced, 100))
			produced += 100
			now = now.Add(100 * time.Millisecond)
		}
	}()
	<-done
	if bytes, files := size(t, dir); bytes > most/4+each || files != 1 {
		t.Errorf("%d files have %d bytes", files, bytes)
	}
	if n := strings.Count(text.String(), "\n"); n > 2 {
		t.Errorf("%d lines in the log: %.600s", n, text)
	}
	got := a.Totals()
	if got.Delivered+got.Dropped[Refused.String()] != int64(produced) || got.Dropped[Refused.String()] == 0 {
		t.Errorf("of %d events the account says %+v", produced, got)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	s.Write(batchOf(produced, 1))
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if lines := readFiles(t, dir); int64(len(lines)) != got.Delivered+1 {
		t.Errorf("the files have %d lines, delivered are %d", len(lines), got.Delivered+1)
	}
	if names, err := earlier(dir); err != nil || len(names) != 1 {
		t.Errorf("earlier files: %v, %v", names, err)
	}
}
