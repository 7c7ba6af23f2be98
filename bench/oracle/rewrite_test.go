//go:build !race

package oracle

import "strings"

// A rewriting writes the same configuration, and the same descriptors, in another way.
type rewriting struct {
	// names rewrites domains and keys, values the values of nodes, and sent those of descriptors; nil keeps them.
	names, values, sent func(string) string
}

// The peer joins domain, key and value by underscores, so that `a` with the value `b_c` and `a_b` with the value `c` are
// one text there. And a client that sends the text of a pattern, `foo*`, gets this pattern there, also where an earlier
// one fits. Written without both, nothing is ambiguous there, and the peer must agree with Sluice.
var unambiguous = rewriting{names: noUnderscore, values: noUnderscore,
	sent: func(s string) string { return noStar(noUnderscore(s)) }}

// A key `x*` without a value is a pattern of key and value there. The import refuses it, with these words.
var (
	refusal      = "which only values may have here"
	withoutStars = rewriting{names: noStar}
)

// Both return a text that no other text of the generator becomes.
func noUnderscore(s string) string { return strings.ReplaceAll(s, "_", "‿") }
func noStar(s string) string       { return strings.ReplaceAll(s, "*", "⁎") }

// rewrite returns copies of files and descriptors.
func (w *rewriting) rewrite(fs []*file, ds []descriptor) ([]*file, []descriptor) {
	by := func(do func(string) string, s string) string {
		if do == nil {
			return s
		}
		return do(s)
	}
	var level func(ns []*node) []*node
	level = func(ns []*node) []*node {
		out := make([]*node, len(ns))
		for i, n := range ns {
			c := *n
			c.Key, c.Value, c.Descriptors = by(w.names, n.Key), by(w.values, n.Value), level(n.Descriptors)
			out[i] = &c
		}
		return out
	}
	files := make([]*file, len(fs))
	for i, f := range fs {
		files[i] = &file{Domain: by(w.names, f.Domain), Descriptors: level(f.Descriptors)}
	}
	descriptors := make([]descriptor, len(ds))
	for i, d := range ds {
		descriptors[i].domain = by(w.names, d.domain)
		for _, p := range d.pairs {
			descriptors[i].pairs = append(descriptors[i].pairs, pair{by(w.names, p.key), by(w.sent, p.value)})
		}
	}
	return files, descriptors
}
