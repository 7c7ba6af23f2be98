package records

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// filesOf opens the log of a directory with a clock that the test sets.
func filesOf(t *testing.T, dir string, most int64, now *time.Time) (*FileSink, *Account) {
	t.Helper()
	a := &Account{}
	s, err := OpenFiles(FileOptions{Dir: dir, MaxBytes: most, Account: a, Now: func() time.Time { return *now },
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// readFiles returns the lines of all files of a directory, oldest first.
func readFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := earlier(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range append(names, currentFile) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && strings.HasSuffix(name, gzipEnd) {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
				b, err = io.ReadAll(z)
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, b...)
	}
	return strings.Split(strings.TrimSuffix(string(all), "\n"), "\n")
}

// batchOf is a batch of n lines of 100 bytes, numbered from from.
func batchOf(from, n int) Batch {
	var b Batch
	for i := range n {
		b.Lines = append(b.Lines, fmt.Appendf(nil, "%099d\n", from+i))
		b.Keys = append(b.Keys, "k")
	}
	return b
}

func size(t *testing.T, dir string) (bytes int64, files int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes, len(entries)
}

func TestFiles_AreRotatedCompressedAndRemovedBySize(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "decisions"), time.UnixMilli(epoch)
	const most = 1 << 20
	s, a := filesOf(t, dir, most, &now)
	const batches, each = 300, 500
	for i := range batches { // 15 MB, of which the digits compress to a few bytes
		now = now.Add(time.Second)
		s.Write(batchOf(i*each, each))
		if bytes, _ := size(t, dir); bytes > most {
			t.Fatalf("the files have %d bytes", bytes)
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := a.Totals(); got.Delivered != batches*each {
		t.Errorf("the account says %+v", got)
	}
	lines := readFiles(t, dir)
	last := batches*each - 1
	for i, line := range lines { // what is left is the newest, without a gap
		if want := fmt.Sprintf("%099d", last-len(lines)+1+i); line != want {
			t.Fatalf("line %d of %d is %s, want %s", i, len(lines), line, want)
		}
	}
	if _, files := size(t, dir); files < 3 {
		t.Errorf("there are %d files", files)
	}
	if info, err := os.Stat(filepath.Join(dir, currentFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is for others too: %v, %v", info.Mode(), err)
	}
}

// Also files that hardly become smaller stay within their size while they are compressed.
func TestFiles_StayWithinTheirSizeWithoutHelpOfCompression(t *testing.T) {
	dir, now := t.TempDir(), time.UnixMilli(epoch)
	const most = 1 << 20
	s, _ := filesOf(t, dir, most, &now)
	random := rand.NewChaCha8([32]byte{1})
	for range 400 { // 3 MB
		line := make([]byte, 8<<10)
		_, _ = random.Read(line) // never fails
		s.Write(Batch{Lines: [][]byte{line}, Keys: []string{""}})
		now = now.Add(time.Second)
		s.compressing.Wait() // so that there is as much as can be
		if bytes, _ := size(t, dir); bytes > most {
			t.Fatalf("the files have %d bytes", bytes)
		}
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if bytes, _ := size(t, dir); bytes < most/2 {
		t.Errorf("the files keep only %d bytes", bytes)
	}
}

func TestFiles_AreRotatedByAge(t *testing.T) {
	dir, now := t.TempDir(), time.UnixMilli(epoch)
	s, _ := filesOf(t, dir, 1<<20, &now)
	for i := range 3 {
		s.Write(batchOf(i, 1))
		now = now.Add(maxAge)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	names, err := earlier(dir)
	if err != nil || len(names) != 2 || len(readFiles(t, dir)) != 3 {
		t.Errorf("after three days: %v, %v", names, err)
	}
}

// A process that was killed leaves what stands between two steps of a rotation. The next one loses no line but a torn
// one.
func TestFiles_SurviveAKillBetweenTheStepsOfARotation(t *testing.T) {
	gz := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text)) // into memory
		_ = z.Close()
		return b.String()
	}
	const old = "decisions-20261122T000000.000000000Z"
	for step, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"a torn line": {map[string]string{currentFile: "1\n2\n3"}, []string{"1", "2", "3", "new"}},
		"renamed":     {map[string]string{old + plainEnd: "1\n2\n"}, []string{"1", "2", "new"}},
		"a new file":  {map[string]string{old + plainEnd: "1\n", currentFile: ""}, []string{"1", "new"}},
		"half compressed": {map[string]string{old + plainEnd: "1\n", old + gzipEnd + ".7.tmp": "\x1f\x8b"},
			[]string{"1", "new"}},
		"compressed":         {map[string]string{old + plainEnd: "1\n", old + gzipEnd: gz("1\n")}, []string{"1", "new"}},
		"removed":            {map[string]string{old + gzipEnd: gz("1\n")}, []string{"1", "new"}},
		"a file of somebody": {map[string]string{"notes.txt": "x", currentFile: "1\n"}, []string{"1", "new"}},
	} {
		t.Run(step, func(t *testing.T) {
			dir, now := t.TempDir(), time.UnixMilli(epoch)
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, _ := filesOf(t, dir, 1<<20, &now)
			s.Write(Batch{Lines: [][]byte{[]byte("new\n")}, Keys: []string{"k"}})
			if err := s.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if got := readFiles(t, dir); !slices.Equal(got, c.want) {
				t.Errorf("the lines are %q, want %q", got, c.want)
			}
			names, err := earlier(dir)
			if err != nil || slices.ContainsFunc(names, func(n string) bool { return !strings.HasSuffix(n, gzipEnd) }) {
				t.Errorf("left half done: %v, %v", names, err)
			}
			_, err = os.Stat(filepath.Join(dir, "notes.txt"))
			if _, foreign := c.files["notes.txt"]; foreign != (err == nil) {
				t.Error("a file of somebody else was removed")
			}
		})
	}
}

func TestFiles_DropWhatCannotBeWrittenAndGoOn(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "d"), time.UnixMilli(epoch)
	s, a := filesOf(t, dir, 1<<20, &now)
	s.Write(batchOf(0, 1))
	whole := s.file
	var err error
	if s.file, err = os.Open(filepath.Join(dir, currentFile)); err != nil { // for reading only
		t.Fatal(err)
	}
	s.Write(batchOf(1, 2))
	if err := s.file.Close(); err != nil {
		t.Fatal(err)
	}
	s.file = whole
	s.Write(batchOf(3, 1))
	if got := a.Totals(); got.Delivered != 2 || got.Dropped[Refused.String()] != 2 {
		t.Errorf("the account says %+v", got)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := readFiles(t, dir); len(got) != 2 || !strings.HasSuffix(got[1], "3") {
		t.Errorf("the lines are %q", got)
	}
}
