package localtoken_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/access"
	"sluice/internal/localtoken"
)

func secretOf() string {
	secret, _ := access.NewSecret()
	return secret
}

func TestWrite_TheFileIsForItsOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	secret := secretOf()
	if err := localtoken.Write(dir, secret); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{dir: 0o700, localtoken.Path(dir): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if content, err := os.ReadFile(localtoken.Path(dir)); err != nil || string(content) != secret+"\n" {
		t.Errorf("content %q, %v; want one line", content, err)
	}
	if got, err := localtoken.Read(dir); err != nil || got != secret {
		t.Errorf("read %q, %v", got, err)
	}
}

// A link that another user left must not make the server write, or a command read, what the link leads to.
func TestLinks_AreReplacedAndNotFollowed(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "other")
	before := secretOf()
	err := errors.Join(os.WriteFile(other, []byte(before), 0o600), os.Symlink(other, localtoken.Path(dir)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := localtoken.Read(dir); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link was read: %v", err)
	}
	if err := localtoken.Write(dir, secretOf()); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(other); err != nil || string(content) != before {
		t.Errorf("the target of the link has changed: %v", err)
	}
	if _, err := localtoken.Read(dir); err != nil {
		t.Error(err)
	}
}

func TestRead_OnlyWhatNobodyElseCouldReadOrWrite(t *testing.T) {
	secret := secretOf()
	for name, place := range map[string]func(path string) error{
		"readable by the group": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(secret), 0o600), os.Chmod(path, 0o640))
		},
		"writable by others": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(secret), 0o600), os.Chmod(path, 0o602))
		},
		"a folder":  func(path string) error { return os.Mkdir(path, 0o600) },
		"a pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"no secret": func(path string) error { return os.WriteFile(path, []byte("slk_x\n"), 0o600) },
		"two lines": func(path string) error { return os.WriteFile(path, []byte(secret+"\n\n"), 0o600) },
		"another user's": func(path string) error {
			err := os.WriteFile(path, []byte(secret), 0o600)
			if os.Geteuid() == 0 {
				return errors.Join(err, os.Chown(path, 65534, 65534))
			}
			return errors.Join(err, os.Chmod(path, 0o644)) // an ordinary user has no file of somebody else
		},
	} {
		dir := t.TempDir()
		if err := place(localtoken.Path(dir)); err != nil {
			t.Fatal(err)
		}
		got, err := localtoken.Read(dir)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
	if _, err := localtoken.Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

func TestRemove_LeavesTheFileOfAnotherServer(t *testing.T) {
	dir := t.TempDir()
	mine, theirs := secretOf(), secretOf()
	if err := localtoken.Write(dir, theirs); err != nil {
		t.Fatal(err)
	}
	if err := localtoken.Remove(dir, mine); err != nil || localtoken.Missing(dir) {
		t.Errorf("%v, missing %v; want the file of the other server", err, localtoken.Missing(dir))
	}
	if err := localtoken.Remove(dir, theirs); err != nil || !localtoken.Missing(dir) {
		t.Errorf("%v, missing %v; want no file", err, localtoken.Missing(dir))
	}
	if err := errors.Join(localtoken.Remove(dir, mine), localtoken.Discard(dir)); err != nil {
		t.Errorf("without a file: %v", err)
	}
}
