// Package when compiles and evaluates the conditions of rules, such as
//
//	tier == "free" && cidr(ip, "10.0.0.0/8")
//
// A condition has no loops and its patterns are bounded, so its size and the size of the request bound its time.
package when

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"sluice/rules/chars"
)

// MaxBytes is the longest condition, in bytes.
const MaxBytes = 1024

// Env holds the names that a condition may use. It has no methods, because expr would
// offer them as functions.
type Env struct {
	// Method is in upper case, Route normalised; "" means absent, as for every text.
	Method string `expr:"method"`
	Route  string `expr:"route"`
	// Host is in the form of host.Parse.
	Host   string `expr:"host"`
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

// Bounds of a condition. It has no loops, so the number of nodes, including the nodes behind variables, bounds its time
// and the texts that it may build, except for patterns, which have their own bounds (MaxPattern). The budget bounds the
// lists.
const (
	maxWhenNodes  = 256
	maxWhenSize   = 2000
	maxWhenMemory = 10_000
)

// whenFunctions lists the functions of expr that a condition may call: functions whose time is in proportion to the
// size of the request and that depend on nothing else. See also cidr, least and greatest.
var whenFunctions = []string{
	"len", "lower", "upper", "trim", "trimPrefix", "trimSuffix", "hasPrefix", "hasSuffix", "indexOf", "abs",
}

// Condition is a rule's when, compiled. It is safe for concurrent use.
type Condition struct {
	program  *vm.Program
	ip       bool // it speaks of the address
	patterns PatternSize
	names    []string // the names of conditionEnv that the condition uses, in order
	cidrs    []*networks
}

// Compile compiles a condition. The error says what is wrong and where.
func Compile(source string) (*Condition, error) {
	switch {
	case len(source) > MaxBytes:
		return nil, fmt.Errorf("must not be longer than %d bytes", MaxBytes)
	case !utf8.ValidString(source):
		return nil, errors.New("must be valid UTF-8")
	case strings.ContainsFunc(source, func(r rune) bool { return r != '\n' && r != '\t' && chars.Unsafe(r) }):
		return nil, errors.New("must not contain control characters")
	}
	v := whenVisitor{source: source}
	options := []expr.Option{
		expr.AsBool(), expr.MaxNodes(maxWhenNodes), expr.Patch(&v), expr.DisableAllBuiltins(), least, greatest,
	}
	for _, name := range whenFunctions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(source, append(options, expr.Env(Env{}), cidr)...)
	if len(v.envs) > 0 {
		v.refuse(v.envs[0], "write the name itself, such as user, instead of "+nameEnv)
	}
	if err == nil && len(v.values) > 0 {
		v.refuse(v.values[0], "a function has no value of its own; call it")
	}
	if v.err != nil { // more precise than the error of the compiler
		return nil, v.err
	}
	var at *file.Error
	switch {
	case errors.As(err, &at) && at.Line > 0:
		return nil, fmt.Errorf("line %d, column %d: %s", at.Line, at.Column+1, Clip(at.Message))
	case err != nil && v.root != nil: // about the expression as a whole, such as its type
		return nil, v.at(v.root, Clip(err.Error()))
	case err != nil:
		return nil, errors.New(Clip(err.Error()))
	}
	if node := program.Node(); sizeOf(&node) > maxWhenSize {
		return nil, v.at(node, "the variables are used too often in the values of others")
	}
	return &Condition{
		program: program, ip: v.ip, patterns: SizePatterns(&source), cidrs: v.cidrs,
		names: slices.Compact(slices.Sorted(slices.Values(v.names))),
	}, nil
}

// Names returns the names that the condition uses, in order: facts, functions, and its variables.
func (c *Condition) Names() []string { return c.names }

// UsesIP reports whether the condition speaks of the address.
func (c *Condition) UsesIP() bool { return c.ip }

// Patterns returns the size of the patterns in the condition.
func (c *Condition) Patterns() PatternSize { return c.patterns }

// Amounts reports whether the condition uses fields or weight, also as a member of $env.
func (c *Condition) Amounts() bool {
	return slices.ContainsFunc(c.names, func(name string) bool {
		return name == "fields" || name == "weight" || name == "$env"
	})
}

// Clip shortens a message about a caller's text to one line.
func Clip(s string) string {
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
	source string
	ip     bool // as in condition
	names  []string
	envs   []ast.Node // environments that no name follows
	values []ast.Node // names of functions that are not called
	cidrs  []*networks
	err    error
	root   ast.Node // visited last
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
		if n.Value == nameEnv {
			v.envs = append(v.envs, n)
			return
		}
		if slices.Contains([]string{nameCIDR, nameMin, nameMax}, n.Value) || slices.Contains(whenFunctions, n.Value) {
			v.values = append(v.values, n)
		}
		v.name(n.Value)
	case *ast.MemberNode:
		env, _ := n.Node.(*ast.IdentifierNode)
		if name, ok := n.Property.(*ast.StringNode); ok && env != nil && env.Value == nameEnv {
			v.envs = v.envs[:len(v.envs)-1] // it was visited just before
			v.name(name.Value)
		}
	case *ast.VariableDeclaratorNode:
		if n.Name == nameCIDR {
			v.refuse(n, "cidr is a function; give the variable another name")
		}
	case *ast.CallNode:
		name, _ := n.Callee.(*ast.IdentifierNode)
		v.values = slices.DeleteFunc(v.values, func(f ast.Node) bool { return f == n.Callee })
		switch {
		case name == nil:
		case name.Value == nameCIDR:
			v.networks(n)
		case name.Value == nameMin || name.Value == nameMax:
			v.numbers(n.Arguments)
		}
	case *ast.BinaryNode:
		if _, constant := n.Right.(*ast.StringNode); n.Operator == "matches" && !constant {
			v.refuse(n, "the pattern of matches must be text in quotes")
		}
		if n.Operator == ".." {
			v.refuse(n, "ranges are not supported; compare with >= and <=")
		}
		v.compare(n)
	}
}

// name records a name of the environment, a function, or a variable.
func (v *whenVisitor) name(name string) {
	v.names = append(v.names, name)
	v.ip = v.ip || name == "ip"
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
	env Env
	vm  vm.VM
}

var evaluations = sync.Pool{New: func() any { return &evaluation{vm: vm.VM{MemoryBudget: maxWhenMemory}} }}

// errNoBool is the error of a condition whose value is neither true nor false.
var errNoBool = errors.New("its value is neither true nor false")

// Holds reports whether the condition is true for a request. One that cannot be evaluated (such as a remainder by zero,
// which compiles) counts as true, so that the rule still limits the request; the error says why.
func (c *Condition) Holds(env *Env) (bool, error) {
	e, ok := evaluations.Get().(*evaluation)
	if !ok {
		return true, errNoBool // impossible: the pool holds nothing else
	}
	e.env = *env
	v, err := e.vm.Run(c.program, &e.env)
	e.env = Env{}
	evaluations.Put(e)
	holds, isBool := v.(bool)
	if err == nil && !isBool {
		err = errNoBool
	}
	return holds || err != nil, err
}
