package when

import (
	"fmt"
	"regexp/syntax"
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
	// Mistake describes the place of the first pattern above MaxPattern, or of the first comparison of ip with a
	// network, "" for none.
	Mistake string
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
	if v.size.Mistake == "" {
		v.size.Mistake = placed(v.source, n, why).Error()
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
