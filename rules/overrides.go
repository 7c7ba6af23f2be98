package rules

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"maps"

	"sluice/limiter"
)

// Overrides is every override in force, compiled and immutable, safe for any
// number of goroutines. An Edit makes a new one that shares what did not change,
// so one edit does not cost the others. The zero value is not usable;
// NewOverrides makes an empty one.
//
// A million exact overrides of one rule take some 40 MB.
type Overrides struct {
	seed   hashSeed
	seq    int64
	byRule map[int64]*ruleOverrides
}

// ruleOverrides is those of one rule: a few recent edits over a large base, and
// the wildcards.
type ruleOverrides struct {
	base, recent *overrideTable // either may be nil
	prefixes     prefixTable
}

// StoredOverride is one row, or the end of one, as the rule database gives it to
// a node.
type StoredOverride struct {
	RuleID, ID int64
	// Match and Prefix are as in Override. An empty Match with Deleted ends all
	// overrides of the rule.
	Match  string
	Prefix bool
	// Deleted: there is no such override any more.
	Deleted            bool
	Unlimited, Blocked bool
	// Limit and Burst are in units, -1 where not given.
	Limit, Burst int64
	// ExpiresMS is in ms since the epoch, 0 for never.
	ExpiresMS int64
}

// AppliedOverride is the override that a match met. The zero value is none.
type AppliedOverride struct {
	// ID is the override's, 0 for none.
	ID int64
	// Prefix: its key is a wildcard.
	Prefix bool
	// Unlimited, Blocked: what it says, if not another limit.
	Unlimited, Blocked bool
}

// NewOverrides makes an empty collection. Its sequence is -1: nothing was loaded.
func NewOverrides() *Overrides {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return &Overrides{
		seed:   hashSeed{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])},
		seq:    -1,
		byRule: map[int64]*ruleOverrides{},
	}
}

// Seq is the number of the last change that is contained.
func (o *Overrides) Seq() int64 { return o.seq }

// Len is the number of overrides, without those known to have ended. It is exact
// just after a full load and may count a key twice while edits of it are recent.
func (o *Overrides) Len() int {
	n := 0
	for _, r := range o.byRule {
		n += len(r.prefixes)
		for _, t := range []*overrideTable{r.base, r.recent} {
			if t != nil {
				n += t.count
			}
		}
	}
	return n
}

// of gives the overrides of a rule, nil if it has none.
func (o *Overrides) of(rule int64) *ruleOverrides {
	if o == nil {
		return nil
	}
	return o.byRule[rule]
}

// OverrideEdit collects changes for a new Overrides. It is for one goroutine.
type OverrideEdit struct {
	from  *Overrides
	rules map[int64]*ruleEdit
}

// ruleEdit is the changes of one rule.
type ruleEdit struct {
	cleared  bool
	exact    []overrideEntry
	effects  interner
	prefixes map[string]*prefixEntry // nil for one that is gone
}

// Edit begins changes of o, which itself stays as it is.
func (o *Overrides) Edit() *OverrideEdit {
	return &OverrideEdit{from: o, rules: map[int64]*ruleEdit{}}
}

// Replace begins a collection that holds nothing of o but its hash key.
func (o *Overrides) Replace() *OverrideEdit {
	return (&Overrides{seed: o.seed, seq: -1}).Edit()
}

// Add puts in one row, over an earlier one with the same key.
func (e *OverrideEdit) Add(s StoredOverride) {
	r := e.rules[s.RuleID]
	if r == nil {
		r = &ruleEdit{prefixes: map[string]*prefixEntry{}}
		e.rules[s.RuleID] = r
	}
	f := effect{limit: s.Limit, burst: s.Burst, expires: s.ExpiresMS}
	switch {
	case s.Deleted && s.Match == "":
		*r = ruleEdit{cleared: true, prefixes: map[string]*prefixEntry{}}
		return
	case s.Blocked:
		f.kind = effectBlocked
	case s.Unlimited:
		f.kind = effectUnlimited
	}
	if s.Prefix {
		r.prefixes[s.Match] = nil
		if !s.Deleted {
			r.prefixes[s.Match] = &prefixEntry{match: s.Match, id: s.ID, effect: f}
		}
		return
	}
	entry := overrideEntry{id: s.ID, effect: gone}
	entry.a, entry.b = e.from.seed.sum([]byte(s.Match))
	if !s.Deleted {
		entry.effect = r.effects.add(f)
	}
	r.exact = append(r.exact, entry)
}

// Done gives the new collection. seq is the number of the last change in it, now
// (ms since the epoch) decides what has ended and can be left out.
func (e *OverrideEdit) Done(seq, now int64) *Overrides {
	out := &Overrides{seed: e.from.seed, seq: seq, byRule: maps.Clone(e.from.byRule)}
	if out.byRule == nil {
		out.byRule = map[int64]*ruleOverrides{}
	}
	for id, r := range e.rules {
		was := out.byRule[id]
		if was == nil || r.cleared {
			was = &ruleOverrides{}
		}
		is := r.over(was, now)
		if is.base == nil && is.recent == nil && len(is.prefixes) == 0 {
			delete(out.byRule, id)
			continue
		}
		out.byRule[id] = is
	}
	return out
}

// fewRecent is how many recent edits of a rule are kept apart before they are
// merged into its base, which reads all of that; a larger base has more.
const fewRecent = 1024

// over applies the changes of one rule.
func (r *ruleEdit) over(was *ruleOverrides, now int64) *ruleOverrides {
	is := &ruleOverrides{base: was.base, recent: was.recent, prefixes: was.prefixes}
	if len(r.prefixes) > 0 {
		is.prefixes = was.prefixes.with(r.prefixes, now)
	}
	if len(r.exact) == 0 {
		return is
	}
	changed := makeTable(r.exact, r.effects.list)
	if was.recent != nil {
		changed = overlay(was.recent, changed)
	}
	is.recent = changed
	size := 0
	if was.base != nil {
		size = was.base.count
	}
	if size == 0 || changed.count > max(fewRecent, size/64) {
		is.base, is.recent = merge(was.base, changed, now), nil
		if is.base.count == 0 {
			is.base = nil
		}
	}
	return is
}

// overlay puts the newer of two small tables over the older, keeping tombstones.
func overlay(older, newer *overrideTable) *overrideTable {
	var in interner
	all := make([]overrideEntry, 0, older.count+newer.count)
	for _, t := range []*overrideTable{older, newer} {
		for e := range t.all() {
			if e.effect != gone {
				e.effect = in.add(t.effects[e.effect])
			}
			all = append(all, e)
		}
	}
	return makeTable(all, in.list)
}

// ended reports whether an override is over.
func (e *effect) ended(now int64) bool { return e.expires != 0 && e.expires <= now }

// WithOverrides gives a set with the same rules and other overrides; s stays as
// it is. o may be nil.
func (s *Set) WithOverrides(o *Overrides) *Set {
	out := *s
	out.overrides = o
	return &out
}

// Overrides are those in force with the set, nil if none were ever given.
func (s *Set) Overrides() *Overrides { return s.overrides }

// override gives what the overrides o of rule c make of a limit, and whether the
// rule limits the request at all. key is the bucket's, limit and limited what
// holds without an override, now is in ms since the epoch.
func (k *keyer) override(o *ruleOverrides, c *Compiled, key []byte, limit limiter.Limit, limited bool, now int64) (limiter.Limit, AppliedOverride, bool) {
	a, f := o.find(k, c, key[:len(key)-len(c.suffix)], now)
	switch {
	case f == nil:
		return limit, a, limited
	case a.Unlimited:
		return limit, a, false
	}
	return f.apply(c.base(now)), a, true
}

// find looks for the override of a bucket of rule c: first its exact key, then
// the longest wildcard. facts is what the bucket's key says before the rule, now
// is in ms since the epoch. It costs one hash where there is no wildcard.
func (r *ruleOverrides) find(k *keyer, c *Compiled, facts []byte, now int64) (AppliedOverride, *effect) {
	if r.base != nil || r.recent != nil {
		if id, f := r.exact(k.set.overrides.seed, facts, now); f != nil {
			return applied(id, false, f), f
		}
	}
	if len(r.prefixes) == 0 {
		return AppliedOverride{}, nil
	}
	if e := r.wildcard(k, c, now); e != nil {
		return applied(e.id, true, &e.effect), &e.effect
	}
	return AppliedOverride{}, nil
}

func applied(id int64, prefix bool, f *effect) AppliedOverride {
	return AppliedOverride{ID: id, Prefix: prefix, Unlimited: f.kind == effectUnlimited, Blocked: f.kind == effectBlocked}
}

func (r *ruleOverrides) exact(seed hashSeed, facts []byte, now int64) (int64, *effect) {
	var buf [256]byte
	if bytes.IndexByte(facts, '%') >= 0 {
		facts = appendShort(buf[:0], facts)
	}
	a, b := seed.sum(facts)
	for _, t := range [2]*overrideTable{r.recent, r.base} {
		if t == nil {
			continue
		}
		e := t.find(a, b)
		if e == nil {
			continue
		}
		if e.effect == gone {
			return 0, nil
		}
		f := &t.effects[e.effect]
		if f.ended(now) {
			return 0, nil
		}
		return e.id, f
	}
	return 0, nil
}

// wildcard finds the longest wildcard: the one that names most facts, and of
// those the one that says most of the last. Whole values are compared as keys
// have them; the last one in clear, so that one too long for a key, or one that
// looks like a credential, does not slip past.
func (r *ruleOverrides) wildcard(k *keyer, c *Compiled, now int64) *prefixEntry {
	var (
		whole, open, one [256]byte
		found            *prefixEntry
	)
	before := append(whole[:0], '{')
	for i := range c.facts {
		f := &c.facts[i]
		if i > 0 {
			before = append(before, '+')
		}
		text := append(append(open[:0], before...), f.label...)
		least := len(text)
		switch f.kind {
		case factAPIKey:
			text = limiter.AppendHashed(text, k.d.APIKey)
		case factIP:
			text = k.set.appendIP(text, k.d.IP)
		default:
			text = appendClear(text, k.value(f))
		}
		if e := r.prefixes.longest(text, least, now); e != nil {
			found = e
		}
		if i == len(c.facts)-1 {
			break
		}
		before = appendShort(before, k.encode(one[:0], f))
		if i == 0 {
			before = append(before, '}')
		}
	}
	return found
}
