package match

import (
	"slices"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/textmap"
)

// A bucket of Envoy's quota service is a map of keys and values without an order, while the entries of a rule have one.
// byKeys lists, for each domain and set of keys, in which orders rules have these keys. It is immutable.
type byKeys = textmap.Map[[]keyOrder]

// keyOrder is one order of keys, and how many rules have it.
type keyOrder struct {
	keys  []string
	rules int
}

// countKeys returns the index with n more rules of the descriptor's keys, n being 1 or -1. inPlace is as for
// textmap.Map.Put.
func countKeys(x *byKeys, d *rules.RuleDescriptor, n int, inPlace bool) *byKeys {
	keys := make([]string, len(d.Entries))
	for i := range d.Entries {
		keys[i] = d.Entries[i].Key
	}
	sorted := slices.Sorted(slices.Values(keys))
	if len(slices.Compact(slices.Clone(sorted))) < len(keys) {
		return x // no map has a key twice
	}
	name := keysName(d.Domain, sorted)
	orders := slices.Clone(x.Get(name))
	at, found := slices.BinarySearchFunc(orders, keys, func(o keyOrder, keys []string) int {
		return slices.Compare(o.keys, keys)
	})
	if !found {
		orders = slices.Insert(orders, at, keyOrder{keys: keys})
	}
	if orders[at].rules += n; orders[at].rules == 0 {
		orders = slices.Delete(orders, at, at+1)
	}
	if len(orders) == 0 {
		return x.Remove(name)
	}
	return x.Put(name, orders, inPlace)
}

// keysName names a set of sorted keys of a domain. No text of a rule has a zero byte.
func keysName(domain string, sorted []string) string {
	return domain + "\x00" + strings.Join(sorted, "\x00")
}

// MatchBucket is MatchEntries for a bucket of Envoy's quota service. It puts the bucket's keys into the order in which
// rules of the domain have them, and returns that order. If rules have them in several orders, these are tried in
// alphabetical order of the keys, and the first with a rule for the bucket counts.
func (s *Set) MatchBucket(domain string, bucket map[string]string, now time.Time) (m Match, _ []entries.Entry,
	ok bool) {
	sorted := make([]string, 0, len(bucket))
	for key := range bucket {
		if strings.Contains(domain, "\x00") || strings.Contains(key, "\x00") {
			return Match{}, nil, false // one name for two sets of keys
		}
		sorted = append(sorted, key)
	}
	slices.Sort(sorted)
	list := make([]entries.Entry, len(bucket))
	for _, o := range s.keys.Get(keysName(domain, sorted)) {
		for i, key := range o.keys {
			list[i] = entries.Entry{Key: key, Value: bucket[key]}
		}
		if m, ok = s.MatchEntries(domain, list, now); ok {
			return m, list, true
		}
	}
	return Match{}, nil, false
}
