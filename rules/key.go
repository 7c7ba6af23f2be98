package rules

import (
	"net/netip"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/rules/redact"
)

// keyer builds the keys of one descriptor. It encodes each fact once, however many rules use it.
// It lives on the stack of one Match, so it holds arrays and no slices of them.
type keyer struct {
	set    *Set
	d      *Descriptor
	route  string // normalised
	method string // normalised
	spans  [factKinds]span
	used   int
	cache  [192]byte // encoded facts, one after another
}

// span is the place of an encoded fact in keyer.cache; the zero value means "not encoded yet".
type span struct{ from, to int }

// value returns the descriptor's value for a fact other than ip, "" if absent.
func (k *keyer) value(f *fact) string {
	switch f.kind {
	case factUser:
		return k.d.User
	case factAPIKey:
		return k.d.APIKey
	case factAttr:
		return k.d.Attributes[f.attr]
	case factTier:
		return k.d.Tier
	case factRoute:
		return k.route
	case factMethod:
		return k.method
	}
	return ""
}

// has reports whether the descriptor has a fact.
func (k *keyer) has(f *fact) bool {
	if f.kind == factIP {
		return k.d.IP.IsValid()
	}
	return k.value(f) != ""
}

// appendKey appends the key of a rule whose facts are all present:
//
//	{user:42}+ip:203.0.113.7|17|sc
//
// It caches each fact for the next rule if there is room, except for attributes.
func (k *keyer) appendKey(b []byte, c *Compiled) []byte {
	b = append(b, '{')
	for i := range c.facts {
		if i > 0 {
			b = append(b, '+')
		}
		f, start := &c.facts[i], len(b)
		if s := &k.spans[f.kind]; s.to > 0 {
			b = append(b, k.cache[s.from:s.to]...)
		} else {
			b = k.encode(b, f)
			if n := len(b) - start; f.kind != factAttr && n <= len(k.cache)-k.used {
				copy(k.cache[k.used:], b[start:])
				*s = span{k.used, k.used + n}
				k.used += n
			}
		}
		if i == 0 {
			b = append(b, '}')
		}
	}
	return append(b, c.suffix...)
}

// encode appends the label and the encoded value of a fact.
func (k *keyer) encode(dst []byte, f *fact) []byte {
	dst = append(dst, f.label...)
	switch f.kind {
	case factIP:
		return k.set.appendIP(dst, k.d.IP)
	case factAPIKey:
		return k.d.appendHashed(dst, k.d.APIKey)
	case factRoute:
		if redact.SecretPath(k.route) {
			return limiter.AppendHashed(dst, k.route)
		}
		return limiter.AppendValue(dst, k.route)
	}
	v := k.value(f)
	if redact.Secret(v) || k.d.stored && strings.HasPrefix(v, hashMark) {
		return k.d.appendHashed(dst, v)
	}
	return limiter.AppendValue(dst, v)
}

// appendIP appends the network that an address is counted under: IPv4-mapped addresses become
// IPv4, the zone is dropped, and the set's prefix is the mask. A whole address is written bare, a
// network with its prefix length.
func (s *Set) appendIP(dst []byte, ip netip.Addr) []byte {
	ip = ip.Unmap().WithZone("")
	bits := s.opt.IPv6Prefix
	if ip.Is4() {
		bits = s.opt.IPv4Prefix
	}
	if bits == ip.BitLen() {
		return ip.AppendTo(dst)
	}
	p, err := ip.Prefix(bits)
	if err != nil { // impossible: Compile checked the range
		return ip.AppendTo(dst)
	}
	return p.AppendTo(dst)
}

// keySuffix is the part of a rule's keys after the facts.
func keySuffix(id int64, a limiter.Algorithm) string {
	return "|" + strconv.FormatInt(id, 10) + "|" + a.Kind()
}

// candidateSuffix is keySuffix for a rule's candidate. It never equals that of a rule, because an
// id contains no dot.
func candidateSuffix(id int64, a limiter.Algorithm) string {
	return "|" + strconv.FormatInt(id, 10) + ".c|" + a.Kind()
}

// DirectKey is limiter.DirectKey for a key that a caller chose. The whole key is hashed if any
// part of it looks like a credential.
func DirectKey(key string, a limiter.Algorithm) limiter.Key {
	for part := range strings.FieldsFuncSeq(key, func(r rune) bool { return strings.ContainsRune(":/|,;@", r) }) {
		if redact.Secret(part) {
			b := append([]byte(nil), "{key:"...)
			b = append(limiter.AppendHashed(b, key), "}||"...)
			return limiter.Key(append(b, a.Kind()...))
		}
	}
	return limiter.DirectKey(key, a)
}
