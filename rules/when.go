package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"sluice/rules/chars"
)

// conditionEnv holds the names that a condition may use. It has no methods, because expr would
// offer them as functions.
type conditionEnv struct {
	FormerEnv
	// Host is in the form of ParseHost.
	Host string `expr:"host"`
}

// FormerEnv holds the names of conditions before there were host and cidr. A condition that declares a variable of
// one of these names has no others, because it may have been stored then.
type FormerEnv struct {
	// Method is in upper case, Route normalised; "" means absent, as for every text.
	Method string `expr:"method"`
	Route  string `expr:"route"`
	IP     string `expr:"ip"`
	User   string `expr:"user"`
	APIKey string `expr:"api_key"`
	Tier   string `expr:"tier"`
	// A member that the request lacks is "" or 0.
	Attributes map[string]string `expr:"attributes"`
	Fields     map[string]int64  `expr:"fields"`
	// Weight is the weight of the request under this rule.
	Weight int64 `expr:"weight"`
}

// Bounds of a condition. It has no loops, so the number of nodes bounds its time, except for
// patterns, which have their own bounds (MaxPattern). The budget bounds the lists and texts that
// it may build.
const (
	maxWhenNodes  = 256
	maxWhenMemory = 10_000
)

// whenFunctions lists the functions of expr that a condition may call: those that take time in
// proportion to the size of the request and depend on nothing else.
var whenFunctions = []string{
	"len", "lower", "upper", "trim", "trimPrefix", "trimSuffix", "hasPrefix", "hasSuffix", "indexOf", "abs", "min", "max",
}

// condition is a rule's when, compiled. It is safe for concurrent use.
type condition struct {
	program  *vm.Program
	ip       bool // it speaks of the address
	former   bool // it has only the names of FormerEnv
	newer    bool // it has host or cidr
	patterns PatternSize
	names    []string // of conditionEnv, those that it uses, in order
}

// compileCondition compiles a condition. The error says what is wrong and where.
func compileCondition(source string) (*condition, error) {
	switch {
	case len(source) > MaxWhen:
		return nil, fmt.Errorf("must not be longer than %d bytes", MaxWhen)
	case !utf8.ValidString(source):
		return nil, errors.New("must be valid UTF-8")
	case strings.ContainsFunc(source, func(r rune) bool { return r != '\n' && r != '\t' && chars.Unsafe(r) }):
		return nil, errors.New("must not contain control characters")
	}
	v := whenVisitor{source: source}
	options := []expr.Option{
		expr.AsBool(), expr.MaxNodes(maxWhenNodes), expr.Patch(&v), expr.DisableAllBuiltins(),
	}
	for _, name := range whenFunctions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(source, append(options, expr.Env(conditionEnv{}), cidr)...)
	if v.former {
		v = whenVisitor{source: source, former: true}
		program, err = expr.Compile(source, append(options, expr.Env(FormerEnv{}))...)
	}
	if v.err != nil { // more to the point than what the compiler makes of it
		return nil, v.err
	}
	var at *file.Error
	switch {
	case errors.As(err, &at) && at.Line > 0:
		return nil, fmt.Errorf("line %d, column %d: %s", at.Line, at.Column+1, clipText(at.Message))
	case err != nil && v.root != nil: // about the expression as a whole, such as its type
		return nil, v.at(v.root, clipText(err.Error()))
	case err != nil:
		return nil, errors.New(clipText(err.Error()))
	}
	return &condition{
		program: program, ip: v.ip, former: v.former, newer: v.newer, patterns: SizePatterns(&source),
		names: slices.Compact(slices.Sorted(slices.Values(v.names))),
	}, nil
}

// clipText shortens a message about a caller's text to one line.
func clipText(s string) string {
	const most = 300
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// whenVisitor refuses slow constructs and records the names that a condition uses. A predicate in
// a predicate would scan its lists repeatedly, a range could build a list of any length, and a
// pattern from the request would be compiled at every check.
type whenVisitor struct {
	source            string
	ip, former, newer bool // as in condition
	names             []string
	err               error
	root              ast.Node // visited last
}

// Visit implements ast.Visitor.
func (v *whenVisitor) Visit(node *ast.Node) {
	v.root = *node
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if !slices.Contains(whenFunctions, n.Name) {
			v.refuse(n, "the function "+n.Name+" is not available")
		}
	case *ast.PredicateNode:
		v.refuse(n, "predicates are not available")
	case *ast.IdentifierNode:
		v.names = append(v.names, n.Value)
		v.ip = v.ip || n.Value == "ip"
		v.newer = v.newer || !v.former && (n.Value == nameHost || n.Value == nameCIDR)
	case *ast.VariableDeclaratorNode:
		v.former = v.former || n.Name == nameHost || n.Name == nameCIDR
	case *ast.CallNode:
		if name, ok := n.Callee.(*ast.IdentifierNode); ok && name.Value == nameCIDR && !v.former {
			v.networks(n)
		}
	case *ast.BinaryNode:
		if _, constant := n.Right.(*ast.StringNode); n.Operator == "matches" && !constant {
			v.refuse(n, "the pattern of matches must be text in quotes")
		}
		if n.Operator == ".." {
			v.refuse(n, "ranges are not supported; compare with >= and <=")
		}
	}
}

func (v *whenVisitor) refuse(n ast.Node, why string) {
	if v.err != nil {
		return
	}
	v.err = v.at(n, why)
}

// at adds the place in the source to an error.
func (v *whenVisitor) at(n ast.Node, why string) error {
	return placed(v.source, n, why)
}

// placed returns an error with the place of a node in the source.
func placed(source string, n ast.Node, why string) error {
	e := (&file.Error{Location: n.Location()}).Bind(file.NewSource(source))
	return fmt.Errorf("line %d, column %d: %s", e.Line, e.Column+1, why)
}

// evaluation holds the memory of one evaluation.
type evaluation struct {
	env conditionEnv
	vm  vm.VM
}

var evaluations = sync.Pool{New: func() any { return &evaluation{vm: vm.VM{MemoryBudget: maxWhenMemory}} }}

// holds reports whether the rule's condition is true for the request with the given weight under
// the rule. A condition that cannot be evaluated (such as a remainder by zero, which compiles)
// counts as true and is reported, so that the rule still limits the request.
func (k *keyer) holds(c *Compiled, weight int64) bool {
	e, ok := evaluations.Get().(*evaluation)
	if !ok {
		return true // impossible: the pool holds nothing else
	}
	e.env.Host = k.d.Host
	e.env.FormerEnv = FormerEnv{
		Method: k.method, Route: k.route, User: k.d.User, APIKey: k.d.APIKey, Tier: k.d.Tier,
		Attributes: k.d.Attributes, Fields: k.d.Fields, Weight: weight,
	}
	var env any = &e.env
	if c.when.former {
		env = &e.env.FormerEnv
	}
	if c.when.ip && k.d.IP.IsValid() {
		e.env.IP = NormalAddr(k.d.IP).String()
	}
	opt := &k.set.opt
	measured := opt.ConditionTook != nil && opt.Now != nil
	var began time.Time
	if measured {
		began = opt.Now()
	}
	v, err := e.vm.Run(c.when.program, env)
	if measured {
		opt.ConditionTook(opt.Now().Sub(began))
	}
	e.env = conditionEnv{}
	evaluations.Put(e)
	holds, isBool := v.(bool)
	if err != nil || !isBool {
		if f := opt.ConditionFailed; f != nil {
			f(&c.Rule)
		}
		return true
	}
	return holds
}

// ConditionNames returns the names that the rule's condition uses, in order: facts, functions, and variables of its
// own; nil if it has none.
func (c *Compiled) ConditionNames() []string {
	if c.when == nil {
		return nil
	}
	return c.when.names
}
