package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/atomicfile"
)

// text writes s and then fails with err, if that is not nil.
func text(s string, err error) func(*os.File) error {
	return func(f *os.File) error {
		_, wrote := f.WriteString(s)
		return errors.Join(wrote, err)
	}
}

func TestWrite_TheFileAppearsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	full := errors.New("the disk is full")
	for _, c := range []struct {
		content string
		err     error
		want    string
	}{{"first", nil, "first"}, {"second", nil, "second"}, {"half", full, "second"}} {
		if err := atomicfile.Write(path, text(c.content, c.err)); !errors.Is(err, c.err) {
			t.Errorf("write %q: %v, want %v", c.content, err, c.err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.want {
			t.Errorf("after %q the file says %q, %v", c.content, got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := filepath.Glob(atomicfile.Pattern(path))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWrite_WhereNoFileCanBe(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "taken"), text("x", nil)); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := atomicfile.Write(filepath.Join(dir, "missing", "file"), text("x", nil)); err == nil {
		t.Error("wrote into a folder that is not there")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}
