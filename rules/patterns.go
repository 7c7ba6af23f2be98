package rules

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// Bounds of the patterns in conditions, in instructions of the compiled pattern. A match takes
// time of at most the instructions times the length of the text. New conditions must keep them;
// larger ones that were stored earlier stay in force.
const (
	// MaxPattern is for one pattern.
	MaxPattern = 2000
	// MaxPatterns is for all patterns of all stored rules.
	MaxPatterns = 100_000
)

// hugePattern is the size above which a pattern is estimated and not compiled.
const hugePattern = 10 * MaxPattern

// PatternSize is the size of the patterns of one condition, in instructions.
type PatternSize struct {
	// Largest is the size of the largest pattern, Total the sum of all; both are 0 without
	// patterns.
	Largest, Total int
	// mistake describes the place of the first pattern above MaxPattern, or of the first comparison of ip with a
	// network, "" for none.
	mistake string
}

// SizePatterns measures the patterns of a valid condition; nil has none.
func SizePatterns(when *string) PatternSize {
	if when == nil || !strings.Contains(*when, "matches") && !strings.Contains(*when, "ip") {
		return PatternSize{}
	}
	tree, err := parser.Parse(*when)
	if err != nil {
		return PatternSize{} // not valid
	}
	v := patternVisitor{source: *when}
	ast.Walk(&tree.Node, &v)
	return v.size
}

// patternVisitor sums the patterns of a condition.
type patternVisitor struct {
	source string
	size   PatternSize
}

// Visit implements ast.Visitor.
func (v *patternVisitor) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok {
		return
	}
	if at, why := comparedNetwork(n); at != nil {
		v.refuse(at, why)
	}
	if n.Operator != "matches" {
		return
	}
	pattern, ok := n.Right.(*ast.StringNode)
	if !ok {
		return
	}
	size := patternSize(pattern.Value)
	v.size.Largest = max(v.size.Largest, size)
	v.size.Total += size
	if size > MaxPattern {
		v.refuse(n, fmt.Sprintf("the pattern has %d instructions, at most %d are allowed; shorten it or use smaller "+
			"repetitions", size, MaxPattern))
	}
}

func (v *patternVisitor) refuse(n ast.Node, why string) {
	if v.size.mistake == "" {
		v.size.mistake = placed(v.source, n, why).Error()
	}
}

// patternSize returns the number of instructions that a pattern compiles to.
func patternSize(pattern string) int {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0 // not valid
	}
	if n := estimatePattern(re); n > hugePattern {
		return n
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0 // not valid
	}
	return len(prog.Inst)
}

// estimatePattern estimates the number of instructions that an expression compiles to.
func estimatePattern(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += estimatePattern(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return n
}

// CheckPatterns refuses a rule with a pattern above MaxPattern, or whose condition compares ip with a network, unless
// its condition is that of was, the stored rule, which is nil for a new one. The error is a *ValidationError of
// the field when.
func CheckPatterns(was, is *Rule) error {
	if was != nil && sameText(was.When, is.When) {
		return nil
	}
	if size := SizePatterns(is.When); size.mistake != "" {
		return &ValidationError{Fields: []FieldError{{Field: "when", Message: size.mistake}}}
	}
	return nil
}

func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// TooManyPatterns returns the error for a change of a field that leads to a total above
// MaxPatterns.
func TooManyPatterns(field string, total int) error {
	return &ValidationError{Fields: []FieldError{{Field: field, Message: fmt.Sprintf(
		"the patterns in the conditions of all rules would have %d instructions, at most %d are allowed", total,
		MaxPatterns)}}}
}

// CheckPatterns applies the bounds to a file that is imported over the current rules, as for
// writes of single rules. The fields are rules[i].when, and rules for the total.
func (f *File) CheckPatterns(current []Rule, prune bool) error {
	stored := make(map[string]*Rule, len(current))
	for i := range current {
		stored[current[i].Name] = &current[i]
	}
	var ps problems
	before, after := 0, 0
	for i := range f.Rules {
		is := &f.Rules[i]
		was := stored[is.Name]
		if was == nil || !sameText(was.When, is.When) {
			size := SizePatterns(is.When)
			after += size.Total
			if size.mistake != "" && len(ps) < MaxFileErrors {
				ps.add(path("rules", i)+".when", "%s", size.mistake)
			}
			if was != nil {
				before += SizePatterns(was.When).Total
			}
		}
		delete(stored, is.Name)
	}
	if len(ps) > 0 {
		return &ValidationError{Fields: ps}
	}
	if after <= before { // adds nothing
		return nil
	}
	total := 0
	for i := range f.Rules {
		total += SizePatterns(f.Rules[i].When).Total
	}
	if !prune {
		for _, r := range stored {
			total += SizePatterns(r.When).Total
		}
	}
	if total > MaxPatterns {
		return TooManyPatterns("rules", total)
	}
	return nil
}

// Patterns returns the size of the patterns in the rule's condition.
func (c *Compiled) Patterns() PatternSize {
	if c.when == nil {
		return PatternSize{}
	}
	return c.when.patterns
}

// Patterns returns the number of instructions of the patterns of all active rules.
func (s *Set) Patterns() int { return s.patterns }

// OversizedPatterns returns the active rules with a pattern above MaxPattern, ordered by id. They were stored
// before that bound existed.
func (s *Set) OversizedPatterns() []*Compiled { return slices.Collect(s.oversized.all()) }

// countPatterns updates the set's pattern figures.
func (s *Set) countPatterns(drop, put []*Compiled) {
	for _, c := range drop {
		s.patterns -= c.Patterns().Total
	}
	for _, c := range put {
		s.patterns += c.Patterns().Total
	}
	s.oversized = s.oversized.with(onlyOversized(drop), onlyOversized(put), compareRules)
}

func onlyOversized(rules []*Compiled) (oversized []*Compiled) {
	for _, c := range rules {
		if c.Patterns().Largest > MaxPattern {
			oversized = append(oversized, c)
		}
	}
	return oversized
}
