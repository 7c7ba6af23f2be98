//go:build !race

package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gopkg.in/yaml.v2"
)

// A file is one configuration file of the peer. Its structure is that of the YAML.
type file struct {
	Domain      string  `yaml:"domain"`
	Descriptors []*node `yaml:"descriptors"`
}

// A node is one descriptor of a file. Its number identifies it, and is the same in the altered copies of a file.
type node struct {
	Key            string  `yaml:"key"`
	Value          string  `yaml:"value,omitempty"`
	Limit          *limit  `yaml:"rate_limit,omitempty"`
	Shadow         bool    `yaml:"shadow_mode,omitempty"`
	Quota          bool    `yaml:"quota_mode,omitempty"`
	DetailedMetric bool    `yaml:"detailed_metric,omitempty"`
	ValueToMetric  bool    `yaml:"value_to_metric,omitempty"`
	Share          bool    `yaml:"share_threshold,omitempty"`
	Descriptors    []*node `yaml:"descriptors,omitempty"`
	number         int
}

type limit struct {
	Count     uint32    `yaml:"requests_per_unit,omitempty"`
	Unit      string    `yaml:"unit,omitempty"`
	Unlimited bool      `yaml:"unlimited,omitempty"`
	Name      string    `yaml:"name,omitempty"`
	Replaces  []replace `yaml:"replaces,omitempty"`
}

type replace struct {
	Name string `yaml:"name"`
}

// nodes is the greatest number of nodes of a configuration. The number of a node is Count modulo nodes, or stands in
// its name.
const nodes = 1000

// A pair is one entry of a descriptor.
type pair struct{ key, value string }

// A descriptor is one that Envoy could send.
type descriptor struct {
	domain string
	pairs  []pair
}

// The words are few, so that nodes overlap and descriptors meet them. Some differ only by an underscore, at which the
// peer joins key and value.
var (
	keys     = []string{"a", "a_b", "a_", "path", "user", "x*"}
	literals = []string{"c", "b_c", "foo", "foobar", "foo_bar", "/v1", "/v1/a", "", "ä", "a+b=c:d", "{x}", "_"}
	patterns = []string{"*", "f*", "foo*", "foo_*", "/v1*", "/v1/*", "b_*", "_*"}
	units    = []string{"second", "minute", "hour", "day", "week", "month", "year", "Hour", "DAY"}
	names    = []string{"per-user", "burst", "shared name", "ü"}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// generator makes configurations and descriptors.
type generator struct {
	*rand.Rand
	made int // nodes of the configuration
}

// files returns one or two files of different domains.
func (g *generator) files() []*file {
	g.made = 0
	fs := []*file{{Domain: "d", Descriptors: g.nodes(1)}}
	if chance(g.Rand, 20) {
		fs = append(fs, &file{Domain: pick(g.Rand, []string{"d_a", "e"}), Descriptors: g.nodes(1)})
	}
	return fs
}

func (g *generator) nodes(depth int) []*node {
	var ns []*node
	for range 1 + g.IntN(6-depth) {
		n := &node{Key: pick(g.Rand, keys), number: g.made}
		switch g.IntN(10) {
		case 0, 1, 2: // any value
		case 3, 4, 5:
			n.Value = pick(g.Rand, patterns)
		default:
			n.Value = pick(g.Rand, literals)
		}
		if strings.HasPrefix(n.Key, "x") && !chance(g.Rand, 10) {
			n.Key = "x"
		}
		taken := func(o *node) bool { return o.Key == n.Key && o.Value == n.Value }
		if slices.ContainsFunc(ns, taken) {
			continue // the peer refuses a file with both
		}
		g.made++
		n.Share = strings.HasSuffix(n.Value, "*") && chance(g.Rand, 50)
		n.Shadow, n.Quota = chance(g.Rand, 15), chance(g.Rand, 15)
		n.DetailedMetric, n.ValueToMetric = chance(g.Rand, 20), chance(g.Rand, 20)
		if chance(g.Rand, 75) {
			n.Limit = g.limit(n.number)
		}
		if depth < 4 && chance(g.Rand, 55-10*depth) {
			n.Descriptors = g.nodes(depth + 1)
		}
		ns = append(ns, n)
	}
	return ns
}

func (g *generator) limit(number int) *limit {
	l := &limit{Count: uint32(number + nodes*(1+g.IntN(40))), Unit: pick(g.Rand, units)}
	switch {
	case chance(g.Rand, 12):
		*l = limit{Unlimited: true, Name: fmt.Sprintf("only-%d", number)}
	case chance(g.Rand, 10):
		l.Count, l.Name = 0, fmt.Sprintf("only-%d", number)
	case chance(g.Rand, 40):
		l.Name = pick(g.Rand, names)
	}
	for range g.IntN(3) {
		if to := pick(g.Rand, append(names, fmt.Sprintf("only-%d", g.IntN(10)), "nobody")); to != l.Name {
			l.Replaces = append(l.Replaces, replace{to})
		}
	}
	return l
}

// descriptors returns descriptors that walk through the files, and some that leave them.
func (g *generator) descriptors(fs []*file, count int) []descriptor {
	ds := make([]descriptor, count)
	for i := range ds {
		f := pick(g.Rand, fs)
		ds[i].domain = f.Domain
		if chance(g.Rand, 2) {
			ds[i].domain = "unknown"
		}
		for level := f.Descriptors; ; {
			if len(level) == 0 || chance(g.Rand, 5) {
				if len(ds[i].pairs) == 0 || chance(g.Rand, 10) {
					ds[i].pairs = append(ds[i].pairs, pair{pick(g.Rand, keys), pick(g.Rand, literals)})
				}
				break
			}
			n := pick(g.Rand, level)
			ds[i].pairs = append(ds[i].pairs, g.pair(n))
			level = n.Descriptors
			if n.Limit != nil && chance(g.Rand, 60) {
				break
			}
		}
	}
	return ds
}

// pair returns an entry that the node matches, as a rule.
func (g *generator) pair(n *node) pair {
	p := pair{n.Key, n.Value}
	switch prefix, isPattern := strings.CutSuffix(n.Value, "*"); {
	case n.Value == "":
		p.value = pick(g.Rand, literals)
	case isPattern && !chance(g.Rand, 5): // else a value that is the text of the pattern
		p.value = prefix + pick(g.Rand, []string{"", "1", "2", "bar", "a", "_"})
	}
	switch g.IntN(25) {
	case 0:
		p.value = pick(g.Rand, literals)
	case 1: // the same text for the peer, cut elsewhere
		if k, v, ok := strings.Cut(p.key+"_"+p.value, "_"); ok && k != "" {
			p = pair{k, v}
		}
	}
	return p
}

// yaml returns the text of a file.
func (f *file) yaml() string {
	b, err := yaml.Marshal(f)
	if err != nil {
		panic(err) // of a type that cannot be marshalled
	}
	return string(b)
}

// each calls do for every node of the files, with the nodes above it, the uppermost first.
func each(fs []*file, do func(f *file, path []*node)) {
	var walk func(f *file, path []*node)
	walk = func(f *file, path []*node) {
		do(f, path)
		for _, n := range path[len(path)-1].Descriptors {
			walk(f, append(slices.Clone(path), n))
		}
	}
	for _, f := range fs {
		for _, n := range f.Descriptors {
			walk(f, []*node{n})
		}
	}
}
