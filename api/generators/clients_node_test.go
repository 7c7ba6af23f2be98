//go:build clients

package generators

import (
	"path/filepath"
	"testing"
)

func TestClientsNode(t *testing.T) {
	url, token := serve(t)
	packages, dir := pip(t), t.TempDir()
	install(t, "testdata/node/package.json", dir)
	install(t, "testdata/node/package-lock.json", dir)
	run(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	absolute, err := filepath.Abs(document)
	if err != nil {
		t.Fatal(err)
	}
	bin := func(name string) string { return filepath.Join(dir, "node_modules", ".bin", name) }
	generators := map[string]func(t *testing.T, out string){
		"openapi-fetch": func(t *testing.T, out string) {
			run(t, dir, bin("openapi-typescript"), absolute, "-o", filepath.Join(out, "schema.d.ts"))
		},
		"hey-api": func(t *testing.T, out string) {
			run(t, dir, bin("openapi-ts"), "-i", absolute, "-o", out, "-c", "@hey-api/client-fetch")
		},
		"typescript-fetch": func(t *testing.T, out string) {
			openapiGenerator(t, packages, "typescript-fetch", out)
		},
		"typescript-axios": func(t *testing.T, out string) {
			openapiGenerator(t, packages, "typescript-axios", out)
		},
	}
	for name, generate := range generators {
		t.Run(name, func(t *testing.T) {
			generate(t, filepath.Join(dir, "generated", name))
			program := install(t, filepath.Join("testdata/node", name+".ts"), dir)
			run(t, dir, bin("tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck",
				"--outDir", "built", program)
			play(t, url, token, "node", filepath.Join(dir, "built", name+".js"))
		})
	}
}
