//go:build road

package main

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

// top is the module's folder.
var top = filepath.Join("..", "..")

func TestMain(m *testing.M) { testenv.Main(m) }

// function is a declared function of the module. What its literals do counts as its own.
type function struct{ file, name string }

// TestRoad prints the files and functions of the module with a statement that one check
// under one rule runs on a node on Redis, and wants docs/architecture.md to name each of
// the files in full where it follows a check.
//
// A function is on the road if every sample of main.go has it. What only some have is of
// a goroutine that ran beside the check, as the reload loop does, and is listed apart.
func TestRoad(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "node")
	output(t, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", program, "./internal/road")
	counters := filepath.Join(folder, "counters")
	if err := os.Mkdir(counters, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDIS_URL", testenv.Redis(t).URL())
	t.Setenv("GOCOVERDIR", t.TempDir()) // of the whole life, which nobody reads
	output(t, program, counters)

	meta, err := filepath.Glob(filepath.Join(counters, "covmeta.*"))
	if err != nil || len(meta) != 1 {
		t.Fatalf("meta-data: %v %v", meta, err)
	}
	seen := map[function]int{}
	var source declarations
	for i := range samples {
		dir := filepath.Join(counters, fmt.Sprintf("sample-%d", i))
		if err := os.Link(meta[0], filepath.Join(dir, filepath.Base(meta[0]))); err != nil {
			t.Fatal(err)
		}
		profile := filepath.Join(dir, "profile")
		output(t, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile)
		for f := range source.covered(t, profile) {
			seen[f]++
		}
	}
	road, beside := map[string][]string{}, []string(nil)
	functions := 0
	for f, times := range seen {
		if times < samples {
			beside = append(beside, fmt.Sprintf("%s %s (%d of %d)", f.file, f.name, times, samples))
			continue
		}
		road[f.file] = append(road[f.file], f.name)
		functions++
	}
	page, err := os.ReadFile(filepath.Join(top, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, path, found := strings.Cut(string(page), "## The path of a check\n")
	if !found {
		t.Fatal("docs/architecture.md has no section The path of a check")
	}
	path, _, _ = strings.Cut(path, "\n## ")
	fmt.Println("On the road of one check:")
	for _, file := range slices.Sorted(maps.Keys(road)) {
		slices.Sort(road[file])
		fmt.Printf("  %-40s %2d  %s\n", file, len(road[file]), strings.Join(road[file], " "))
		if !strings.Contains(path, "`"+file+"`") {
			t.Errorf("docs/architecture.md does not name %s in The path of a check", file)
		}
	}
	if slices.Sort(beside); len(beside) > 0 {
		fmt.Println("Ran beside it in some samples, and does not count:")
		fmt.Println("  " + strings.Join(beside, "\n  "))
	}
	fmt.Printf("The road: %d files, %d functions\n", len(road), functions)
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

// declarations are the functions of the files that were asked about.
type declarations struct {
	files token.FileSet
	of    map[string][]*ast.FuncDecl
}

// block is a line of a profile: file, from line.column to line.column, statements, count.
var block = regexp.MustCompile(`^sluice/(\S+):(\d+)\.(\d+),\d+\.\d+ (\d+) (\d+)$`)

// covered gives the functions with a statement that ran.
func (ds *declarations) covered(t *testing.T, profile string) map[function]bool {
	t.Helper()
	f, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[function]bool{}
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
		out[function{file: m[1], name: ds.at(t, m[1], line, column)}] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// at names the function that a place in a file belongs to.
func (ds *declarations) at(t *testing.T, file string, line, column int) string {
	t.Helper()
	if ds.of == nil {
		ds.of = map[string][]*ast.FuncDecl{}
	}
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
			return receiver(fn) + fn.Name.Name
		}
	}
	return fmt.Sprintf("a literal in line %d", line)
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
