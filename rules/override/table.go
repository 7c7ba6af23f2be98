package override

import (
	"crypto/rand"
	"encoding/binary"
	"maps"
)

// Table holds every override in force, compiled and immutable, safe for concurrent use. An Edit
// creates a new one that shares unchanged parts, so that an edit does not pay for the other
// overrides. The zero value is not usable; New creates an empty one.
//
// A million exact overrides of one rule take some 40 MB.
type Table struct {
	seed   hashSeed
	seq    int64
	byRule map[int64]*OfRule
}

// OfRule holds the overrides of one rule: a few recent edits over a large base, of exact keys and of networks, and
// the wildcards.
type OfRule struct {
	seed                     hashSeed
	base, recent             *hashTable // either may be nil
	networks, recentNetworks *networkTable
	prefixes                 prefixTable
}

// Row is one override, or its deletion, as loaded from the rules database.
type Row struct {
	RuleID, ID int64
	// Match and Prefix are as in rules.Override. An empty Match with Deleted deletes all overrides
	// of the rule. A Match whose address has a prefix length is for a network.
	Match  string
	Prefix bool
	// Deleted reports that the override was deleted.
	Deleted            bool
	Unlimited, Blocked bool
	// Limit and Burst are in units, -1 where not given. A row that gives no limit, and is neither Unlimited nor Blocked,
	// leaves the rule's.
	Limit, Burst int64
	// Calendar replaces parts of the rule's calendar; the zero Calendar is none.
	Calendar Calendar
	// ExpiresMS is in ms since the epoch, 0 for never.
	ExpiresMS int64
}

// Applied identifies the override that applied to a match. The zero value is none.
type Applied struct {
	// ID is the override's, 0 for none.
	ID int64
	// Prefix reports that its key is a wildcard.
	Prefix bool
	// Unlimited and Blocked are its effect, if it does not set another limit.
	Unlimited, Blocked bool
	// KeepsLimit reports that it leaves the limits of the rule and of its tiers. Calendar reports that its key has
	// other periods.
	KeepsLimit, Calendar bool
	// Network is the prefix length of the network that its key names plus 1, 0 if it names one bucket or a wildcard.
	Network uint8
}

// Several reports that its key names more than one bucket, or may.
func (a Applied) Several() bool { return a.Prefix || a.Network > 0 }

// New creates an empty table. Its sequence is -1: nothing was loaded.
func New() *Table {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return &Table{
		seed:   hashSeed{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])},
		seq:    -1,
		byRule: map[int64]*OfRule{},
	}
}

// Seq returns the number of the last change in the table.
func (o *Table) Seq() int64 { return o.seq }

// Len returns the number of overrides, except those known to have expired. It is exact just after
// a full load and may count a key twice while its edits are recent.
func (o *Table) Len() int {
	n := 0
	for _, r := range o.byRule {
		n += len(r.prefixes) + r.networks.len() + r.recentNetworks.len()
		for _, t := range []*hashTable{r.base, r.recent} {
			if t != nil {
				n += t.count
			}
		}
	}
	return n
}

// Of returns the overrides of a rule, nil if it has none.
func (o *Table) Of(rule int64) *OfRule {
	if o == nil {
		return nil
	}
	return o.byRule[rule]
}

// Edit collects changes for a new Table. It is not safe for concurrent use.
type Edit struct {
	from  *Table
	rules map[int64]*ruleEdit
}

// ruleEdit holds the changes of one rule.
type ruleEdit struct {
	cleared  bool
	exact    []hashEntry
	networks []networkEntry
	effects  interner                // of both
	prefixes map[string]*prefixEntry // nil for one that is gone
}

// Edit starts a set of changes of o, which is not modified.
func (o *Table) Edit() *Edit {
	return &Edit{from: o, rules: map[int64]*ruleEdit{}}
}

// Replace starts a new table that takes only the hash key from o.
func (o *Table) Replace() *Edit {
	return (&Table{seed: o.seed, seq: -1}).Edit()
}

// Add adds one row and replaces an earlier one with the same key.
func (e *Edit) Add(s Row) {
	r := e.rules[s.RuleID]
	if r == nil {
		r = &ruleEdit{prefixes: map[string]*prefixEntry{}}
		e.rules[s.RuleID] = r
	}
	f := Effect{limit: s.Limit, burst: s.Burst, expires: s.ExpiresMS}.with(s.Calendar)
	switch {
	case s.Deleted && s.Match == "":
		*r = ruleEdit{cleared: true, prefixes: map[string]*prefixEntry{}}
		return
	case s.Blocked:
		f.limit = blocked
	case s.Unlimited:
		f.limit = unlimited
	}
	if s.Prefix {
		r.prefixes[s.Match] = nil
		if !s.Deleted {
			r.prefixes[s.Match] = &prefixEntry{match: s.Match, id: s.ID, effect: f}
		}
		return
	}
	effect := gone
	if !s.Deleted {
		effect = r.effects.add(f)
	}
	if n, ok := e.from.seed.parseNetwork([]byte(s.Match)); ok {
		r.networks = append(r.networks, networkEntry{network: n, id: s.ID, effect: effect})
		return
	}
	entry := hashEntry{id: s.ID, effect: effect}
	entry.a, entry.b = e.from.seed.sum([]byte(s.Match))
	r.exact = append(r.exact, entry)
}

// Done returns the new table. seq is the number of the last change in it; now (ms since the epoch)
// decides which overrides have expired and are left out.
func (e *Edit) Done(seq, now int64) *Table {
	out := &Table{seed: e.from.seed, seq: seq, byRule: maps.Clone(e.from.byRule)}
	if out.byRule == nil {
		out.byRule = map[int64]*OfRule{}
	}
	for id, r := range e.rules {
		was := out.byRule[id]
		if was == nil || r.cleared {
			was = &OfRule{seed: out.seed}
		}
		is := r.over(was, now)
		if !is.HasExact() && !is.HasNetworks() && !is.HasWildcards() {
			delete(out.byRule, id)
			continue
		}
		out.byRule[id] = is
	}
	return out
}

// fewRecent is the number of recent edits of a rule that are kept separately before they are
// merged into its base, which reads the whole base; a larger base allows more.
const fewRecent = 1024

// isDue reports that so many recent edits are merged into a base of a size.
func isDue(recent, size int) bool { return size == 0 || recent > max(fewRecent, size/64) }

// over applies the changes of one rule.
func (r *ruleEdit) over(was *OfRule, now int64) *OfRule {
	is := *was
	if len(r.prefixes) > 0 {
		is.prefixes = was.prefixes.with(r.prefixes, now)
	}
	if len(r.networks) > 0 {
		is.recentNetworks = makeNetworks(r.networks, r.effects.list)
		if was.recentNetworks != nil {
			is.recentNetworks = mergeNetworks(was.recentNetworks, is.recentNetworks, false, now)
		}
		if isDue(is.recentNetworks.len(), is.networks.len()) {
			is.networks, is.recentNetworks = mergeNetworks(is.networks, is.recentNetworks, true, now), nil
		}
	}
	if len(r.exact) == 0 {
		return &is
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
	if isDue(changed.count, size) {
		is.base, is.recent = merge(was.base, changed, now), nil
		if is.base.count == 0 {
			is.base = nil
		}
	}
	return &is
}

// overlay combines two small tables and keeps tombstones. The newer table takes precedence.
func overlay(older, newer *hashTable) *hashTable {
	var in interner
	all := make([]hashEntry, 0, older.count+newer.count)
	for _, t := range []*hashTable{older, newer} {
		for e := range t.all() {
			if e.effect != gone {
				e.effect = in.add(t.effects[e.effect])
			}
			all = append(all, e)
		}
	}
	return makeTable(all, in.list)
}

// Exact returns the override of a key that has not expired by now (ms since the epoch), nil if
// there is none.
func (r *OfRule) Exact(key []byte, now int64) (Applied, *Effect) {
	a, b := r.seed.sum(key)
	for _, t := range [2]*hashTable{r.recent, r.base} {
		if t == nil {
			continue
		}
		e := t.find(a, b)
		if e == nil {
			continue
		}
		if e.effect == gone {
			return Applied{}, nil
		}
		f := &t.effects[e.effect]
		if f.ended(now) {
			return Applied{}, nil
		}
		return applied(e.id, false, f), f
	}
	return Applied{}, nil
}

// Longest returns the longest wildcard that is a prefix of text, has at least the given length and
// has not expired by now (ms since the epoch), nil if there is none.
func (r *OfRule) Longest(text []byte, least int, now int64) (Applied, *Effect) {
	e := r.prefixes.longest(text, least, now)
	if e == nil {
		return Applied{}, nil
	}
	return applied(e.id, true, &e.effect), &e.effect
}

// HasExact reports whether Exact can find anything.
func (r *OfRule) HasExact() bool { return r.base != nil || r.recent != nil }

// HasWildcards reports whether Longest can find anything.
func (r *OfRule) HasWildcards() bool { return len(r.prefixes) > 0 }
