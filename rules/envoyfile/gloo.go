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
)

// Gloo Gateway has the descriptors of envoyproxy/ratelimit in objects of Kubernetes, with names in another case. Its
// sets apply to requests that have all of their values, in any order and beside others. A rule of Sluice with a
// descriptor does not, so a set becomes a rule on attributes, which a profile reads from the descriptors.

// glooDomain is the domain of the limits in Gloo's settings.
const glooDomain = "custom"

// maxSets bounds the sets of a domain, each of which is compared with those before it.
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

// sets reads the sets of a domain. line is that of the domain.
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
		r.set(d, &list[i], attributes)
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
	f.rule.Scope = s.scope()
	if len(conditions) > 0 {
		f.rule.When = new(strings.Join(conditions, " and "))
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

// conditions returns what must hold for the set to be the first that applies, beside the facts of its scope. first is
// the index of an earlier set that applies to all requests of this one, -1 if there is none.
func (s set) conditions(earlier []set) (conditions []string, first int) {
	for _, key := range s.keys() {
		if s[key] != "" {
			conditions = append(conditions, condition(key, s[key]))
		}
	}
	for i, e := range earlier {
		var more []string // that e asks for
		apart := false
		for _, key := range e.keys() {
			value, same := s[key]
			switch {
			case !same, value == "" && e[key] != "":
				more = append(more, condition(key, e[key]))
			case e[key] != "" && e[key] != value:
				apart = true
			}
		}
		switch {
		case apart:
		case more == nil:
			return nil, i
		default:
			conditions = append(conditions, "not ("+strings.Join(more, " and ")+")")
		}
	}
	return conditions, -1
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
