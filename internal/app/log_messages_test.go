package app

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/telemetry"
	"sluice/internal/trouble"
)

var writeMessages = flag.Bool("write-messages", false, "write docs/log-messages.md anew")

// chosen are the lines whose message is chosen before the call, by file and expression, with how many messages they
// have. Each of these messages is in the table.
var chosen = map[string]int{
	"internal/app/outage.go: line":                4,
	"internal/deferred/runner/runner.go: message": 2,
	"internal/traces/traces.go: text":             2,
	"internal/trouble/registry.go: words":         0, // the conditions, which have a code
}

// outside are the messages of packages that other programs import. They are no lines of a node.
var outside = regexp.MustCompile(`^api/client/`)

// Every message of the code is in the table of events once, and every event is in the code.
func TestMessages_HaveEvents(t *testing.T) {
	logged, others := messages(t)
	known, ids := map[string]bool{}, map[string]bool{}
	for _, e := range telemetry.Events() {
		if known[e.Message] || ids[e.ID] || !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(e.ID) ||
			e.Meaning != "" && !strings.HasSuffix(e.Meaning, ".") {
			t.Errorf("%q: the message or its ID %q is there twice, or is none", e.Message, e.ID)
		}
		known[e.Message], ids[e.ID] = true, true
	}
	for _, c := range trouble.Declared() {
		if ids[c.Code] || ids[c.Code+"_ended"] {
			t.Errorf("the condition %s has the ID of an event", c.Code)
		}
	}
	for message, place := range logged {
		if !known[message] {
			t.Errorf("%s logs %q: add it to internal/telemetry/events.go with what it means", place, message)
		}
	}
	want := 0
	for _, place := range others {
		n, ok := chosen[place]
		if !ok {
			t.Errorf("%s: write the message where it is logged, or add it to chosen", place)
		}
		want += n
	}
	for message := range known {
		if logged[message] == "" {
			want--
		}
	}
	if want != 0 {
		t.Errorf("%d messages of the table are logged nowhere, or chosen counts too many", -want)
	}
}

// messages are the messages that are logged, with a place of each, and the places of those that are chosen before.
func messages(t *testing.T) (logged map[string]string, others []string) {
	t.Helper()
	logged = map[string]string{}
	files := token.NewFileSet()
	for _, root := range []string{"api", "cmd", "internal", "limiter", "rules", "web"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil || outside.MatchString(name) {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				message, ok := logCall(n)
				if !ok {
					return true
				}
				if text, ok := literal(message); ok {
					logged[text] = name
				} else if id, ok := message.(*ast.Ident); ok {
					others = append(others, name+": "+id.Name)
				} else {
					t.Errorf("%s: the message of a line is no text", name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(others)
	return logged, slices.Compact(others)
}

// logCall is the message of a call that logs a line: one on a variable named like a logger, or one of level debug,
// info or warn with a constant text on any variable.
func logCall(n ast.Node) (ast.Expr, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil, false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	at, ok := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1,
		"WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2}[f.Sel.Name]
	if !ok || len(call.Args) <= at {
		return nil, false
	}
	_, constant := literal(call.Args[at])
	named := regexp.MustCompile(`(?i)log(ger)?$`).MatchString(lastName(f.X))
	if !named && (!constant || !slices.Contains([]string{"Debug", "Info", "Warn"}, f.Sel.Name)) {
		return nil, false
	}
	return call.Args[at], true
}

// lastName is the last name of an expression: Log of host.Log.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.CallExpr:
		return lastName(x.Fun)
	}
	return ""
}

// literal is the text of constants that are added.
func literal(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := literal(x.X)
		right, ok2 := literal(x.Y)
		return left + right, ok && ok2
	}
	return "", false
}

func TestMessages_DocsAreWrittenFromTheTables(t *testing.T) {
	const path = "../../docs/log-messages.md"
	want := messagesPage()
	if *writeMessages {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everyone
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run go test ./internal/app -run TestMessages_Docs -write-messages", path)
	}
}

// messagesPage is docs/log-messages.md. ' stands for a backquote in its head.
func messagesPage() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(`<!-- Written from internal/telemetry/events.go and the conditions of package trouble by
go test ./internal/app -run TestMessages_Docs -write-messages -->
# Log messages

This page lists the log lines of a node, their meaning, and what to do. Search this page for the value of the attribute
'event'. The event stays the same when the words of a message change. With 'SLUICE_LOG_FORMAT=json' it is a member of
each line.

## Conditions

A condition has a line when it begins and one when it ends. The event of the second line ends in '_ended'. The metric
'sluice_trouble' and '/readyz' have the same codes.

| event | begins | ends | what to do |
|---|---|---|---|
`, "'", "`"))
	conditions := trouble.Declared()
	slices.SortFunc(conditions, func(a, b *trouble.Condition) int { return strings.Compare(a.Code, b.Code) })
	for _, c := range conditions {
		if c.Starts != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Code, c.Starts, c.Ends, sentence(c.Advice))
		}
	}
	b.WriteString("\n## Other lines\n\n| event | message | meaning, and what to do |\n|---|---|---|\n")
	events := slices.Clone(telemetry.Events())
	slices.SortFunc(events, func(a, b telemetry.Event) int { return strings.Compare(a.ID, b.ID) })
	for _, e := range events {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.ID, e.Message, e.Meaning)
	}
	b.WriteString("\nNext: [playbook.md](playbook.md) for alerts, [faq.md](faq.md) for symptoms.\n")
	return b.String()
}

// sentence is a clause as a sentence.
func sentence(s string) string {
	if s == "" {
		return "See the attributes of the line."
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
