package fleet

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kept is a journal whose clock a test sets.
type kept struct {
	t    *testing.T
	path string
	at   time.Time
	log  strings.Builder
	*Journal
}

func newKept(t *testing.T) *kept {
	k := &kept{t: t, path: filepath.Join(t.TempDir(), "figures"), at: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	k.open()
	t.Cleanup(func() { k.Close() })
	return k
}

// open opens the file as a process does after another was killed.
func (k *kept) open() {
	k.Journal = OpenJournal(k.path, func() time.Time { return k.at }, slog.New(slog.NewTextHandler(&k.log, nil)))
}

func (k *kept) post(table, field, value string, ttl time.Duration) {
	k.t.Helper()
	if err := k.Post(k.t.Context(), []Entry{{table, field, value, ttl}}); err != nil {
		k.t.Fatal(err)
	}
}

// has compares tables after the process was killed.
func (k *kept) has(want ...map[string]string) {
	k.t.Helper()
	k.open()
	got, err := k.Read(k.t.Context(), []string{"s:1", "m:1:r", "nodes"}[:len(want)])
	if d := cmp.Diff(want, got); d != "" || err != nil {
		k.t.Errorf("%s %v", d, err)
	}
}

func TestJournal_KeepsWhatWasPosted(t *testing.T) {
	k := newKept(t)
	k.post("s:1", "n:1", "a", time.Hour)
	k.post("s:1", "n:1", "b", 2*time.Hour)
	k.post("m:1:r", "n:2", "c\xff\n", time.Hour)
	k.post("nodes", "n", "present", time.Hour)
	k.has(map[string]string{"n:1": "b"}, map[string]string{"n:2": "c\xff\n"}, map[string]string{})
	k.post("s:1", "n:2", "d", time.Hour)
	if err := k.Forget(t.Context(), []string{"m:1:r"}); err != nil {
		t.Fatal(err)
	}
	k.has(map[string]string{"n:1": "b", "n:2": "d"}, map[string]string{})
	k.at = k.at.Add(time.Hour) // the table expires as its last entry says
	k.has(map[string]string{})
	if size(t, k.path) != int64(len(journalHead)) {
		t.Errorf("a file of what has expired has %d bytes", size(t, k.path))
	}
	if k.log.Len() > 0 {
		t.Errorf("logged: %s", k.log.String())
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestJournal_EndsAtADamagedRecord: whatever byte is damaged and wherever the file ends, what was posted before is
// there.
func TestJournal_EndsAtADamagedRecord(t *testing.T) {
	k := newKept(t)
	k.post("s:1", "n:1", "a", time.Hour)
	first := size(t, k.path)
	k.post("m:1:r", "n:2", "b", time.Hour)
	data, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]string{"n:1": "a"}
	write := func(data []byte) {
		if err := os.WriteFile(k.path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at := first; at < int64(len(data)); at++ {
		write(data[:at])
		k.has(before, map[string]string{})
		damaged := []byte(string(data))
		damaged[at] ^= 0x55
		write(damaged)
		k.has(before, map[string]string{})
	}
	write(append([]byte(string(data)), make([]byte, 100)...))
	k.has(before, map[string]string{"n:2": "b"})
	for _, other := range []string{"", "sluice", "sluice figures 1\nxxxx"} {
		write([]byte(other))
		k.has(map[string]string{})
		if !strings.Contains(k.log.String(), "not a file of figures") {
			t.Errorf("%q: nothing was logged", other)
		}
		k.log.Reset()
	}
}

func TestJournal_StaysSmall(t *testing.T) {
	k := newKept(t)
	value := strings.Repeat("x", 100_000)
	for i := range 500 {
		k.post("s:1", fmt.Sprint("n:", i%10), value, time.Hour)
		if n := size(t, k.path); n > minJournal+200_000 {
			t.Fatalf("%d bytes", n)
		}
	}
	got, err := k.Read(t.Context(), []string{"s:1"})
	if err != nil {
		t.Fatal(err)
	}
	k.has(got...)
}

// TestJournal_WorksWithoutAFile: the board goes on, says so once, and what it holds is kept when it can be written
// again.
func TestJournal_WorksWithoutAFile(t *testing.T) {
	k := newKept(t)
	k.post("s:1", "n:1", "a", time.Hour)
	k.file.Close() // writing fails from now on
	dir := filepath.Dir(k.path)
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"n:2", "n:3"} {
		k.post("s:1", field, "b", time.Hour)
		k.at = k.at.Add(retryJournal)
	}
	if err := k.Forget(t.Context(), []string{"m:1:r"}); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Read(t.Context(), []string{"s:1"}); err != nil || len(got[0]) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	k.at = k.at.Add(retryJournal)
	k.post("s:1", "n:4", "c", time.Hour)
	if n := strings.Count(k.log.String(), "level="); n != 2 || !strings.Contains(k.log.String(), "again") {
		t.Errorf("logged %d lines: %s", n, k.log.String())
	}
	k.has(map[string]string{"n:1": "a", "n:2": "b", "n:3": "b", "n:4": "c"})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k.post("s:1", "n:5", "late", time.Hour)
	k.has(map[string]string{"n:1": "a", "n:2": "b", "n:3": "b", "n:4": "c"})
}
