//go:build clients

package generators

import (
	"os"
	"path/filepath"
	"testing"
)

func TestClientsJava(t *testing.T) {
	url, token := serve(t)
	packages := pip(t)
	for library, options := range map[string][]string{
		"native": nil,
		// Without it the client refuses an answer with a new member.
		"okhttp-gson": {"--additional-properties=disallowAdditionalPropertiesIfNotPresent=false"},
	} {
		t.Run("openapi-generator java "+library, func(t *testing.T) {
			dir := t.TempDir()
			openapiGenerator(t, packages, "java", dir, append([]string{"--library", library}, options...)...)
			install(t, "testdata/java/Journey.java", filepath.Join(dir, "src/main/java"))
			install(t, filepath.Join("testdata/java", library, "Client.java"), filepath.Join(dir, "src/main/java"))
			run(t, dir, "mvn", "--batch-mode", "--quiet", "compile",
				"dependency:build-classpath", "-Dmdep.outputFile=classpath")
			classpath, err := os.ReadFile(filepath.Join(dir, "classpath"))
			if err != nil {
				t.Fatal(err)
			}
			play(t, url, token, "java", "-cp", filepath.Join(dir, "target/classes")+":"+string(classpath), "Journey")
		})
	}
}

// There is no journey in C#, because Debian has no SDK that compiles it.
func TestClientsCSharp(t *testing.T) {
	dir := t.TempDir()
	openapiGenerator(t, pip(t), "csharp", dir)
	if _, err := os.Stat(filepath.Join(dir, "src/Org.OpenAPITools/Model/RulePatch.cs")); err != nil {
		t.Error(err)
	}
}
