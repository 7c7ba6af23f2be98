package web_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/webtest"
)

// ownNumbers are the files that write numbers themselves, because no person reads those.
var ownNumbers = map[string]string{
	"view/axis.go":          "places of ticks in drawings",
	"view/bands.go":         "places and widths of bands in drawings",
	"view/chart.go":         "coordinates of drawings",
	"view/marks.go":         "a position in the style of a mark",
	"traffic/csv.go":        "a file for programs",
	"kit/kit.go":            "a panic in the server's log",
	"rulepage/overrides.go": "values of form fields",
}

var (
	// numberVerb finds verbs of fmt that write numbers. %v can be one.
	numberVerb = regexp.MustCompile(`(?:^|[^%])(?:%%)*%[-+#0]*(?:\[\d\])?\d*(?:\.\d+)?[dfgev]`)
	// unit finds a unit at the beginning of a text that is added to a number.
	unit = regexp.MustCompile(`^(?: ?%| ?ms| s| min| h|/s)(?:[ ,.;:)].*)?$`)
)

// TestNumbers_AreWrittenByTheFunctionsOfQuantityOnly: pages, and the templates that they are generated from, write
// numbers with the functions of package view, which are those of rules/quantity.
func TestNumbers_AreWrittenByTheFunctionsOfQuantityOnly(t *testing.T) {
	spared := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"webtest", "browsertest", "gallery"}, path):
			return fs.SkipDir // they write no page
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			what := ownNumber(n)
			switch {
			case what == "":
			case ownNumbers[filepath.ToSlash(path)] != "":
				spared[filepath.ToSlash(path)] = true
			default:
				t.Errorf("%s writes a number with %s: use Count, PercentOf, Length, Digits or another function of web/view",
					files.Position(n.Pos()), what)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, why := range ownNumbers {
		if !spared[path] {
			t.Errorf("%s writes no number itself any more: remove its exception (%s)", path, why)
		}
	}
}

func TestNumbers_ReadTheSameOnEveryPage(t *testing.T) {
	w := world(t, webtest.Full)
	w.Fleet.Change(func(l *history.Live) { l.Nodes[0].Rules = 10_000 })
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/nodes"); !page.Has(">10,000<") || page.Has(">10000<") {
		t.Error("the page of nodes writes the rules of a node without commas")
	}
	if page := b.Get("/console/rules/1/edit"); !page.Has(`<option value="minute" selected>min</option>`) ||
		page.Has("minutes</option>") {
		t.Error("the editor says per 1 minutes")
	}
}

// ownNumber says how a node writes a number, "" if it writes none.
func ownNumber(n ast.Node) string {
	switch n := n.(type) {
	case *ast.BinaryExpr: // a number with a unit
		if lit, ok := n.Y.(*ast.BasicLit); ok && n.Op == token.ADD && unit.MatchString(text(lit)) {
			return "a unit of its own: " + lit.Value
		}
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		of, _ := called.X.(*ast.Ident)
		name := called.Sel.Name
		switch {
		case of != nil && of.Name == "strconv" && slices.Contains([]string{"Itoa", "FormatInt", "FormatUint",
			"FormatFloat", "AppendInt", "AppendUint", "AppendFloat"}, name):
			return "strconv." + name
		case of != nil && of.Name == "fmt" && slices.Contains([]string{"Sprint", "Sprintln", "Fprint", "Fprintln",
			"Append", "Appendln"}, name):
			return "fmt." + name
		case name == "WriteString": // the text of a page
			return ""
		}
		for _, arg := range n.Args {
			if format := joined(arg); numberVerb.MatchString(format) {
				return name + " and a verb of fmt: " + format
			}
		}
	}
	return ""
}

// joined is a text that is written in parts, "" for what is no literal.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return text(e)
	case *ast.BinaryExpr:
		return joined(e.X) + joined(e.Y)
	}
	return ""
}

// text is the value of a string literal, "" for others.
func text(lit *ast.BasicLit) string {
	s, err := strconv.Unquote(lit.Value)
	if lit.Kind != token.STRING || err != nil {
		return ""
	}
	return s
}

// TestOwnNumber_FindsEachWay holds the test above to account.
func TestOwnNumber_FindsEachWay(t *testing.T) {
	for expression, want := range map[string]bool{
		`strconv.Itoa(n)`: true, `strconv.FormatFloat(f, 'f', 1, 64)`: true, `fmt.Sprint(n)`: true,
		`fmt.Sprintf("%d rules", n)`: true, `fmt.Sprintf("%.1f%%", f)`: true, `v.Flash("%[1]d of %s", n, s)`: true,
		`fmt.Sprintf("%s: "+"%d", s, n)`: true,
		`view.Count(n) + " ms"`:          true, `number(n) + "%"`: true, `number(n) + "% of all"`: true,
		`number(n) + " s."`:                      true,
		`fmt.Sprintf("%s rules", view.Count(n))`: false, `name + "%20d"`: false, `view.Count(n) + " minutes"`: false,
		`fmt.Sprintf("100%% of %q", name)`: false, `strconv.FormatBool(b)`: false, `view.Length(d) + ", "`: false,
	} {
		e, err := parser.ParseExpr(expression)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		ast.Inspect(e, func(n ast.Node) bool { got = got || n != nil && ownNumber(n) != ""; return true })
		if got != want {
			t.Errorf("%s: found %v, want %v", expression, got, want)
		}
	}
}
