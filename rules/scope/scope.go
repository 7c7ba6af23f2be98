// Package scope reads scopes: the facts by which a rule counts requests, such as user+ip.
package scope

import (
	"fmt"
	"slices"
	"strings"

	"sluice/rules/chars"
)

// MaxFacts is the largest number of facts in one scope.
const MaxFacts = 6

// Global is the scope without facts: one bucket for all requests.
const Global = "global"

// Kind is one kind of fact. The order is the priority by which the entity of a key is chosen: Redis Cluster hashes the
// first kind present in a scope, so that the buckets of one user (or, without a user, of one API key, and so on) share
// a slot whatever other facts the scopes name.
type Kind uint8

// The kinds of facts.
const (
	User Kind = iota
	APIKey
	Attribute
	IP
	Host
	Tier
	Route
	Method
	Kinds
)

// Names are the kinds as written in scopes.
var Names = [Kinds]string{"user", "apikey", "attr", "ip", "host", "tier", "route", "method"}

// Fact is one part of a scope. Label precedes the value in keys and displays: "user:" or
// "attr:tenant:".
type Fact struct {
	Kind      Kind
	Attribute string // the attribute's name, for the kind Attribute
	Label     string
}

// Name returns the fact as written in a scope.
func (f Fact) Name() string { return f.Label[:len(f.Label)-1] }

const scopeHelp = "must be global, or a sum such as user+ip of distinct facts among ip, user, apikey, tier, host, " +
	"route, method and attr:<name>"

// Parse parses a scope. Facts are returned in the order of keys: by kind, then attributes by
// name; none for global.
func Parse(s string) ([]Fact, error) {
	if s == Global {
		return nil, nil
	}
	parts := strings.Split(s, "+")
	if len(parts) > MaxFacts {
		return nil, fmt.Errorf("must not name more than %d facts", MaxFacts)
	}
	facts := make([]Fact, 0, len(parts))
	for _, p := range parts {
		f, err := parseFact(p)
		if err != nil {
			return nil, err
		}
		if slices.Contains(facts, f) {
			return nil, fmt.Errorf("must not name %s twice", p)
		}
		facts = append(facts, f)
	}
	slices.SortFunc(facts, func(a, b Fact) int {
		if a.Kind != b.Kind {
			return int(a.Kind) - int(b.Kind)
		}
		return strings.Compare(a.Attribute, b.Attribute)
	})
	return facts, nil
}

func parseFact(p string) (Fact, error) {
	if name, ok := strings.CutPrefix(p, "attr:"); ok {
		if !chars.IsName(name) {
			return Fact{}, fmt.Errorf("attr: must be followed by 1 to %d letters, digits, _, . or -", chars.MaxName)
		}
		return Fact{Kind: Attribute, Attribute: name, Label: "attr:" + name + ":"}, nil
	}
	if p == Global {
		return Fact{}, fmt.Errorf("global cannot be combined with other facts")
	}
	for k, name := range Names {
		if p == name && Kind(k) != Attribute {
			return Fact{Kind: Kind(k), Label: name + ":"}, nil
		}
	}
	return Fact{}, fmt.Errorf("%s", scopeHelp)
}
