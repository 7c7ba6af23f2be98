package rules

import (
	"fmt"
	"slices"
	"strings"

	"sluice/rules/chars"
)

// MaxScopeFacts is the largest number of facts in one scope.
const MaxScopeFacts = 6

// ScopeGlobal is the scope without facts: one bucket for all requests.
const ScopeGlobal = "global"

// factKind is one kind of fact. The order is the priority by which the entity of a key is chosen:
// Redis Cluster hashes the first kind present in a scope, so that the buckets of one user (or else
// one API key, and so on) share a slot whatever else the scopes name.
type factKind uint8

const (
	factUser factKind = iota
	factAPIKey
	factAttr
	factIP
	factHost
	factTier
	factRoute
	factMethod
	factKinds
)

var factNames = [factKinds]string{"user", "apikey", "attr", "ip", "host", "tier", "route", "method"}

// fact is one part of a scope. Label precedes the value in keys and displays: "user:" or
// "attr:tenant:".
type fact struct {
	kind  factKind
	attr  string // the attribute's name, for factAttr
	label string
}

// name returns the fact as written in a scope.
func (f fact) name() string { return f.label[:len(f.label)-1] }

const scopeHelp = "must be global, or a sum such as user+ip of distinct facts among ip, user, apikey, tier, host, " +
	"route, method and attr:<name>"

// parseScope parses a scope. Facts are returned in the order of keys: by kind, then attributes by
// name; none for global.
func parseScope(s string) ([]fact, error) {
	if s == ScopeGlobal {
		return nil, nil
	}
	parts := strings.Split(s, "+")
	if len(parts) > MaxScopeFacts {
		return nil, fmt.Errorf("must not name more than %d facts", MaxScopeFacts)
	}
	facts := make([]fact, 0, len(parts))
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
	slices.SortFunc(facts, func(a, b fact) int {
		if a.kind != b.kind {
			return int(a.kind) - int(b.kind)
		}
		return strings.Compare(a.attr, b.attr)
	})
	return facts, nil
}

func parseFact(p string) (fact, error) {
	if name, ok := strings.CutPrefix(p, "attr:"); ok {
		if !chars.IsName(name) {
			return fact{}, fmt.Errorf("attr: must be followed by 1 to %d letters, digits, _, . or -", chars.MaxName)
		}
		return fact{kind: factAttr, attr: name, label: "attr:" + name + ":"}, nil
	}
	if p == ScopeGlobal {
		return fact{}, fmt.Errorf("global cannot be combined with other facts")
	}
	for k, name := range factNames {
		if p == name && factKind(k) != factAttr {
			return fact{kind: factKind(k), label: name + ":"}, nil
		}
	}
	return fact{}, fmt.Errorf("%s", scopeHelp)
}
