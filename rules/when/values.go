package when

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker/nature"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/vm/runtime"
)

// The compiler of expr knows a whole number of a condition as an int, and a number of the request as an int64. Where it
// takes one for the other, or nil for a text, its fast comparisons fail at run time. This file keeps conditions from
// these comparisons.

// Names that expr also knows, with another meaning or none.
const (
	nameMin = "min"
	nameMax = "max"
	nameEnv = "$env"
)

// The functions min and max.
var (
	least    = extreme(nameMin, runtime.Less)
	greatest = extreme(nameMax, runtime.More)
)

// extreme returns a function that returns the best of its arguments. A list counts as the numbers in it. Whole numbers
// are int64, whatever they are in the condition.
func extreme(name string, better func(a, b any) bool) expr.Option {
	return func(c *conf.Config) {
		c.Functions[name] = &builtin.Function{
			Name: name,
			Func: func(args ...any) (any, error) {
				best, err := pick(nil, args, better)
				if err == nil && best == nil {
					err = errors.New("there is no number")
				}
				return best, err
			},
			Validate: func(args []reflect.Type) (reflect.Type, error) {
				if len(args) == 0 {
					return nil, fmt.Errorf("not enough arguments to call %s", name)
				}
				return extremeType(args), nil
			},
		}
	}
}

// pick returns the best of the values and best, which may be nil.
func pick(best any, values []any, better func(a, b any) bool) (_ any, err error) {
	for _, v := range values {
		switch n := v.(type) {
		case int:
			v = int64(n)
		case int64, float64:
		case []any:
			if best, err = pick(best, n, better); err != nil {
				return nil, err
			}
			continue
		default:
			return nil, fmt.Errorf("%T is not a number", v)
		}
		if best == nil || better(v, best) {
			best = v
		}
	}
	return best, nil
}

// extremeType returns the type of the extreme of arguments: any if it is unknown before the call.
func extremeType(args []reflect.Type) reflect.Type {
	result := reflect.TypeFor[int64]()
	for _, t := range args {
		switch {
		case t == nil || t.Kind() == reflect.Interface || t.Kind() == reflect.Slice:
			return reflect.TypeFor[any]()
		case t.Kind() == reflect.Float64:
			result = t
		}
	}
	return result
}

// numbers refuses arguments of min and max that are neither numbers nor lists of them.
func (v *whenVisitor) numbers(args []ast.Node) {
	for _, arg := range args {
		if list, ok := arg.(*ast.ArrayNode); ok {
			v.numbers(list.Nodes)
		} else if !mayBeNumbers(*arg.Nature()) {
			v.refuse(arg, "min and max take numbers and lists of numbers")
		}
	}
}

func mayBeNumbers(n nature.Nature) bool {
	for n.IsArray() {
		n = n.Elem(nil)
	}
	return n.IsNumber() || n.IsUnknown(nil)
}

// compare makes a comparison work with any values, unless the types of its sides are certain.
func (v *whenVisitor) compare(n *ast.BinaryNode) {
	l, r := n.Left.Nature(), n.Right.Nature()
	switch n.Operator {
	case "==", "!=":
		if l.Kind == reflect.Map && r.Kind == reflect.Map {
			v.refuse(n, "maps cannot be compared; compare their members")
		}
		fast := l.Kind == r.Kind && (l.Kind == reflect.Int || l.Kind == reflect.String)
		if fast && (!v.certain(n.Left) || !v.certain(n.Right)) {
			// The type of a conditional with an unknown branch is unknown.
			left := &ast.ConditionalNode{Cond: &ast.BoolNode{Value: true}, Exp1: n.Left, Exp2: &ast.ConstantNode{}}
			left.SetLocation(n.Left.Location())
			n.Left = left
		}
	case "in":
		if list, ok := n.Right.(*ast.ArrayNode); ok && !v.certain(n.Left) {
			// A slice of a list has the type of the list, and expr does not make a map of it.
			right := &ast.SliceNode{Node: list}
			right.SetLocation(list.Location())
			n.Right = right
		}
	}
}

// certainNames are facts. A variable cannot have one of these names.
var certainNames = []string{
	"method", "route", "host", "ip", "user", "api_key", "tier", "weight", "attributes", "fields",
}

// certain reports whether the value of a node always has the type of the node. A conditional has the type of one branch
// even if the other is nil, and a list of lists has the type of its last list.
func (v *whenVisitor) certain(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		return true
	case *ast.IdentifierNode:
		return slices.Contains(certainNames, n.Value)
	case *ast.MemberNode:
		return v.certain(n.Node)
	case *ast.UnaryNode:
		return v.certain(n.Node)
	case *ast.BinaryNode:
		return n.Operator != "??" && v.certain(n.Left) && v.certain(n.Right)
	case *ast.BuiltinNode:
		return n.Name != "abs" || v.certain(n.Arguments[0])
	}
	return false
}
