package envoyfile

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/rules/rulefile"
	"sluice/rules/tree"
)

// level is a list of descriptors: the children of one descriptor, or the descriptors of a domain.
type level struct {
	// composite holds the first descriptor with each composite key: the key, or the key and the value joined by "_".
	composite map[string]sibling
	// same are the descriptors by key and value.
	same map[[2]string]place
	// patterns are the patterns of a key, in the order of the files, without those that can never match.
	patterns map[string][]sibling
}

type sibling struct {
	key, value string
	place      place
	ends       ends // of a pattern
}

func newLevel() level {
	return level{composite: map[string]sibling{}, same: map[[2]string]place{}, patterns: map[string][]sibling{}}
}

// step is one descriptor on the way from the domain to a rule.
type step struct {
	key, value    string
	pattern, wide bool // the value contains a *; all its values share their limits
}

func (s step) composite() string {
	if s.value == "" {
		return s.key
	}
	return s.key + "_" + s.value
}

// descriptors reads a list of descriptors below path.
func (r *reader) descriptors(d *domain, lv *level, path []step, list []tree.Value) error {
	if len(list) > 0 && len(path) == rules.MaxEntries {
		r.problem(list[0].Line, "a descriptor can have at most %d entries", rules.MaxEntries)
		return nil
	}
	for i := range list {
		if list[i].Kind != tree.Object {
			r.problem(list[i].Line, "a descriptor must be an object, not %s", list[i].Kind)
		} else if err := r.descriptor(d, lv, path, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// descriptor reads one descriptor and those below it.
func (r *reader) descriptor(d *domain, lv *level, path []step, v *tree.Value) error {
	m := r.members(v, "key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode", "detailed_metric",
		"value_to_metric", "share_threshold", "metadata")
	s := step{key: r.text(m, "key"), value: r.text(m, "value")}
	s.pattern = strings.Contains(s.value, "*")
	dead := false
	switch {
	case s.key == "":
		r.problem(v.Line, "descriptor has empty key")
	case strings.Contains(s.key, "*"):
		r.problem(v.Line, "the key %s has a *, which only values may have here", tree.Shown(s.key))
	default:
		dead = r.stands(d, lv, path, s, v.Line)
	}
	if r.truth(m, "share_threshold") {
		if s.wide = s.pattern; !s.pattern {
			r.problem(m["share_threshold"].Line, "share_threshold needs a value with a *, but %s has none",
				tree.Shown(s.composite()))
		}
	}
	for _, name := range []string{"detailed_metric", "value_to_metric"} {
		if r.truth(m, name) {
			r.note(m[name].Line, "%s: top keys show the values of this limit; there is no metric for each value", name)
		}
	}
	path = append(path[:len(path):len(path)], s)
	before := len(r.rules)
	children := r.list(m, "descriptors")
	if err := r.rateLimit(d, path, v, m, len(children) == 0); err != nil {
		return err
	}
	below := newLevel()
	err := r.descriptors(d, &below, path, children)
	if dead {
		r.rules = r.rules[:before]
	}
	return err
}

// stands enters a descriptor in its level. It refuses duplicates, and patterns of which another would apply here than
// in envoyproxy/ratelimit. It reports whether no value can reach the descriptor.
func (r *reader) stands(d *domain, lv *level, path []step, s step, line int) (dead bool) {
	name := func(s step) string { return tree.Shown(fullKey(d.name, append(path[:len(path):len(path)], s))) }
	me := sibling{key: s.key, value: s.value, place: r.at(line)}
	if first, twice := lv.same[[2]string{s.key, s.value}]; twice {
		r.problem(line, "duplicate descriptor composite key %s, first at %s", name(s), first)
		return false
	}
	lv.same[[2]string{s.key, s.value}] = me.place
	if first, twice := lv.composite[s.composite()]; twice {
		r.note(line, "envoyproxy/ratelimit cannot tell %s from the descriptor at %s; here they are two", name(s), first.place)
	} else {
		lv.composite[s.composite()] = me
	}
	if !s.pattern {
		return false
	}
	if r.comparisons += len(lv.patterns[s.key]); r.comparisons > maxComparisons {
		return false
	}
	me.ends = endsOf(s.value)
	for i := range lv.patterns[s.key] {
		switch earlier := &lv.patterns[s.key][i]; {
		case !me.ends.overlap(&earlier.ends):
		case covers(earlier.value, s.value):
			r.note(line, "%s is left out: the pattern %s at %s comes first and matches all of its values",
				name(s), tree.Shown(earlier.value), earlier.place)
			return true
		case !entries.Before(earlier.value, s.value):
			r.problem(line, "%s and the earlier pattern %s at %s match some of the same values: envoyproxy/ratelimit takes the "+
				"earlier one, Sluice the one with more literal characters; write the more specific pattern first",
				name(s), tree.Shown(earlier.value), earlier.place)
		}
	}
	lv.patterns[s.key] = append(lv.patterns[s.key], me)
	return false
}

// rateLimit adds the rule of a descriptor, if it has one.
func (r *reader) rateLimit(d *domain, path []step, v *tree.Value, m map[string]*tree.Member, leaf bool) error {
	f := found{place: r.at(v.Line)}
	f.rule = rules.Rule{IsActive: true, Mode: rules.ModeEnforce, Descriptor: pathDescriptor(d.name, path)}
	f.rule.ShareThreshold = shareAll(f.rule.Descriptor.Entries)
	shadow, quota, metadata := r.truth(m, "shadow_mode"), r.truth(m, "quota_mode"), r.metadata(m)
	limit := m["rate_limit"]
	switch {
	case limit == nil || limit.Value.Kind == tree.Null:
		if leaf {
			f.rule.Unlimited = true
			r.note(v.Line, "%s has no rate_limit: it becomes a rule without a limit", tree.Shown(fullKey(d.name, path)))
		}
		for _, name := range []string{"shadow_mode", "quota_mode", "metadata"} {
			if m[name] != nil {
				r.note(m[name].Line, "%s has no effect without rate_limit, as in envoyproxy/ratelimit", name)
			}
		}
		if !leaf {
			return nil
		}
	case limit.Value.Kind != tree.Object:
		r.problem(limit.Line, "rate_limit must be an object, not %s", limit.Value.Kind)
		return nil
	default:
		r.limit(&f, &limit.Value)
		f.rule.Quota, f.rule.Metadata = quota, metadata
		if shadow {
			f.rule.Mode = rules.ModeShadow
		}
	}
	setAlgorithm(&f.rule, r.opt.Algorithm)
	if len(r.rules) == rulefile.MaxFileRules {
		return rulefile.TooLarge("has more than %d rules", rulefile.MaxFileRules)
	}
	r.rules = append(r.rules, &f)
	return nil
}

// setAlgorithm sets the algorithm of a new rule, with the members that belong to it.
func setAlgorithm(r *rules.Rule, name string) {
	r.Algorithm, r.Addend = name, rules.AddendCharge
	if name == "" {
		r.Algorithm = limiter.FixedWindow.String()
	}
	switch r.Algorithm {
	case limiter.FixedWindow.String():
		calendar := limiter.AlignCalendar.String()
		r.Align = &calendar
	case limiter.Concurrency.String():
		r.Addend = rules.AddendTake
	}
}

// limit reads a rate_limit.
func (r *reader) limit(f *found, v *tree.Value) {
	m := r.members(v, "unit", "requests_per_unit", "unlimited", "name", "replaces", "unit_multiplier")
	f.label = r.text(m, "name")
	for _, e := range r.list(m, "replaces") {
		if e.Kind != tree.Object {
			r.problem(e.Line, "an element of replaces must be an object with a name, not %s", e.Kind)
			continue
		}
		name := r.text(r.members(&e, "name"), "name")
		switch name {
		case "":
			r.problem(e.Line, "should not have an empty replaces entry")
		case f.label:
			r.problem(e.Line, "replaces should not contain name of same descriptor")
		default:
			f.replaces = append(f.replaces, label{name, e.Line})
		}
	}
	unit := r.text(m, "unit")
	length := entries.UnitNamed(strings.ToLower(unit)).Window
	requests, given := r.count(m, "requests_per_unit")
	multiplier, multiplied := r.count(m, "unit_multiplier")
	f.rule.Unlimited = r.truth(m, "unlimited")
	switch {
	case f.rule.Unlimited && length > 0:
		r.problem(m["unit"].Line, "should not specify rate limit unit when unlimited")
	case f.rule.Unlimited:
		return
	case length == 0:
		r.problem(v.Line, "invalid rate limit unit %s: it must be second, minute, hour, day, week, month or year",
			tree.Shown(unit))
	case multiplied && (multiplier == 0 || multiplier > limiter.MaxWindow/length):
		r.problem(m["unit_multiplier"].Line, "unit_multiplier must be from 1 to %d for the unit %s (ten years)",
			limiter.MaxWindow/length, strings.ToLower(unit))
	case !given:
		r.note(v.Line, "requests_per_unit is missing, so that every request is denied, as in envoyproxy/ratelimit")
	}
	f.rule.Limit, f.rule.WindowMS = requests, length*max(multiplier, 1)
	if !r.opt.CalendarMonths || strings.ToLower(unit) != rules.EveryMonth {
		return
	}
	if multiplier > 1 {
		r.note(v.Line, "several months do not follow the calendar; the window is %d days", f.rule.WindowMS/86_400_000)
		return
	}
	f.rule.Calendar = &rules.Calendar{Every: rules.EveryMonth, Zone: rules.ZoneUTC}
}

// metadata reads metadata. Values that are not text become their JSON text.
func (r *reader) metadata(m map[string]*tree.Member) map[string]string {
	at := m["metadata"]
	switch {
	case at == nil || at.Value.Kind == tree.Null:
		return nil
	case at.Value.Kind != tree.Object:
		r.problem(at.Line, "metadata must be an object, not %s", at.Value.Kind)
		return nil
	}
	out := make(map[string]string, len(at.Value.Members))
	for i := range at.Value.Members {
		e := &at.Value.Members[i]
		out[e.Name] = e.Value.Text
		if e.Value.Kind == tree.Text {
			continue
		}
		text := appendJSON(nil, &e.Value)
		out[e.Name] = string(text)
		if len(text) > rules.MaxMetadataValue {
			r.problem(e.Line, "metadata %s has more than %d bytes as JSON text", tree.Shown(e.Name), rules.MaxMetadataValue)
			continue
		}
		r.note(e.Line, "metadata %s is kept as its JSON text: %s", tree.Shown(e.Name), text)
	}
	return out
}

// appendJSON appends a value as JSON. It stops soon after the longest text that metadata may have.
func appendJSON(b []byte, v *tree.Value) []byte {
	switch v.Kind {
	case tree.Null:
		return append(b, "null"...)
	case tree.Truth:
		return strconv.AppendBool(b, isTrue(v.Text))
	case tree.Whole, tree.Number:
		return appendNumber(b, v.Text)
	case tree.Text:
		return append(b, field.JSONText(v.Text)...)
	}
	open, closing := byte('['), byte(']')
	if v.Kind == tree.Object {
		open, closing = '{', '}'
	}
	b = append(b, open)
	for i := 0; i < len(v.List)+len(v.Members) && len(b) <= rules.MaxMetadataValue; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		if v.Kind == tree.List {
			b = appendJSON(b, &v.List[i])
			continue
		}
		b = append(append(b, field.JSONText(v.Members[i].Name)...), ':')
		b = appendJSON(b, &v.Members[i].Value)
	}
	return append(b, closing)
}

// appendNumber appends a number of YAML, as it is written if that is JSON.
func appendNumber(b []byte, text string) []byte {
	if json.Valid([]byte(text)) {
		return append(b, text...)
	}
	if n, whole := wholeNumber(text); whole {
		return strconv.AppendInt(b, n, 10)
	}
	if f, number := realNumber(text); number && !math.IsInf(f, 0) {
		return strconv.AppendFloat(b, f, 'g', -1, 64)
	}
	return append(b, field.JSONText(text)...)
}

// pathDescriptor returns the descriptor of the rule at the end of a path.
func pathDescriptor(domain string, path []step) *rules.RuleDescriptor {
	list := make([]entries.Element, len(path))
	for i, s := range path {
		list[i] = entries.Element{Key: s.key, Value: s.value}
		if s.pattern {
			list[i] = entries.Element{Key: s.key, Pattern: s.value, Shared: s.wide}
		}
	}
	return &rules.RuleDescriptor{Domain: domain, Entries: list}
}

// shareAll reports whether all patterns of a descriptor share their limits. Their single marks are then cleared,
// because the rule's own mark says it.
func shareAll(list []entries.Element) bool {
	patterns, shared := 0, 0
	for _, e := range list {
		if e.Pattern != "" {
			patterns++
		}
		if e.Shared {
			shared++
		}
	}
	if shared == 0 || shared < patterns {
		return false
	}
	for i := range list {
		list[i].Shared = false
	}
	return true
}

// fullKey is what envoyproxy/ratelimit calls a descriptor in its metrics.
func fullKey(domain string, path []step) string {
	var b strings.Builder
	b.WriteString(domain)
	for _, s := range path {
		fmt.Fprintf(&b, ".%s", s.composite())
	}
	return b.String()
}
