package history

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

const (
	// sketchKeys is the number of counted keys, topKeys the number of posted ones.
	sketchKeys = 48
	topKeys    = 20
	// maxKeyBytes is the longest key that is counted; longer ones are cut.
	maxKeyBytes = 256
)

// TopEntry is the count of one key.
type TopEntry struct {
	Key     string `json:"k"`
	Allowed int64  `json:"a,omitempty"`
	Denied  int64  `json:"d,omitempty"`
	// Over is the largest number of further decisions that the key may have had, because it was not counted all the
	// time.
	Over int64 `json:"o,omitempty"`
	// Variance is the variance of the count, because only a sample of the decisions is counted.
	Variance int64 `json:"v,omitempty"`
}

func (e *TopEntry) total() int64 { return e.Allowed + e.Denied + e.Over }

// Error is by how much the counts may be wrong: what may be missing, and twice the standard deviation of the sample.
func (e *TopEntry) Error() int64 {
	return e.Over + int64(math.Ceil(2*math.Sqrt(float64(e.Variance))))
}

// Top are the most active keys of a period, the most active first.
type Top struct {
	Entries []TopEntry `json:"e"`
	// Rest is the largest number of decisions that a key may have that is not among them.
	Rest int64 `json:"r,omitempty"`
	// Denied are the distinct keys that were denied, in the Top by ByKey alone.
	Denied Distinct `json:"h,omitempty"`
}

// Tops are the most active keys, routes and tenants of a rule, by ByKey, ByRoute and ByTenant.
type Tops map[string]Top

// counted are the pivots that have sketches.
var counted = []string{ByKey, ByRoute, ByTenant}

// Sketches count keys, routes and tenants of one rule in bounded memory. They are not safe for concurrent use.
type Sketches struct {
	by     map[string]*sketch
	denied Distinct
}

// sketch has the most active values. list has the entries of at: a list is searched for the least active one faster.
type sketch struct {
	at   map[string]*sketchEntry
	list []*sketchEntry
}

// sketchEntry is a value that a sketch has. request is the last request that AddRequest counted, denied whether as a
// denied one.
type sketchEntry struct {
	TopEntry
	request uint64
	denied  bool
}

// NewSketches creates empty ones.
func NewSketches() *Sketches {
	return &Sketches{by: map[string]*sketch{}, denied: noKeys()}
}

// Denied counts a key that was denied. Every denial is counted, not a sample.
func (s *Sketches) Denied(key string) { s.denied = s.denied.add(key) }

// Add counts weight decisions for a value. With weight above 1, the caller counts one decision in weight. It is
// Space-Saving (Metwally, Agrawal, El Abbadi 2005): without room, a new value takes the place of the least active one,
// and may have had as many decisions as that.
func (s *Sketches) Add(by, value string, allowed bool, weight int64) {
	s.entry(by, value).add(allowed, weight)
}

// AddRequest is Add for a request that several limits decide. request is a unique number that is not 0. A value that
// several of these limits share counts once, as denied if one of them denies.
func (s *Sketches) AddRequest(request uint64, by, value string, allowed bool, weight int64) {
	e := s.entry(by, value)
	if e.request != request {
		e.request, e.denied = request, !allowed
		e.add(allowed, weight)
	} else if !allowed && !e.denied {
		e.denied = true
		e.Allowed -= weight
		e.Denied += weight
	}
}

// cutKey is the part of a key that is counted.
func cutKey(key string) string {
	if len(key) > maxKeyBytes {
		return strings.ToValidUTF8(key[:maxKeyBytes], "")
	}
	return key
}

// entry is the entry of a value.
func (s *Sketches) entry(by, value string) *sketchEntry {
	value = cutKey(value)
	of := s.by[by]
	if of == nil {
		of = &sketch{at: map[string]*sketchEntry{}}
		s.by[by] = of
	}
	e := of.at[value]
	if e == nil {
		if len(of.list) < sketchKeys {
			e = &sketchEntry{TopEntry: TopEntry{Key: value}}
			of.list = append(of.list, e)
		} else { // a flood of values takes no memory
			e = of.least()
			delete(of.at, e.Key)
			*e = sketchEntry{TopEntry: TopEntry{Key: value, Over: e.total()}}
		}
		of.at[value] = e
	}
	return e
}

func (e *sketchEntry) add(allowed bool, weight int64) {
	if allowed {
		e.Allowed += weight
	} else {
		e.Denied += weight
	}
	e.Variance += weight * (weight - 1)
}

// least is the least active entry.
func (s *sketch) least() *sketchEntry {
	least, total := s.list[0], s.list[0].total()
	for _, e := range s.list[1:] {
		if n := e.total(); n < total {
			least, total = e, n
		}
	}
	return least
}

// Tops returns the most active values.
func (s *Sketches) Tops() Tops {
	out := Tops{}
	for by, of := range s.by {
		var t Top
		for _, e := range of.list {
			t.Entries = append(t.Entries, e.TopEntry)
		}
		if len(of.list) >= sketchKeys {
			t.Rest = of.least().total()
		}
		out[by] = t.cut(topKeys)
	}
	of := out[ByKey]
	of.Denied = slices.Clone(s.denied)
	out[ByKey] = of
	return out
}

// UnknownTops returns the tops of a rule whose decisions were not counted by key, route and tenant.
func UnknownTops(decisions int64) Tops {
	out := Tops{}
	for _, by := range counted {
		out[by] = Top{Rest: decisions}
	}
	return out
}

// cut keeps the most active entries.
func (t Top) cut(most int) Top {
	slices.SortFunc(t.Entries, func(a, b TopEntry) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(a.Key, b.Key))
	})
	if len(t.Entries) > most {
		t.Rest = max(t.Rest, t.Entries[most].total())
		t.Entries = t.Entries[:most:most]
	}
	return t
}

// mergeTop adds up the tops of several nodes or periods. A key that one of them does not have may have had as many
// decisions there as its Rest.
func mergeTop(parts []Top) Top {
	sum := map[string]*TopEntry{}
	var rest int64
	var denied Distinct
	for i, p := range parts {
		if rest += p.Rest; i == 0 {
			denied = p.Denied
		}
		denied = denied.merge(p.Denied)
		for _, e := range p.Entries {
			s := sum[e.Key]
			if s == nil {
				s = &TopEntry{Key: e.Key}
				sum[e.Key] = s
			}
			s.Allowed += e.Allowed
			s.Denied += e.Denied
			s.Over += e.Over - p.Rest // the rest of every part is added below
			s.Variance += e.Variance
		}
	}
	out := Top{Rest: rest, Denied: denied}
	for _, s := range sum {
		s.Over += rest
		out.Entries = append(out.Entries, *s)
	}
	return out.cut(topKeys)
}

// MergeTops adds up the tops of a rule of several nodes or periods.
func MergeTops(parts []Tops) Tops {
	out := Tops{}
	for _, by := range counted {
		var of []Top
		for _, p := range parts {
			if t, ok := p[by]; ok {
				of = append(of, t)
			}
		}
		if of != nil {
			out[by] = mergeTop(of)
		}
	}
	return out
}
