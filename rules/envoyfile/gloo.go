package envoyfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/rules/rulefile"
	"sluice/rules/tree"
	"sluice/rules/when"
)

// Gloo Gateway keeps the descriptors of envoyproxy/ratelimit in objects of Kubernetes, with names in another case. Its
// sets apply to requests that contain all of their values, in any order and among others. A rule of Sluice with a
// descriptor does not, so a set becomes a rule on attributes, which a profile reads from the descriptors.

// glooDomain is the domain of the limits in Gloo's settings.
const glooDomain = "custom"

// maxSets bounds the sets of a domain, because each set is compared with all earlier ones.
const maxSets = 1000

// setMark begins the names of rules that were sets.
const setMark = "set."

// glooMembers are the names of members that Gloo writes in its own case.
var glooMembers = map[string]string{"rateLimit": "rate_limit", "requestsPerUnit": "requests_per_unit",
	"setDescriptors": "set_descriptors", "simpleDescriptors": "simple_descriptors", "alwaysApply": "always_apply"}

// fromGloo returns the configuration in an object of Gloo, or root itself if it is none.
func fromGloo(root *tree.Value) *tree.Value {
	kind, version := root.Member("kind"), root.Member("apiVersion")
	var in *tree.Value
	var domain []tree.Member
	switch {
	case root.Member("setDescriptors") != nil:
		in = root
	case kind == nil || version == nil:
		return root
	case kind.Text == "Settings" && strings.HasPrefix(version.Text, "gloo.solo.io/"):
		in = within(root, "spec", "ratelimit")
		domain = []tree.Member{{Name: "domain", Line: root.Line, Value: tree.Value{Kind: tree.Text, Text: glooDomain}}}
	}
	if in == nil || in.Kind != tree.Object {
		return root
	}
	out := *in
	out.Members = slices.Concat(domain, in.Members)
	renameMembers(&out)
	return &out
}

func within(v *tree.Value, path ...string) *tree.Value {
	for _, name := range path {
		if v = v.Member(name); v == nil {
			return nil
		}
	}
	return v
}

// renameMembers gives members the names that envoyproxy/ratelimit has for them.
func renameMembers(v *tree.Value) {
	for i := range v.List {
		renameMembers(&v.List[i])
	}
	for i := range v.Members {
		if name := glooMembers[v.Members[i].Name]; name != "" {
			v.Members[i].Name = name
		}
		renameMembers(&v.Members[i].Value)
	}
}

// set holds the keys of a set with their values, "" for any value.
type set map[string]string

func (s set) keys() []string {
	keys := make([]string, 0, len(s))
	for key := range s {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// sets reads the sets of a domain. line is the line of the domain.
func (r *reader) sets(d *domain, list []tree.Value, line int) error {
	attributes := map[string]string{}
	for i := range list {
		switch {
		case list[i].Kind != tree.Object:
			r.problem(list[i].Line, "a set must be an object, not %s", list[i].Kind)
			continue
		case len(d.sets) == maxSets:
			r.problem(list[i].Line, "a domain can have at most %d sets", maxSets)
			return nil
		case len(r.rules) == rulefile.MaxFileRules:
			return rulefile.TooLarge("has more than %d rules", rulefile.MaxFileRules)
		}
		if r.set(d, &list[i], attributes); r.comparisons > maxComparisons {
			return rulefile.TooLarge("has too many sets with many keys")
		}
	}
	if len(attributes) > 0 {
		profile, err := json.Marshal(map[string]any{"domain": d.name, "entries": attributes})
		if err != nil { // impossible: texts
			return err
		}
		r.note(line, "the rules of sets need a profile that reads the descriptors of the domain as attributes: %s", profile)
	}
	return nil
}

// set reads a set and adds its rule, unless an earlier one always applies instead.
func (r *reader) set(d *domain, v *tree.Value, attributes map[string]string) {
	m := r.members(v, "simple_descriptors", "rate_limit", "always_apply")
	s, descriptor := set{}, &rules.RuleDescriptor{Domain: setMark + d.name}
	for _, e := range r.list(m, "simple_descriptors") {
		if e.Kind != tree.Object {
			r.problem(e.Line, "a descriptor must be an object, not %s", e.Kind)
			continue
		}
		em := r.members(&e, "key", "value")
		key := r.text(em, "key")
		switch _, twice := s[key]; {
		case !chars.IsName(key):
			r.problem(e.Line, "the key %s must be the name of an attribute: 1 to %d letters, digits, '_', '.' and '-'",
				tree.Shown(key), chars.MaxName)
			continue
		case twice:
			r.problem(e.Line, "the key %s is in the set twice", tree.Shown(key))
		}
		s[key], attributes[key] = r.text(em, "value"), field.AttributePrefix+key
	}
	for _, key := range s.keys() {
		descriptor.Entries = append(descriptor.Entries, entries.Element{Key: key, Value: s[key]})
	}
	f := found{place: r.at(v.Line), set: descriptor}
	f.rule = rules.Rule{IsActive: true, Mode: rules.ModeEnforce}
	limit := m["rate_limit"]
	if limit == nil || limit.Value.Kind != tree.Object {
		r.problem(v.Line, "a set must have a rate_limit, which is an object")
		return
	}
	r.limit(&f, &limit.Value)
	setAlgorithm(&f.rule, r.opt.Algorithm)
	f.rule.Addend = rules.AddendTake
	if f.rule.Unlimited || len(f.replaces) > 0 {
		r.problem(limit.Line, "unlimited and replaces have no meaning in a set")
		return
	}
	r.comparisons += len(d.sets) * (1 + len(s))
	if i := slices.IndexFunc(d.sets, func(e set) bool { return maps.Equal(e, s) }); i >= 0 {
		r.problem(v.Line, "the set stands twice, first at %s", d.places[i])
		return
	}
	earlier := d.sets
	if r.truth(m, "always_apply") {
		earlier = nil
	}
	conditions, first := s.conditions(earlier)
	if first >= 0 {
		r.note(v.Line, "%s is left out: the set at %s comes first and applies to all of its requests",
			tree.Shown(fullKey(d.name, steps(descriptor))), d.places[first])
		return
	}
	if len(conditions) > when.MaxBytes {
		r.problem(v.Line, "the condition of the set would have more than %d bytes: it has the values of the set, and those "+
			"of the sets before it that can apply to the same requests", when.MaxBytes)
		return
	}
	f.rule.Scope = s.scope()
	if conditions != "" {
		f.rule.When = &conditions
	}
	d.sets, d.places = append(d.sets, s), append(d.places, f.place)
	r.rules = append(r.rules, &f)
}

func (s set) scope() string {
	var parts []string
	for _, key := range s.keys() {
		if s[key] == "" {
			parts = append(parts, field.AttributePrefix+key)
		}
	}
	if len(parts) == 0 {
		return "global"
	}
	return strings.Join(parts, "+")
}

// conditions returns the condition, in addition to the facts of its scope, under which the set is the first that
// applies. It stops soon after the greatest length of a condition. first is the index of an earlier set that applies to
// all requests of this one, -1 if there is none.
func (s set) conditions(earlier []set) (conditions string, first int) {
	var b strings.Builder
	and := func(texts ...string) {
		for _, text := range texts {
			if b.Len() > 0 {
				b.WriteString(" and ")
			}
			b.WriteString(text)
		}
	}
	for _, key := range s.keys() {
		if s[key] != "" {
			and(condition(key, s[key]))
		}
	}
	for i, e := range earlier {
		switch {
		case s.apart(e):
		case s.within(e):
			return "", i
		case b.Len() <= when.MaxBytes:
			and("not (" + strings.Join(s.lacks(e), " and ") + ")")
		}
	}
	return b.String(), -1
}

// apart reports whether no request has all values of both sets.
func (s set) apart(e set) bool {
	for key, value := range s {
		if other := e[key]; value != "" && other != "" && value != other {
			return true
		}
	}
	return false
}

// within reports whether every request with all values of s also has all values of e. The two sets are not apart.
func (s set) within(e set) bool {
	for key, other := range e {
		if value, same := s[key]; !same || value == "" && other != "" {
			return false
		}
	}
	return true
}

// lacks returns what e asks for that s does not.
func (s set) lacks(e set) (conditions []string) {
	for _, key := range e.keys() {
		if value, same := s[key]; !same || value == "" && e[key] != "" {
			conditions = append(conditions, condition(key, e[key]))
		}
	}
	return conditions
}

func condition(key, value string) string {
	name := "attributes[" + strconv.Quote(key) + "]"
	if value == "" {
		return name + ` != ""`
	}
	return name + " == " + strconv.Quote(value)
}

// ofSets matches the names of rules that were sets of a domain.
func ofSets(domain string) *regexp.Regexp {
	name := unfit.ReplaceAllString(strings.ToLower(setMark+domain), "-")
	return regexp.MustCompile(fmt.Sprintf(`^%s(\..*)?(-[0-9a-f]{%d})?$`, regexp.QuoteMeta(name), hashDigits))
}
