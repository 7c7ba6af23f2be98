package arch

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// turn is a turn of phrase that a reader has to read twice. A line has it if find matches and what follows the match
// has the form of then, if that is set, and not of unless.
type turn struct{ find, unless, then *regexp.Regexp }

// turns are the commonest ones of the first versions of these texts. CONTRIBUTING.md says how to write. The turns are a
// lower bound: a text without them can still be unclear.
var turns = []turn{
	{find: regexp.MustCompile(`\b(is|are|was|were|be|been|being) told\b|\btells? (the|it|them|other|others|each|nodes|of|` +
		`checks|what)\b|\btelling\b|\bhears? (of|from)\b|\bheard (of|from)\b|\bto be told\b|\bnews\b|\bspoken of\b|` +
		`\buntold\b|\bnudge`)},
	{find: regexp.MustCompile(`\b(is|are|was|were|be|been|while .{0,20}) away\b|\b(is|are|was) back\b|\bcame back\b`)},
	{find: regexp.MustCompile(`(?:^|[.:;(,] |\b(?:of|and|by|with|says|for|than|to|on|in|from|as) )[Ww]hat `),
		unless: regexp.MustCompile(`^(to do|you need|is an?\b|happens?\b|it does\b)`),
		then: regexp.MustCompile(`^[a-z' -]{2,40}?\b(is|are|was|were|has|have|had|can|may|must|needs?|counts|waits|remains|` +
			`stands?|follows|came|comes|went|takes?|passed|does|do|did|others|clients|callers|people|they|it|nodes?)\b`)},
	{find: regexp.MustCompile(`\b[Ss]o (is|are|was|were|has|have|had|does|do|did|it is|will)\b|(^|[.] )Of (what|a|an|the|` +
		`several|this|these|those|200|which)\b|(^|[.] )Nor\b|\bof which (it|they|he|the)\b`)},
	{find: regexp.MustCompile(`\b(that|those) (of|with|without|which|who|that|for|in|on|where|beside|before) \b|` +
		`\bwhat (it|they) (is|are) (of|about)\b|\bthe one (of|that|before)\b|\bof (its|their) own\b|\bits like\b`)},
	// take, look, peek and ask are left out: they are the names of operations.
	{find: regexp.MustCompile(`\b(a|the|each|every|this|one|no|its|two|several|of|another|that|these) (undos?|give-?backs?|` +
		`tell|tells|draw|lift|carry|nudge|reload|waits?|put|stops?|begin|learn|heal|cut|storm)\b`)},
	{find: regexp.MustCompile(`\b(bytes|checks|requests|units|events|messages|microseconds|µs|calls|times|takes|buckets|` +
		`lines?|keys|rows|reads?|nodes?|rules?) an? (second|minute|hour|day|bucket|key|check|call|rule|request|node|` +
		`interval|line|take|user|message|event|region|slot|window|core|batch|shard)\b|` +
		`\bone (object|line|row|file|key)s? an? (line|node|rule|key|day)\b`)},
	{find: regexp.MustCompile(`\b(is|are|was|were|be|been) (looked|asked|waited|spoken|read|written|thought|paid|counted|` +
		`told|cared|relied|gone|done|called|decided|listened|held|kept|set) (at|for|of|by|about|to|on|with|from|into|away|` +
		`apart|aside|beside|together)\b`),
		unless: regexp.MustCompile(`^ (the|an?|each|its|their|this|that|one|every|which|rule|node|fail|those|all|several|` +
			`two|any|Redis|what|it|them)`)},
	{find: regexp.MustCompile(`\b(pages?|answers?|log|events?|files?|table|list|line|message|body|schedule|section|report|` +
		`record|entry|row|cell|metric|series|spans?|profile|window|document|response|topic|key|value|store|member|index|set|` +
		`copy) (has|have|had) `),
		unless: regexp.MustCompile(`^(been|no\b|a version|to\b)`)},
	{find: regexp.MustCompile(`\bby (itself|themselves|himself)\b|\balike\b|\bapart\b|\bbeside\b|\bin words\b|` +
		`\bat the (most|least)\b`)},
	{find: regexp.MustCompile(`(, |\b)else (it|the|they|a|an|its|by|from|of|at|in|ten|that|what|whoever|reset)\b|\bElse\b|` +
		`\ball the same\b|\balso (if|where|when|while|after|with|without|in|of|for)\b|\bbut for\b|\banew\b|\bmeanwhile\b`)},
}

// in reports whether a line has the turn.
func (u *turn) in(line string) bool {
	for rest := line; ; {
		at := u.find.FindStringIndex(rest)
		if at == nil {
			return false
		}
		rest = rest[at[1]:]
		if (u.unless == nil || !u.unless.MatchString(rest)) && (u.then == nil || u.then.MatchString(rest)) {
			return true
		}
	}
}

var (
	goComment   = regexp.MustCompile(`(?:^|\s)// ?(.*)`)
	description = regexp.MustCompile(`^\s*(?:- )?(?:description|summary):\s*(.*)`)
	logMessage  = regexp.MustCompile(`\b(?:[Ll]og|logger|slog)\w*\.(?:Info|Warn|Error|Debug)(?:Context)?\((?:ctx, )?"([^"]+)"`)
	sentence    = regexp.MustCompile(`"([A-Z][^"]{14,})"`)
	markup      = regexp.MustCompile(`<[^>]*>|\{[^}]*\}`)
	plainText   = regexp.MustCompile(`^[A-Z][a-z]+ .* [a-z]+`)
)

// prose are the lines of a page without its code.
func prose(lines []string) (out []string) {
	fence := false
	for _, line := range lines {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "```"):
			fence = !fence
		case !fence && line != "" && !strings.HasPrefix(line, "<!--") && !strings.HasPrefix(line, "!["):
			out = append(out, line)
		}
	}
	return out
}

// commentsOf are the lines of comments of a Go file.
func commentsOf(lines []string) (out []string) {
	for _, line := range lines {
		m := goComment.FindStringSubmatch(line)
		if len(m) == 0 || strings.HasPrefix(m[1], "nolint") || strings.HasPrefix(m[1], "go:") {
			continue
		}
		if strings.TrimSpace(m[1]) != "" {
			out = append(out, m[1])
		}
	}
	return out
}

// descriptionsOf are the lines of descriptions and summaries of a document of OpenAPI.
func descriptionsOf(lines []string) (out []string) {
	block := -1
	for _, line := range lines {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch m := description.FindStringSubmatch(line); {
		case len(m) > 0 && slices.Contains([]string{"", "|", ">", "|-", ">-"}, m[1]):
			block = indent
		case len(m) > 0:
			block = -1
			out = append(out, m[1])
		case block >= 0 && strings.TrimSpace(line) != "" && indent <= block:
			block = -1
		case block >= 0 && strings.TrimSpace(line) != "":
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// messagesOf are the messages that a Go file logs.
func messagesOf(lines []string) (out []string) {
	for _, line := range lines {
		if m := logMessage.FindStringSubmatch(line); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// sentencesOf are the sentences of a template.
func sentencesOf(lines []string) (out []string) {
	for _, line := range lines {
		for _, m := range sentence.FindAllStringSubmatch(line, -1) {
			out = append(out, m[1])
		}
		text := strings.TrimSpace(markup.ReplaceAllString(line, " "))
		if plainText.MatchString(text) && !strings.ContainsAny(text, "{}=;") {
			out = append(out, text)
		}
	}
	return out
}

// Texts get clearer: the lines with one of the turns may only become fewer. Lower a number when lines were rewritten.
func TestWords_OnlyGetClearer(t *testing.T) {
	for _, area := range []struct {
		name, glob string
		read       func([]string) []string
		most       int // of 1,000 lines
	}{
		{"docs", "*.md", prose, 22},
		{"openapi", "openapi.yaml", descriptionsOf, 12},
		{"comments", "*.go", commentsOf, 22},
		{"logs", "*.go", messagesOf, 0},
		{"console", "web/*.templ", sentencesOf, 6},
	} {
		t.Run(area.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "git", "-C", top, "-c", "safe.directory=*", "ls-files",
				area.glob).Output()
			if err != nil {
				t.Fatal(err)
			}
			total, unclear := 0, 0
			for name := range strings.Lines(string(out)) {
				name = strings.TrimSpace(name)
				if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_templ.go") ||
					strings.Contains(name, "testdata/") {
					continue
				}
				text, err := os.ReadFile(filepath.Join(top, name)) //nolint:gosec // a file of this repository
				if err != nil {
					t.Fatal(err)
				}
				var lines []string
				for line := range bytes.Lines(text) {
					lines = append(lines, strings.TrimRight(string(line), "\r\n"))
				}
				lines = area.read(lines)
				for _, line := range lines {
					if total++; slices.ContainsFunc(turns, func(u turn) bool { return u.in(line) }) {
						unclear++
					}
				}
			}
			if got := fmt.Sprintf("%d of %d", unclear, total); 1000*unclear > area.most*total {
				t.Errorf("%s lines to write again, more than %d of 1,000", got, area.most)
			} else {
				t.Log(got)
			}
		})
	}
}
