package match

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/when"
)

func TestSizePatterns_CountsInstructionsOfTheCompiledPattern(t *testing.T) {
	for condition, want := range map[string]when.PatternSize{
		`user == "a"`:                       {},
		`user == "matches"`:                 {},
		`user matches "a"`:                  {Largest: 3, Total: 3},
		`user matches "a" or ip matches ""`: {Largest: 3, Total: 6},
		`not (user matches "^(a?){499}$")`:  {Largest: 2000, Total: 2000},
	} {
		got := when.SizePatterns(&condition)
		if got.Mistake = ""; got != want {
			t.Errorf("%s: got %+v, want %+v", condition, got, want)
		}
	}
	if got := when.SizePatterns(nil); got != (when.PatternSize{}) {
		t.Errorf("without a condition: %+v", got)
	}
	// A pattern of a million instructions is estimated and not compiled.
	huge := `user matches "(` + strings.Repeat("a", 900) + `){1000}"`
	if got := when.SizePatterns(&huge).Largest; got < 900_000 || got > 1_100_000 {
		t.Errorf("a huge pattern has %d instructions", got)
	}
}

// thirty is the condition of the report: thirty oversized patterns in 926 bytes.
func thirty() string {
	parts := make([]string, 30)
	for i := range parts {
		parts[i] = `user matches"^(a?){1000}b$"`
	}
	return strings.Join(parts, "||")
}

func TestCheckPatterns_RefusesWhatIsNewAndTooLarge(t *testing.T) {
	oversized, other := conditional(thirty()), conditional(`user matches "^(a?){1000}c$"`)
	small := conditional(`user matches "^acme-"`)
	same := oversized.Clone()
	same.Limit++
	for name, c := range map[string]struct {
		was, is *rules.Rule
		refused bool
	}{
		"new":                         {nil, &oversized, true},
		"new and small":               {nil, &small, false},
		"the condition changes":       {&small, &oversized, true},
		"from one to another":         {&oversized, &other, true},
		"an unrelated edit":           {&oversized, &same, false},
		"the condition becomes small": {&oversized, &small, false},
	} {
		err := rules.CheckPatterns(c.was, c.is)
		var invalid *field.ValidationError
		if c.refused != errors.As(err, &invalid) || c.refused && (invalid.Fields[0].Field != "when" ||
			!strings.Contains(invalid.Fields[0].Message,
				"column 6: the pattern has 4005 instructions, at most 2000 are allowed")) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s := compile(t, oversized)
	if all := s.OversizedPatterns(); len(all) != 1 || all[0] != s.At(0) || s.Patterns() != 30*4005 {
		t.Errorf("in force: %v oversized rules, %d instructions", all, s.Patterns())
	}
}

func TestFileCheckPatterns_NamesTheRulesOfTheFile(t *testing.T) {
	named := func(name, when string) rules.Rule {
		r := conditional(when)
		r.Name = name
		return r
	}
	big := func(n int) string { // some 46,000 instructions
		parts := make([]string, 24)
		for i := range parts {
			parts[i] = fmt.Sprintf(`user matches"^(a?){%d}b$"`, 490-i-n)
		}
		return strings.Join(parts, "||")
	}
	stored := []rules.Rule{named("old", thirty()), named("stays", big(0))}
	for name, c := range map[string]struct {
		file  []rules.Rule
		prune bool
		want  string
	}{
		"as stored":     {[]rules.Rule{named("old", thirty())}, false, ""},
		"a new one":     {[]rules.Rule{named("old", thirty()), named("new", thirty())}, false, "rules[1].when"},
		"changed":       {[]rules.Rule{named("stays", thirty())}, false, "rules[0].when"},
		"too many":      {[]rules.Rule{named("more", big(1))}, false, "rules"},
		"fewer":         {[]rules.Rule{named("stays", big(1))}, false, ""},
		"the others go": {[]rules.Rule{named("more", big(1))}, true, ""},
	} {
		err := (&rules.File{Rules: c.file}).CheckPatterns(stored, c.prune)
		var invalid *field.ValidationError
		got := ""
		if errors.As(err, &invalid) {
			got = invalid.Fields[0].Field
		}
		if got != c.want {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestMatchContext_EndsBetweenConditionsWhenTheCallerLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	evaluated := 0
	opt := Options{Now: time.Now, ConditionTook: func(time.Duration) {
		evaluated++
		leave()
	}}
	var rs []rules.Rule
	for id := range int64(5) {
		rs = append(rs, rule(id+1, func(r *rules.Rule) { r.When = ptr(`user matches "^a"`) }))
	}
	s, err := Compile(rs, 1, opt)
	if err != nil {
		t.Fatal(err)
	}
	d := Descriptor{User: "ada"}
	if _, err := s.MatchContext(ctx, &d, 1, noon, nil); !errors.Is(err, context.Canceled) || evaluated != 1 {
		t.Errorf("got %v after %d conditions", err, evaluated)
	}
	late, cancel := context.WithDeadline(t.Context(), noon.AddDate(-10, 0, 0))
	defer cancel()
	if ms, err := s.MatchContext(late, &d, 1, noon, nil); err != nil || len(ms) != 5 {
		t.Errorf("a deadline that has passed: %d matches, %v", len(ms), err)
	}
	if ms := s.Match(&d, 1, noon, nil); len(ms) != 5 {
		t.Errorf("without a caller who leaves: %d matches", len(ms))
	}
}

// BenchmarkCondition: one check of a rule with a condition; thirty is what was
// accepted before there was a bound, largest one pattern of the size that is.
func BenchmarkCondition(b *testing.B) {
	d := Descriptor{User: strings.Repeat("a", 200), IP: netip.MustParseAddr("10.1.2.3")}
	for name, when := range map[string]string{
		"none": "", "equal": `user == "ada"`, "network": `cidr(ip, "10.0.0.0/8")`, "prefix": `user matches "^acme-"`,
		"largest": `user matches "^(a?){498}b$"`, "thirty": thirty(),
	} {
		b.Run(name, func(b *testing.B) {
			r := rule(1, func(r *rules.Rule) { r.Scope = "global" })
			if when != "" {
				r.When = &when
			}
			s := compile(b, r)
			var dst []Match
			for b.Loop() {
				dst = s.Match(&d, 1, noon, dst[:0])
			}
		})
	}
}
