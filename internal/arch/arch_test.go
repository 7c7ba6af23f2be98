package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "sluice"

// listed is the output of `go list -json` for one package. It includes generated files.
type listed struct {
	ImportPath   string
	Imports      []string
	Deps         []string // direct and indirect imports
	TestImports  []string
	XTestImports []string
}

// top is the module's folder.
var top = filepath.Join("..", "..")

// listPackages returns every package of the module, as listed by the go command. It reads the
// folders first, so that the test cache knows what the result depends on.
func listPackages(t *testing.T) []listed {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != top && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a file may be deleted in the meantime
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-buildvcs=false",
		"-json=ImportPath,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = top
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// own returns the path inside this module, or ok = false for foreign packages.
func own(importPath string) (path string, ok bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// standard reports whether an import is of the standard library, whose first path element never
// has a dot.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// under reports whether importPath is prefix or is below it.
func under(importPath, prefix string) bool {
	return importPath == prefix || strings.HasPrefix(importPath, prefix+"/")
}

func anyUnder(importPath string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return under(importPath, p) })
}

// refuse returns the reason why a room must not import a package, or "".
func refuse(r room, importPath string, inTest bool) string {
	path, ours := own(importPath)
	switch {
	case !ours && standard(importPath):
		return ""
	case ours && path == r.path: // an external test imports its own package
		return ""
	case ours && (slices.Contains(r.may, path) || inTest && slices.Contains(r.inTests, path)):
		return ""
	case ours && inTest && slices.Contains(forTests, path) && !slices.Contains(upward[r.path], path):
		return ""
	case ours:
		return "the room may not import it"
	}
	for prefix, reason := range nowhere {
		if under(importPath, prefix) {
			return reason
		}
	}
	for prefix, keepers := range onlyIn {
		if under(importPath, prefix) && !slices.Contains(keepers, r.path) {
			return "only " + strings.Join(keepers, ", ") + " may import it"
		}
	}
	if inTest || anyUnder(importPath, r.foreign) {
		return ""
	}
	return "the room does not list it"
}

func TestRooms_ImportOnlyAlongTheArrows(t *testing.T) {
	byPath := make(map[string]room, len(rooms))
	for _, r := range rooms {
		byPath[r.path] = r
	}
	packages := listPackages(t)
	if len(packages) == 0 {
		t.Fatal("go list found no packages")
	}
	for _, p := range packages {
		path, _ := own(p.ImportPath)
		r, known := byPath[path]
		if !known {
			t.Errorf("package %s has no room: add it to the table in rooms_test.go", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if why := refuse(r, imported, false); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, why)
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := refuse(r, imported, true); why != "" {
				t.Errorf("a test of %s imports %s: %s", p.ImportPath, imported, why)
			}
		}
	}
}

func TestRooms_ImportNothingAboveThemIndirectly(t *testing.T) {
	held := 0
	for _, p := range listPackages(t) {
		path, _ := own(p.ImportPath)
		for _, never := range beneath[path] {
			held++
			if slices.Contains(p.Deps, never) ||
				never != module && slices.ContainsFunc(p.Deps, func(d string) bool { return under(d, never) }) {
				t.Errorf("%s imports %s, directly or indirectly", p.ImportPath, never)
			}
		}
	}
	if held == 0 {
		t.Fatal("no room was looked at")
	}
}

func TestRooms_HaveNoCycle(t *testing.T) {
	byPath := make(map[string]room, len(rooms))
	for _, r := range rooms {
		if _, twice := byPath[r.path]; twice {
			t.Errorf("room %q is listed twice", r.path)
		}
		byPath[r.path] = r
	}
	var visit func(path string, trail []string)
	visit = func(path string, trail []string) {
		if slices.Contains(trail, path) {
			t.Fatalf("a cycle: %v → %s", trail, path)
		}
		r, known := byPath[path]
		if !known {
			t.Fatalf("%v may import %q, which is no room", trail, path)
		}
		for _, next := range r.may {
			visit(next, append(slices.Clone(trail), path))
		}
	}
	for _, r := range rooms {
		visit(r.path, nil)
	}
}

// The most important arrows are stated here again, so that a wrong edit of the table fails.
func TestRefuse_HoldsTheDesignsArrows(t *testing.T) {
	tests := []struct {
		from, to string
		inTest   bool
		want     bool // refused
	}{
		{from: "cmd/sluice", to: "sluice/internal/app"},
		{from: "internal/app", to: "sluice/api"},
		{from: "internal/app", to: "sluice/web"},
		{from: "web", to: "sluice/web/people"},
		{from: "web/people", to: "sluice/web/kit"},
		{from: "api", to: "sluice/api/reply"},
		{from: "api/reply", to: "sluice/api/decide"},
		{from: "api/decide", to: "sluice/rules"},
		{from: "rules", to: "sluice/limiter"},
		{from: "rules", to: "sluice/rules/route"},
		{from: "limiter", to: "math/bits"},
		{from: "internal/database", to: "gorm.io/gorm"},
		{from: "limiter/redisstore", to: "github.com/redis/go-redis/v9"},
		{from: "limiter/memstore", to: "sluice/limiter/storetest", inTest: true},
		{from: "limiter", to: "pgregory.net/rapid", inTest: true},

		{from: "api/decide", to: "sluice/api", want: true},
		{from: "api/decide", to: "sluice/api/reply", want: true},
		{from: "api", to: "sluice/web", want: true},
		{from: "api", to: "sluice/web", inTest: true, want: true},
		{from: "web", to: "sluice/api", want: true},
		{from: "web/people", to: "sluice/web/rulepage", want: true},
		{from: "web/ruleedit", to: "sluice/web/replay", want: true},
		{from: "web/replay", to: "sluice/web/ruleedit", want: true},
		{from: "web/people", to: "sluice/web", want: true},
		{from: "web/kit", to: "sluice/web/people", want: true},
		{from: "web/view", to: "sluice/web/kit", want: true},
		{from: "internal/app", to: "sluice/web/kit", want: true},
		{from: "limiter", to: "sluice/rules", want: true},
		{from: "limiter", to: "sluice/rules", inTest: true, want: true},
		{from: "limiter", to: "github.com/redis/go-redis/v9", want: true},
		{from: "limiter/redisstore/script", to: "github.com/redis/go-redis/v9", want: true},
		{from: "rules", to: "gorm.io/gorm", want: true},
		{from: "rules/route", to: "sluice/rules", want: true},
		{from: "rules", to: "sluice/limiter/memstore", inTest: true, want: true},
		{from: "api", to: "gorm.io/gorm", inTest: true, want: true},
		{from: "api", to: "github.com/redis/go-redis/v9", want: true},
		{from: "api", to: "sluice/internal/database", want: true},
		{from: "internal/app", to: "gorm.io/gorm", want: true},
		{from: "internal/database", to: "modernc.org/sqlite", want: true},
		{from: "cmd/sluice", to: "sluice/api", want: true},
		{from: "api", to: "sluice/internal/testenv", want: true},
	}
	for _, tt := range tests {
		i := slices.IndexFunc(rooms, func(r room) bool { return r.path == tt.from })
		if i < 0 {
			t.Fatalf("no room %q", tt.from)
		}
		if why := refuse(rooms[i], tt.to, tt.inTest); (why != "") != tt.want {
			t.Errorf("%s → %s (test %v): %q, want refused = %v", tt.from, tt.to, tt.inTest, why, tt.want)
		}
	}
}
