//go:build road

package road

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// The road must not become longer than this. Lower a number when it becomes shorter.
const (
	maxFiles     = 69
	maxFunctions = 270
	maxLines     = 120 // of one function
)

// top is the module's folder.
var top = filepath.Join("..", "..")

func TestMain(m *testing.M) { testenv.Main(m) }

// TestRoad prints the files and functions of the module with a statement that every sample of node/main.go ran. A
// function includes its literals. It fails if the road is longer than the bounds above, or if docs/architecture.md does
// not name one of the files in full where it follows a check.
func TestRoad(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "node")
	// Without optimisation and symbols, the build takes half as long.
	output(t, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-gcflags=sluice/...=-N -l -dwarf=false",
		"-ldflags=-s -w", "-o", program, "./internal/road/node")
	counters := filepath.Join(folder, "counters")
	inAll := filepath.Join(folder, "in-all")
	for _, dir := range []string{counters, inAll} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("REDIS_URL", testenv.Redis(t).URL())
	t.Setenv("GOCOVERDIR", t.TempDir()) // of the whole life, which nobody reads
	output(t, program, counters)

	samples, err := filepath.Glob(filepath.Join(counters, "sample-*"))
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	profile := filepath.Join(folder, "profile")
	output(t, "go", "tool", "covdata", "intersect", "-i="+strings.Join(samples, ","), "-o="+inAll)
	output(t, "go", "tool", "covdata", "textfmt", "-i="+inAll, "-o="+profile)
	road := covered(t, profile)

	if road["api/check_all.go"] == nil || road["internal/app/server.go"] != nil {
		t.Error("the checks were not answered as plain checks")
	}
	if road["limiter/redisstore/store.go"] == nil {
		t.Error("the checks were not decided on Redis")
	}
	path := pathOfCheck(t)
	functions := 0
	fmt.Println("On the road of one check:")
	for _, file := range slices.Sorted(maps.Keys(road)) {
		names := slices.Sorted(maps.Keys(road[file]))
		functions += len(names)
		fmt.Printf("  %-40s %2d  %s\n", file, len(names), strings.Join(names, " "))
		if !strings.Contains(path, "`"+file+"`") {
			t.Errorf("docs/architecture.md does not name %s in The path of a check", file)
		}
		for name, lines := range road[file] {
			if lines > maxLines {
				t.Errorf("%s in %s has %d lines, more than %d", name, file, lines, maxLines)
			}
		}
	}
	fmt.Printf("The road: %d files, %d functions\n", len(road), functions)
	if len(road) > maxFiles || functions > maxFunctions {
		t.Errorf("one check runs through %d files and %d functions, more than %d and %d: shorten it",
			len(road), functions, maxFiles, maxFunctions)
	}
}

// pathOfCheck reads the section of docs/architecture.md that follows a check.
func pathOfCheck(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(top, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, path, found := strings.Cut(string(page), "## The path of a check\n")
	if !found {
		t.Fatal("docs/architecture.md has no section The path of a check")
	}
	path, _, _ = strings.Cut(path, "\n## ")
	return path
}

// output runs a program in the module's folder.
func output(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// block is a line of a profile: file, from line.column to line.column, statements, count.
var block = regexp.MustCompile(`^sluice/(\S+):(\d+)\.(\d+),\d+\.\d+ (\d+) (\d+)$`)

// covered returns the functions with a statement that ran, by file, and how many lines each has.
func covered(t *testing.T, profile string) map[string]map[string]int {
	t.Helper()
	f, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	road := map[string]map[string]int{}
	declared := declarations{of: map[string][]*ast.FuncDecl{}}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := block.FindStringSubmatch(lines.Text())
		if len(m) == 0 || m[5] == "0" || m[4] == "0" || strings.HasPrefix(m[1], "internal/road/") {
			continue
		}
		var line, column int
		if _, err := fmt.Sscan(m[2]+" "+m[3], &line, &column); err != nil {
			t.Fatal(err)
		}
		if road[m[1]] == nil {
			road[m[1]] = map[string]int{}
		}
		name, long := declared.at(t, m[1], line, column)
		road[m[1]][name] = long
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return road
}

// declarations are the functions of the files that were asked about.
type declarations struct {
	files token.FileSet
	of    map[string][]*ast.FuncDecl
}

// at names the function that a place in a file belongs to, and says how many lines it has.
func (ds *declarations) at(t *testing.T, file string, line, column int) (name string, lines int) {
	t.Helper()
	if ds.of[file] == nil {
		tree, err := parser.ParseFile(&ds.files, filepath.Join(top, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				ds.of[file] = append(ds.of[file], fn)
			}
		}
	}
	for _, fn := range ds.of[file] {
		from, to := ds.files.Position(fn.Pos()), ds.files.Position(fn.End())
		after := cmp.Or(cmp.Compare(line, from.Line), cmp.Compare(column, from.Column)) >= 0
		if before := cmp.Or(cmp.Compare(line, to.Line), cmp.Compare(column, to.Column)) <= 0; after && before {
			return receiver(fn) + fn.Name.Name, to.Line - from.Line + 1
		}
	}
	return fmt.Sprintf("a literal in line %d", line), 0
}

// receiver is the type of a method and a dot, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	if name, ok := typ.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
