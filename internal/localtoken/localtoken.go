// Package localtoken keeps the file local-token in a data directory. It contains the secret that sluice serve accepts
// for one run while no API token exists.
//
// A server with --data-dir ./sluice-data creates slk_Jx0… at its start and writes it, with a line break, to
// ./sluice-data/local-token with mode 0600. Commands of the same user read it there. The server removes the file when
// the first token is created, and when it stops.
package localtoken

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"sluice/internal/access"
	"sluice/internal/atomicfile"
)

// maxSize is more than the file of a server has, in bytes.
const maxSize = 256

// Path is the path of the file in a data directory.
func Path(dir string) string { return filepath.Join(dir, "local-token") }

// Write replaces the file by one with this secret, and creates dir with mode 0700 if it does not exist. A symbolic link
// in its place is replaced, not followed.
func Write(dir, secret string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(Path(dir), func(f *os.File) error {
		_, err := f.WriteString(secret + "\n")
		return err
	})
}

// Read returns the secret in the file. It returns an error unless it is a regular file of this user with mode 0600 and
// the form of a secret, so that nobody else has read or written it. Without a file, the error is fs.ErrNotExist. Errors
// contain no part of the content.
func Read(dir string) (string, error) {
	path := Path(dir)
	// O_NONBLOCK: a pipe must not block. O_NOFOLLOW: a link may lead to the file of somebody else.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", fmt.Errorf("%s is a symbolic link", path)
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case !ok || int64(owner.Uid) != int64(os.Geteuid()):
		return "", fmt.Errorf("%s belongs to another user", path)
	case info.Mode().Perm() != 0o600:
		return "", fmt.Errorf("%s has mode %04o, not 0600", path, info.Mode().Perm())
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(string(content), "\n")
	if !access.LooksLikeSecret(secret) {
		return "", fmt.Errorf("%s does not contain a token", path)
	}
	return secret, nil
}

// Remove removes the file if it contains this secret. Otherwise the file belongs to another server, and stays.
func Remove(dir, secret string) error {
	switch found, err := Read(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case found != secret:
		return nil
	}
	return Discard(dir)
}

// Discard removes the file, whatever it contains. Without a file it does nothing.
func Discard(dir string) error {
	if err := os.Remove(Path(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Missing reports whether nothing exists at the path of the file: no file, no link, and nothing else.
func Missing(dir string) bool {
	_, err := os.Lstat(Path(dir))
	return errors.Is(err, fs.ErrNotExist)
}
