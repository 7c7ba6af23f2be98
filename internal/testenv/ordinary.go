package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ordinaryDir makes a temporary directory for a server that refuses to run as root. It returns the credential to start
// the server with: nil unless we are root, and otherwise the credential of an ordinary user, who then owns the
// directory.
func ordinaryDir() (string, *syscall.Credential, error) {
	base := os.TempDir()
	if os.Geteuid() != 0 {
		dir, err := os.MkdirTemp(base, "sluice-postgres-")
		return dir, nil, err
	}
	cred, err := ordinaryUser()
	if err != nil {
		return "", nil, err
	}
	if !passable(base) {
		base = "/tmp" // an ordinary user cannot enter a private TMPDIR of root
	}
	dir, err := os.MkdirTemp(base, "sluice-postgres-")
	if err != nil {
		return "", nil, err
	}
	if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, cred, nil
}

// ordinaryUser returns an unprivileged account of this machine. It must be in
// the password file, because initdb looks itself up there.
func ordinaryUser() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("account %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("no account postgres or nobody to run Postgres as: it refuses to run as root")
}

// passable reports whether everyone may enter dir and its parents.
func passable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == "/" || dir == "." {
			return true
		}
		dir = filepath.Dir(dir)
	}
}
