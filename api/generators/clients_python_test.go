//go:build clients

package generators

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pip installs what testdata/python/requirements.txt names and returns its folder, which is also where a program
// finds it.
func pip(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, ".", "python3", "-m", "pip", "install", "--quiet", "--target", dir, "-r", "testdata/python/requirements.txt")
	return dir
}

// openapiGenerator generates a client with openapi-generator, which the packages of pip have.
func openapiGenerator(t *testing.T, packages, generator, out string, options ...string) {
	t.Helper()
	args := append([]string{"-jar", filepath.Join(packages, "openapi_generator_cli", "openapi-generator.jar"),
		"generate", "-i", document, "-g", generator, "-o", out,
		"--global-property=apiDocs=false,modelDocs=false,apiTests=false,modelTests=false"}, options...)
	run(t, ".", "java", args...)
}

// install copies a file into a folder.
func install(t *testing.T, file, dir string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

func TestClientsPython(t *testing.T) {
	url, token := serve(t)
	t.Run("openapi-generator python", func(t *testing.T) {
		dir := pip(t)
		openapiGenerator(t, dir, "python", dir, "--additional-properties=packageName=sluice_client")
		play(t, url, token, "python3", install(t, "testdata/python/openapi_generator.py", dir))
	})
	t.Run("openapi-python-client", func(t *testing.T) {
		dir := pip(t)
		absolute, err := filepath.Abs(document)
		if err != nil {
			t.Fatal(err)
		}
		log := run(t, dir, "python3", "-m", "openapi_python_client", "generate", "--path", absolute, "--meta", "none",
			"--output-path", filepath.Join(dir, "sluice_client"))
		if strings.Contains(log, "Unable to process schema") {
			t.Errorf("a model is missing:\n%s", log)
		}
		play(t, url, token, "python3", install(t, "testdata/python/openapi_python_client.py", dir))
	})
}
