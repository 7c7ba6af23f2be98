package generators

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/go-faster/errors"
	_ "github.com/go-faster/jx"
	_ "github.com/oapi-codegen/runtime"
	_ "github.com/oapi-codegen/runtime/types"
	_ "github.com/ogen-go/ogen/conv"
	"go.yaml.in/yaml/v3"
)

// The blank imports are what generated code imports, so that go.mod keeps them.

const document = "../../openapi.yaml"

// run runs a command to its end and returns what it printed. An error of the command fails the test.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// serve starts a server without tokens and returns its address and its local token.
func serve(t *testing.T) (url, token string) {
	t.Helper()
	data := t.TempDir()
	program := filepath.Join(t.TempDir(), "sluice")
	run(t, "../..", "go", "build", "-o", program, "./cmd/sluice")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "serve", "--no-console",
		"--listen", "127.0.0.1:0", "--data-dir", data)
	cmd.Env = os.Environ()
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // the exit status of a stopped server has no meaning
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`^sluice is listening on (\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() { // the server must not wait for a reader
				}
			}()
			secret, err := os.ReadFile(filepath.Join(data, "local-token"))
			if err != nil {
				t.Fatal(err)
			}
			return m[1], strings.TrimSpace(string(secret))
		}
	}
	t.Fatalf("the server did not start:\n%s", log.String())
	return "", ""
}

// overlay lets the go command see the files of a folder as the package client below a program of testdata, so
// that nothing is written into the source tree.
func overlay(t *testing.T, generated, program string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(generated, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing was generated: %v", err)
	}
	here, err := filepath.Abs(filepath.Join("testdata", program, "client"))
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, f := range files {
		replace[filepath.Join(here, filepath.Base(f))] = f
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestGenerated(t *testing.T) {
	url, token := serve(t)
	t.Run("oapi-codegen", func(t *testing.T) {
		generated := t.TempDir()
		run(t, ".", "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "client",
			"-o", filepath.Join(generated, "client.go"), document)
		play(t, url, token, compile(t, generated, "oapicodegen"))
	})
	t.Run("ogen", func(t *testing.T) {
		generated := t.TempDir()
		run(t, ".", "go", "tool", "ogen", "-config", "testdata/ogen/ogen.yml", "-package", "client",
			"-target", generated, withoutAnchors(t))
		play(t, url, token, compile(t, generated, "ogen"))
	})
}

// compile builds a program of testdata with the generated files of a folder as its package client.
func compile(t *testing.T, generated, name string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), name)
	run(t, ".", "go", "build", "-overlay", overlay(t, generated, name), "-o", program, "./testdata/"+name)
	return program
}

// withoutAnchors writes openapi.yaml as JSON, because ogen does not find an anchor that is outside an example.
func withoutAnchors(t *testing.T) (file string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
