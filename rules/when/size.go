package when

import "github.com/expr-lang/expr/ast"

// sizeOf returns the number of nodes that a condition has if each variable is replaced by its value, or more: a
// variable counts as everything before the end of its value. Doubling a variable in the value of the next needs few
// nodes, and makes a text of any length, or a list whose comparison takes any time.
func sizeOf(root *ast.Node) int {
	s := sizeVisitor{values: map[ast.Node]string{}, sizes: map[string]int{}}
	ast.Walk(root, valueVisitor(s.values))
	ast.Walk(root, &s)
	return s.total
}

// valueVisitor finds the names of variables by their values.
type valueVisitor map[ast.Node]string

// Visit implements ast.Visitor.
func (v valueVisitor) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.VariableDeclaratorNode); ok {
		v[n.Value] = n.Name
	}
}

// sizeVisitor counts nodes.
type sizeVisitor struct {
	values map[ast.Node]string
	sizes  map[string]int // of variables
	total  int
}

// Visit implements ast.Visitor.
func (v *sizeVisitor) Visit(node *ast.Node) {
	size := 1
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		size = max(1, v.sizes[n.Value])
	}
	v.total = min(v.total+size, maxWhenSize+1)
	if name, ok := v.values[*node]; ok {
		v.sizes[name] = v.total
	}
}
