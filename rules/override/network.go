package override

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// addressLabel precedes the address in a key. A value never contains + or braces, so the label is found by the
// separators around it.
const addressLabel = "ip:"

// cutAddress splits a key, without the rule, around its address: {user:42}+ip: and 203.0.113.7 of
// {user:42}+ip:203.0.113.7.
func cutAddress(facts []byte) (before, address, after []byte, ok bool) {
	at := bytes.Index(facts, []byte("+"+addressLabel))
	if bytes.HasPrefix(facts, []byte("{"+addressLabel)) {
		at = 0
	}
	if at < 0 {
		return nil, nil, nil, false
	}
	at += 1 + len(addressLabel)
	end := len(facts)
	if n := bytes.IndexAny(facts[at:], "}+"); n >= 0 {
		end = at + n
	}
	return facts[:at], facts[at:end], facts[end:], true
}

// network names the addresses of an override: the keys that differ in the address only, and its leading bits.
type network struct {
	a, b   uint64 // the hash of the key without its address; the last bit of a tells IPv6 from IPv4
	hi, lo uint64 // the address with all other bits zero; IPv4 takes the upper half of hi
	bits   uint8
}

// network returns the network p in the keys that are before and after around an address.
func (k hashSeed) network(before, after []byte, p netip.Prefix) network {
	var buf [256]byte
	n := network{bits: uint8(p.Bits())}
	n.a, n.b = k.sum(append(append(buf[:0], before...), after...))
	if n.a &^= 1; p.Addr().Is4() {
		v4 := p.Addr().As4()
		n.hi = uint64(binary.BigEndian.Uint32(v4[:])) << 32
		return n
	}
	v6 := p.Addr().As16()
	n.a, n.hi, n.lo = n.a|1, binary.BigEndian.Uint64(v6[:8]), binary.BigEndian.Uint64(v6[8:])
	return n
}

// parseNetwork reads the key of an override for a network, false for any other key.
func (k hashSeed) parseNetwork(match []byte) (network, bool) {
	before, address, after, ok := cutAddress(match)
	if !ok || bytes.IndexByte(address, '/') < 0 {
		return network{}, false
	}
	p, err := netip.ParsePrefix(string(address))
	if err != nil || p.Masked() != p {
		return network{}, false
	}
	return k.network(before, after, p), true
}

// masks returns the leading bits of the two halves of an address.
func masks(bits uint8) (hi, lo uint64) {
	if bits <= 64 {
		return ^uint64(0) << (64 - bits), 0
	}
	return ^uint64(0), ^uint64(0) << (128 - bits)
}

// valid reports whether network could have returned n.
func (n *network) valid() bool {
	hi, lo := masks(min(n.bits, 128))
	return n.bits <= 32+96*uint8(n.a&1) && n.hi&^hi == 0 && n.lo&^lo == 0
}

// before reports whether n precedes m: by key, then by address, a network before the networks in it.
func (n *network) before(m *network) bool {
	switch {
	case n.a != m.a:
		return n.a < m.a
	case n.b != m.b:
		return n.b < m.b
	case n.hi != m.hi:
		return n.hi < m.hi
	case n.lo != m.lo:
		return n.lo < m.lo
	}
	return n.bits < m.bits
}

// contains reports whether m is n or a part of it.
func (n *network) contains(m *network) bool {
	hi, lo := masks(n.bits)
	return n.bits <= m.bits && (n.hi^m.hi)&hi == 0 && (n.lo^m.lo)&lo == 0 && n.a == m.a && n.b == m.b
}

// networkTable holds the networks of one rule in order, immutable: 56 bytes each. A nil table is empty.
type networkTable struct {
	entries []networkEntry
	effects []Effect
}

type networkEntry struct {
	network
	parent int32  // index of the smallest other network around this one, -1 for none
	effect uint32 // in effects, or gone
	id     int64
}

func (t *networkTable) len() int {
	if t == nil {
		return 0
	}
	return len(t.entries)
}

// makeNetworks builds a table from entries in any order and keeps entries. If several are for the same network, the
// last counts.
func makeNetworks(entries []networkEntry, effects []Effect) *networkTable {
	slices.SortStableFunc(entries, func(x, y networkEntry) int {
		return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b), cmp.Compare(x.hi, y.hi), cmp.Compare(x.lo, y.lo),
			cmp.Compare(x.bits, y.bits))
	})
	kept := entries[:0]
	for i := range entries {
		if i+1 == len(entries) || entries[i].network != entries[i+1].network {
			kept = append(kept, entries[i])
		}
	}
	return linkNetworks(kept, effects)
}

// linkNetworks builds a table of distinct, ordered entries; nil if there are none.
func linkNetworks(entries []networkEntry, effects []Effect) *networkTable {
	if len(entries) == 0 {
		return nil
	}
	for i := range entries {
		p := int32(i) - 1
		for p >= 0 && !entries[p].contains(&entries[i].network) {
			p = entries[p].parent
		}
		entries[i].parent = p
	}
	return &networkTable{entries: entries, effects: effects}
}

// mergeNetworks combines two tables. The newer takes precedence. From a base it drops tombstones and overrides that
// have expired by now (ms since the epoch).
func mergeNetworks(older, newer *networkTable, base bool, now int64) *networkTable {
	var in interner
	out := make([]networkEntry, 0, older.len()+newer.len())
	add := func(t *networkTable, i int) {
		e := t.entries[i]
		switch {
		case e.effect == gone && base || e.effect != gone && base && t.effects[e.effect].ended(now):
			return
		case e.effect != gone:
			e.effect = in.add(t.effects[e.effect])
		}
		out = append(out, e)
	}
	i, j := 0, 0
	for i < older.len() && j < newer.len() {
		x, y := &older.entries[i].network, &newer.entries[j].network
		if x.before(y) {
			add(older, i)
			i++
			continue
		}
		if *x == *y {
			i++
		}
		add(newer, j)
		j++
	}
	for ; i < older.len(); i++ {
		add(older, i)
	}
	for ; j < newer.len(); j++ {
		add(newer, j)
	}
	return linkNetworks(slices.Clip(out), in.list)
}

// smallest returns the smallest network that contains n, nil if there is none.
//
// Every network around n is the last network not behind n in the order, or a parent of that network: networks between
// the two are parts of it as well.
func (t *networkTable) smallest(n *network) *networkEntry {
	if t == nil {
		return nil
	}
	lo, hi := 0, len(t.entries)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); n.before(&t.entries[mid].network) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	for i := int32(lo) - 1; i >= 0; i = t.entries[i].parent {
		if t.entries[i].contains(n) {
			return &t.entries[i]
		}
	}
	return nil
}

// parent returns the smallest network around e, nil if there is none.
func (t *networkTable) parent(e *networkEntry) *networkEntry {
	if e.parent < 0 {
		return nil
	}
	return &t.entries[e.parent]
}

// Network returns the override for the smallest network that contains the network counted, among overrides for keys
// that differ from facts in the address only and have not expired by now (ms since the epoch); nil if there is none.
// facts is a bucket's key without the rule, and counted the network that its address is counted under.
func (r *OfRule) Network(facts []byte, counted netip.Prefix, now int64) (Applied, *Effect) {
	before, _, after, ok := cutAddress(facts)
	if !ok {
		return Applied{}, nil
	}
	n := r.seed.network(before, after, counted)
	base, recent := r.networks.smallest(&n), r.recentNetworks.smallest(&n)
	for base != nil || recent != nil { // both are parts of each other, so the one with more bits is the smaller
		e, t := base, r.networks
		if recent != nil && (base == nil || recent.bits >= base.bits) {
			e, t = recent, r.recentNetworks
			if base != nil && base.bits == e.bits { // replaced
				base = r.networks.parent(base)
			}
			recent = t.parent(e)
		} else {
			base = t.parent(e)
		}
		if e.effect == gone {
			continue
		}
		if f := &t.effects[e.effect]; !f.ended(now) {
			a := applied(e.id, false, f)
			if e.bits < n.bits { // otherwise it is the key of one bucket
				a.Network = e.bits + 1
			}
			return a, f
		}
	}
	return Applied{}, nil
}

// HasNetworks reports whether Network can find anything.
func (r *OfRule) HasNetworks() bool { return r.networks != nil || r.recentNetworks != nil }
