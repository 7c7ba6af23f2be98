package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var builtSluice = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "sluice-program-")
	if err != nil {
		return "", err
	}
	atExit(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "sluice")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-s", "-o", path, "sluice/cmd/sluice")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// Sluice returns the path of the program, named sluice, as it is installed. It is built once for
// the test binary, and Main removes it.
func Sluice(t testing.TB) (path string) {
	t.Helper()
	path, err := builtSluice()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
