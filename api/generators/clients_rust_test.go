//go:build clients

package generators

import (
	"os"
	"path/filepath"
	"testing"
)

func TestClientsRust(t *testing.T) {
	url, token := serve(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/rust")); err != nil {
		t.Fatal(err)
	}
	openapiGenerator(t, pip(t), "rust", filepath.Join(dir, "client"),
		"--additional-properties=packageVersion=0.0.0") // as in Cargo.lock
	run(t, dir, "cargo", "build", "--locked", "--quiet", "--package", "journey", "--target-dir", "target")
	play(t, url, token, filepath.Join(dir, "target", "debug", "journey"))
}
