package when

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/rules/host"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// nameCIDR is a function of conditions.
const nameCIDR = "cidr"

// networks are the networks in one call of cidr.
type networks []netip.Prefix

// cidr is the function cidr(ip, "10.0.0.0/8", …). whenVisitor has replaced the networks by one *networks.
var cidr = expr.Function(nameCIDR, func(params ...any) (any, error) {
	text, isText := params[0].(string)
	in, compiled := params[1].(*networks)
	ip, err := netip.ParseAddr(text)
	return isText && compiled && err == nil &&
		slices.ContainsFunc(*in, func(p netip.Prefix) bool { return p.Contains(ip) }), nil
}, new(func(string, any) bool))

// networks compiles the networks of a call of cidr.
func (v *whenVisitor) networks(call *ast.CallNode) {
	const form = `write cidr(ip, "10.0.0.0/8") with one network or several`
	if len(call.Arguments) < 2 {
		v.refuse(call, form)
		return
	}
	if ip, ok := call.Arguments[0].(*ast.IdentifierNode); !ok || ip.Value != "ip" {
		v.refuse(call.Arguments[0], "the first argument of cidr must be ip; "+form)
		return
	}
	var in networks
	for _, arg := range call.Arguments[1:] {
		text, ok := arg.(*ast.StringNode)
		if !ok {
			v.refuse(arg, "the networks of cidr must be texts in quotes; "+form)
			return
		}
		network, err := host.ParseNetwork(text.Value)
		if err != nil {
			v.refuse(arg, "the network "+err.Error())
			return
		}
		in = append(in, network)
	}
	v.cidrs = append(v.cidrs, &in)
	all := &ast.ConstantNode{Value: &in}
	all.SetLocation(call.Arguments[1].Location())
	call.Arguments = []ast.Node{call.Arguments[0], all}
}

// Normalize replaces each network of the condition by what normal returns for it. It must not run concurrently with
// Holds.
func (c *Condition) Normalize(normal func(netip.Prefix) netip.Prefix) {
	for _, in := range c.cidrs {
		for i, p := range *in {
			(*in)[i] = normal(p)
		}
	}
}

// comparedNetwork returns the part of a comparison that compares ip with a text that looks like a network, and the text
// to write instead, nil if there is none. No address equals such a text.
func comparedNetwork(n *ast.BinaryNode) (ast.Node, string) {
	if !slices.Contains([]string{"==", "!=", "in"}, n.Operator) {
		return nil, ""
	}
	for _, side := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		if ip, ok := side[0].(*ast.IdentifierNode); !ok || ip.Value != "ip" {
			continue
		}
		others := []ast.Node{side[1]}
		if list, ok := side[1].(*ast.ArrayNode); ok {
			others = list.Nodes
		}
		for _, other := range others {
			if text, ok := other.(*ast.StringNode); ok && looksLikeNetwork(text.Value) {
				return other, fmt.Sprintf("ip is one address and never equals a network; write cidr(ip, %q)", text.Value)
			}
		}
	}
	return nil, ""
}

// looksLikeNetwork reports whether a text is an address, a slash and whatever people write for its size.
func looksLikeNetwork(s string) bool {
	address, _, ok := strings.Cut(s, "/")
	_, err := netip.ParseAddr(strings.TrimSpace(address))
	return ok && err == nil
}
