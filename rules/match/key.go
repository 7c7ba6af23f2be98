package match

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/redact"
	"sluice/rules/scope"
)

// keyer builds the keys of one descriptor. It encodes each fact once, however many rules use it.
// It lives on the stack of one Match, so it holds arrays and no slices of them.
type keyer struct {
	set    *Set
	d      *Descriptor
	route  string // normalised
	method string // normalised
	spans  [scope.Kinds]span
	used   int
	cache  [192]byte // encoded facts, one after another
}

// span is the place of an encoded fact in keyer.cache; the zero value means "not encoded yet".
type span struct{ from, to int }

// value returns the descriptor's value for a fact other than ip, "" if absent.
func (k *keyer) value(f *scope.Fact) string {
	switch f.Kind {
	case scope.User:
		return k.d.User
	case scope.APIKey:
		return k.d.APIKey
	case scope.Attribute:
		return k.d.Attributes[f.Attribute]
	case scope.Tier:
		return k.d.Tier
	case scope.Host:
		return k.d.Host
	case scope.Route:
		return k.route
	case scope.Method:
		return k.method
	}
	return ""
}

// valueFor is value for a rule: where it names a method, that is the value, so that a rule for GET has one bucket for
// GET and HEAD.
func (k *keyer) valueFor(c *Compiled, f *scope.Fact) string {
	if f.Kind == scope.Method && c.Rule.Method != nil {
		return *c.Rule.Method
	}
	return k.value(f)
}

// encodeFor is encode with valueFor.
func (k *keyer) encodeFor(dst []byte, c *Compiled, f *scope.Fact) []byte {
	if f.Kind == scope.Method && c.Rule.Method != nil {
		return limiter.AppendValue(append(dst, f.Label...), *c.Rule.Method)
	}
	return k.encode(dst, f)
}

// has reports whether the descriptor has a fact.
func (k *keyer) has(f *scope.Fact) bool {
	if f.Kind == scope.IP {
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
		if s := &k.spans[f.Kind]; f.Kind == scope.Method {
			b = k.encodeFor(b, c, f)
		} else if s.to > 0 {
			b = append(b, k.cache[s.from:s.to]...)
		} else {
			b = k.encode(b, f)
			if n := len(b) - start; f.Kind != scope.Attribute && n <= len(k.cache)-k.used {
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
func (k *keyer) encode(dst []byte, f *scope.Fact) []byte {
	dst = append(dst, f.Label...)
	switch f.Kind {
	case scope.IP:
		return k.set.appendIP(dst, k.d.IP)
	case scope.APIKey:
		return k.d.appendHashed(dst, k.d.APIKey)
	case scope.Route:
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

// appendIP appends the network that an address is counted under. A whole address is written bare, a network with its
// prefix length.
func (s *Set) appendIP(dst []byte, ip netip.Addr) []byte {
	p := s.countedUnder(ip)
	if p.IsSingleIP() {
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}

// countedUnder returns the network that an address is counted under.
func (s *Set) countedUnder(ip netip.Addr) netip.Prefix { return s.opt.Network(ip) }

// Network returns the network under which an address is counted: its normal address with the prefix of its kind. A
// prefix that is out of range counts as the whole address.
func (o Options) Network(ip netip.Addr) netip.Prefix {
	ip = o.NormalAddr(ip)
	p, err := ip.Prefix(o.countedBits(ip))
	if err != nil {
		return netip.PrefixFrom(ip, ip.BitLen())
	}
	return p
}

// countedBits returns the number of leading bits of a normal address by which it is counted.
func (o Options) countedBits(ip netip.Addr) int {
	if ip.Is4() {
		return cmp.Or(o.IPv4Prefix, defaultIPv4Prefix)
	}
	return cmp.Or(o.IPv6Prefix, defaultIPv6Prefix)
}

// keySuffix is the part of a rule's keys after the facts.
func keySuffix(id int64, a limiter.Algorithm) string {
	return "|" + strconv.FormatInt(id, 10) + "|" + a.Kind()
}

// ofPeriod returns the key of the bucket of a limit's period, which is key if the limit is not kept.
func ofPeriod(key limiter.Key, l limiter.Limit) limiter.Key {
	if !l.PerPeriod || key == "" {
		return key
	}
	return limiter.Key(limiter.AppendPeriod([]byte(key), l))
}

// candidateSuffix is keySuffix for a rule's candidate. It never equals the suffix of a rule, because an id contains no
// dot.
func candidateSuffix(id int64, a limiter.Algorithm) string {
	return "|" + strconv.FormatInt(id, 10) + ".c|" + a.Kind()
}

// DirectKey is limiter.DirectKey for a key that a caller chose. The whole key is hashed if any
// part of it looks like a credential.
func DirectKey(key string, l limiter.Limit) limiter.Key {
	for part := range strings.FieldsFuncSeq(key, func(r rune) bool { return strings.ContainsRune(":/|,;@", r) }) {
		if redact.Secret(part) {
			b := append([]byte(nil), "{key:"...)
			return limiter.Key(limiter.AppendDirect(limiter.AppendHashed(b, key), l))
		}
	}
	return limiter.DirectKey(key, l)
}

// DisplayKey is the name of a bucket for people, such as user:42 or
// user:42+ip:203.0.113.7 or global. It is the one notation for keys: every
// surface prints it, and ParseOverrideKey and FindBucket read it back to exactly
// that bucket. A credential or a long value shows as sha256: and the first 12
// characters of its hash. What cannot be printed, and what could be read in
// another way, is written %XX:
//
//	user a*               user:a%2A
//	user a%b              user:a%25b
//	user ip:1             user:ip%3A1
//	user a+ip:1, tier b   user:a%2Bip:1+tier:b
//
// Buckets of different rules may have the same name.
func DisplayKey(key limiter.Key) string {
	facts, _, _ := strings.Cut(string(key), "|")
	if fact, ok := plainFact(facts); ok {
		return fact
	}
	return DisplayKeyWith(key, nil)
}

// plainFact returns the fact of a key of one that needs no escape, as most have: it is shown as it stands.
func plainFact(facts string) (fact string, ok bool) {
	n := len(facts) - 1
	if n <= 0 || facts[0] != '{' || facts[n] != '}' || strings.ContainsAny(facts[1:n], "{}%*+") || isEntries(facts) {
		return "", false
	}
	colons := 1
	if strings.HasPrefix(facts[1:], "attr:") {
		colons = 2
	}
	return facts[1:n], strings.Count(facts, ":") == colons
}

// isEntries reports whether facts come from a descriptor of Envoy.
func isEntries(facts string) bool {
	label, _, ok := strings.Cut(strings.TrimPrefix(facts, "{"), ":")
	return ok && !ownLabel(label)
}

// ownLabel reports whether a text begins the keys of other rules, or of callers who send a limit.
func ownLabel(text string) bool { return text == "key" || slices.Contains(scope.Names[:], text) }

// DisplayKeyWith is DisplayKey with each value as show returns it. show gets the value as DisplayKey writes it, and the
// text before it: user:, attr:tenant: or, for descriptors, path= and similar.
func DisplayKeyWith(key limiter.Key, show Show) string {
	facts, _, _ := strings.Cut(string(key), "|")
	if fact, ok := plainFact(facts); ok && show != nil {
		label, value, _ := cutLabel(fact)
		if shown := show(label, value); shown != value {
			return label + shown
		}
		return fact
	}
	facts = string(appendShort(nil, []byte(facts)))
	if isEntries(facts) {
		return displayEntries(facts, show)
	}
	return displayFacts(facts, strings.Contains(facts, "+"), show)
}

// Show replaces a value in the name of a bucket. A nil Show leaves all as they are.
type Show func(label, value string) string

// replace replaces the end of a name: its last label begins at label, the value at value.
func (show Show) replace(name []byte, label, value int) []byte {
	if show == nil {
		return name
	}
	return append(name[:value], show(string(name[label:value]), string(name[value:]))...)
}

// DisplayDirectKey returns the key of a caller who sent the limit, as that caller wrote it, with
// unprintable characters as %XX. A hashed key shows as sha256: and the first 12 characters of the
// hash.
func DisplayDirectKey(key limiter.Key) string {
	facts, _, _ := strings.Cut(string(key), "|")
	v, own := strings.CutPrefix(facts, "{key:")
	if !own {
		return DisplayKey(key) // of a limit that came with a descriptor, or of a rule that is gone
	}
	v = strings.TrimSuffix(v, "}")
	if hash, ok := strings.CutPrefix(v, "%h"); ok {
		return hashWord + hash[:min(len(hash), shownHash)]
	}
	return chars.Shown(chars.Unescape(v))
}

// displayFacts writes the facts of a key, or of a wildcard as far as it goes. several reports that
// the scope has more than one fact.
func displayFacts(facts string, several bool, show Show) string {
	out := make([]byte, 0, len(facts)+8)
	for i, part := range strings.Split(facts, "+") {
		if i > 0 {
			out = append(out, '+')
		}
		part = strings.TrimSuffix(strings.TrimPrefix(part, "{"), "}")
		label, _, _ := cutLabel(part)
		from := len(out)
		out = show.replace(displayFact(out, part, several), from, from+len(label))
	}
	return string(out)
}

// displayFact writes one fact.
func displayFact(dst []byte, part string, several bool) []byte {
	label, value, own := cutLabel(part)
	dst = append(dst, label...)
	if hash, ok := strings.CutPrefix(value, "%h"); ok {
		return append(append(dst, hashWord...), hash...)
	}
	text := chars.Unescape(value)
	// Escape a colon after which the value would read like a hash, or, without its label, like
	// another fact.
	colon := -1
	if hash, ok := strings.CutPrefix(text, hashWord); ok && isShownHash(hash) {
		colon = len(hashWord) - 1
	} else if own && !several && beginsWithFact(text) {
		colon = strings.IndexByte(text, ':')
	}
	return chars.AppendShown(dst, text, func(i int, r rune) bool {
		switch r {
		case '%', '*', ' ':
			return true
		case '+':
			return several || own && beginsWithFact(text[i+1:])
		}
		return i == colon
	})
}

// cutLabel splits a fact into its label and its value. own reports that the label names a known fact.
func cutLabel(part string) (label, value string, own bool) {
	at := strings.IndexByte(part, ':')
	if at < 0 {
		return "", part, false
	}
	own = beginsWithFact(part)
	if part[:at] == scope.Names[scope.Attribute] {
		if next := strings.IndexByte(part[at+1:], ':'); next >= 0 {
			at += 1 + next
		}
	}
	return part[:at+1], part[at+1:], own
}

// beginsWithFact reports whether a text begins like a fact: user:, attr: and so on.
func beginsWithFact(text string) bool {
	name, _, ok := strings.Cut(text, ":")
	return ok && slices.Contains(scope.Names[:], name)
}
