package secretfile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/secretfile"
)

// fixture is an open file with a clock and a log.
type fixture struct {
	path string
	now  time.Time
	log  bytes.Buffer
	file *secretfile.File
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) options() secretfile.Options {
	return secretfile.Options{Setting: "--x-file (X_FILE)", Path: f.path, Log: slog.New(slog.NewTextHandler(&f.log, nil)),
		Now: func() time.Time { return f.now }}
}

func open(t *testing.T, content string, change func(*secretfile.Options)) *fixture {
	t.Helper()
	f := &fixture{path: filepath.Join(t.TempDir(), "secret"), now: time.Unix(1_700_000_000, 0)}
	write(t, f.path, content)
	opt := f.options()
	if change != nil {
		change(&opt)
	}
	var err error
	if f.file, err = secretfile.Open(opt); err != nil {
		t.Fatal(err)
	}
	return f
}

// later returns the value a second later.
func (f *fixture) later() string {
	f.now = f.now.Add(time.Second)
	return f.file.Value()
}

func TestOpen_TheValueIsTheContentWithoutOneLineBreak(t *testing.T) {
	for content, want := range map[string]string{
		"hunter2": "hunter2", "hunter2\n": "hunter2", "hunter2\r\n": "hunter2", " with blanks ": " with blanks ",
		"größe\n": "größe", strings.Repeat("x", 64<<10): strings.Repeat("x", 64<<10),
	} {
		if got := open(t, content, nil).file.Value(); got != want {
			t.Errorf("%.20q: %.20q, want %.20q", content, got, want)
		}
	}
}

func TestOpen_NamesTheFileAndShowsNothingOfIt(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"empty":         {"", "is empty"},
		"a line break":  {"\n", "is empty"},
		"two of them":   {"hunter2\n\n", "line break"},
		"two lines":     {"hunter2\nhunter3", "line break"},
		"a return":      {"hunter2\r", "line break"},
		"NUL":           {"hunter2\x00", "NUL"},
		"two-byte text": {"h\x00u\x00n\x00", "NUL"},
		"too large":     {strings.Repeat("hunter2x", 8<<10) + "\n", "larger than 64 KiB"},
		"refused":       {"hunter2 is refused", "must not be refused"},
	} {
		f := &fixture{path: filepath.Join(t.TempDir(), "secret")}
		write(t, f.path, c.content)
		opt := f.options()
		opt.Check = func(_, value string) error {
			if strings.Contains(value, "refused") {
				return errors.New("must not be refused")
			}
			return nil
		}
		_, err := secretfile.Open(opt)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--x-file (X_FILE): ") ||
			!strings.Contains(err.Error(), f.path) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpen_RefusesWhatIsNotAFile(t *testing.T) {
	f := &fixture{path: filepath.Join(t.TempDir(), "missing")}
	if _, err := secretfile.Open(f.options()); err == nil || !strings.Contains(err.Error(), "does not exist; create it") {
		t.Errorf("missing: %v", err)
	}
	f.path = t.TempDir()
	if _, err := secretfile.Open(f.options()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

func TestValue_FollowsAReplacedSymbolicLink(t *testing.T) {
	f := open(t, "zero", nil)
	dir := filepath.Dir(f.path)
	for _, name := range []string{"first", "second"} { // as Kubernetes does
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "secret"), name)
		next := filepath.Join(dir, "next")
		err := errors.Join(os.Symlink(filepath.Join(name, "secret"), next), os.Rename(next, f.path))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.later(); got != name {
			t.Errorf("got %q, want %q", got, name)
		}
	}
}

func TestValue_IsReadAgainAfterASecond(t *testing.T) {
	f := open(t, "old", nil)
	write(t, f.path, "new")
	f.now = f.now.Add(time.Second - 1)
	if got := f.file.Value(); got != "old" {
		t.Errorf("within a second: %q", got)
	}
	f.now = f.now.Add(1)
	if got := f.file.Value(); got != "new" {
		t.Errorf("after a second: %q", got)
	}
	write(t, f.path, "newer")
	f.now = f.now.Add(-time.Hour) // the clock was set back
	if got := f.file.Value(); got != "newer" {
		t.Errorf("after the clock was set back: %q", got)
	}
}

func TestValue_KeepsTheLastUsableOneAndSaysSoOnce(t *testing.T) {
	f := open(t, "old", func(opt *secretfile.Options) {
		opt.Check = func(inForce, value string) error {
			if inForce != "" && value == "hunter2" {
				return errors.New("differs from " + inForce[:1])
			}
			return nil
		}
	})
	lines := func() int { return strings.Count(f.log.String(), "\n") }
	step := func(what, value string, failing bool, logged int) {
		t.Helper()
		before := lines()
		for range 3 {
			if got := f.later(); got != value || f.file.Failing() != failing {
				t.Errorf("%s: %q, failing %v", what, got, f.file.Failing())
			}
		}
		if got := lines() - before; got != logged {
			t.Errorf("%s: %d lines in the log, want %d", what, got, logged)
		}
	}
	step("unchanged", "old", false, 0)
	write(t, f.path, "")
	step("empty", "old", true, 1)
	write(t, f.path, "hunter2")
	step("refused", "old", true, 1)
	write(t, f.path, "old\n")
	step("as before", "old", false, 1)
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	step("removed", "old", true, 1)
	write(t, f.path, "new")
	step("created", "new", false, 1)
	if strings.Contains(f.log.String(), "hunter2") || !strings.Contains(f.log.String(), f.path) {
		t.Errorf("the log: %s", f.log.String())
	}
}

func TestValue_MayBeAskedForConcurrently(t *testing.T) {
	f := open(t, "old", func(opt *secretfile.Options) { opt.Now = time.Now })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if f.file.Value() == "" || f.file.Failing() {
					t.Error("no value")
				}
			}
		})
	}
	wg.Wait()
}
