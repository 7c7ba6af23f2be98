package match

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/host"
	"sluice/rules/override"
	"sluice/rules/redact"
	"sluice/rules/route"
	"sluice/rules/scope"
)

// OverrideKey identifies the keys to which an override applies.
type OverrideKey struct {
	// Text is the key for people; ParseOverrideKey parses it.
	Text string
	// Match is the form that is compared: the facts of a bucket's key with hashes shortened to
	// shownHash characters, and for a wildcard the beginning of the last fact.
	Match string
	// Prefix reports that the key is a wildcard.
	Prefix bool
}

// shownHash is the number of characters of a hash that are shown and compared: 72 bits, so that
// the displayed name of a bucket is enough to create an override.
const shownHash = 12

// hashLen is the length of a SHA-256 in base64url.
const hashLen = 43

// hashWord precedes a displayed hash.
const hashWord = "sha256:"

// ParseOverrideKey reads the key of an override of a rule with the given scope. It is written as displayed bucket keys
// are, in the same order:
//
//	user:42    user:acme-*    user:42+ip:203.0.113.7    user:42+ip:*
//
// The text of DisplayKey for a bucket names that bucket and no other. For a scope of one fact the value alone is
// enough. A bare * at the end is a wildcard. Inside values * is written %2A, any byte may be written %XX, and % must be
// written %25 before two hexadecimal digits, + %2B where it could be taken for the next fact. An address names the
// network under which it is counted. A larger network, as in ip:10.0.0.0/8, names all buckets of its addresses. API
// keys, and values that look like credentials, may be given raw or as the displayed sha256:…; they are hashed before
// anything stores them, and have no wildcards. Errors say what is wrong, without repeating values other than networks.
func ParseOverrideKey(scopeText string, opt Options, text string) (OverrideKey, error) {
	facts, err := scope.Parse(scopeText)
	if err != nil {
		return OverrideKey{}, err
	}
	opt, err = opt.withDefaults()
	switch {
	case err != nil:
		return OverrideKey{}, err
	case len(facts) == 0:
		return OverrideKey{}, errors.New("is not possible, because the rule has one bucket for all requests; change its " +
			"limit instead")
	}
	if err := checkOverrideText(text); err != nil {
		return OverrideKey{}, err
	}
	p := overrideParser{facts: facts, set: Set{opt: opt}}
	text, p.prefix = strings.CutSuffix(text, "*")
	if strings.Contains(text, "*") {
		return OverrideKey{}, errors.New("may have a wildcard * only at its end; write a literal * as %2A")
	}
	values, err := p.split(text)
	if err != nil {
		return OverrideKey{}, err
	}
	match := []byte("{")
	for i, v := range values {
		if i > 0 {
			match = append(match, '+')
		}
		if match, err = p.appendValue(match, &facts[i], v, p.prefix && i == len(values)-1); err != nil {
			return OverrideKey{}, err
		}
		if i == 0 && (!p.prefix || len(values) > 1) {
			match = append(match, '}')
		}
	}
	k := OverrideKey{Match: string(match), Prefix: p.prefix}
	k.Text = displayFacts(k.Match, len(facts) > 1, nil)
	if k.Prefix {
		k.Text += "*"
	}
	return k, nil
}

// checkOverrideText checks the rules for every key as people write it.
func checkOverrideText(text string) error {
	switch {
	case text == "":
		return errors.New("is required")
	case len(text) > rules.MaxOverrideKey:
		return fmt.Errorf("must not be longer than %d bytes", rules.MaxOverrideKey)
	case len(text) > override.MaxWildcard && text[len(text)-1] == '*':
		return fmt.Errorf("must not be longer than %d bytes with a wildcard", override.MaxWildcard)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, chars.Unsafe):
		return errors.New("must be printable text; write other bytes as %XX")
	case strings.TrimSpace(text) != text:
		return errors.New("must not begin or end with blanks; write them as %20")
	}
	return nil
}

type overrideParser struct {
	facts  []scope.Fact
	set    Set // for its options
	prefix bool
	single bool // the text names one bucket
}

// form returns the form of the rule's keys, for messages.
func (p *overrideParser) form() string {
	var b strings.Builder
	for i := range p.facts {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(p.facts[i].Label + "<value>")
	}
	return b.String()
}

// split divides the text into the values of the scope's facts, still escaped. A wildcard may lack
// the last facts.
func (p *overrideParser) split(text string) ([]string, error) {
	rest, labelled := strings.CutPrefix(text, p.facts[0].Label)
	if !labelled {
		if len(p.facts) > 1 || p.foreign(text) {
			return nil, fmt.Errorf("must have the form %s", p.form())
		}
		rest = text
	}
	values := make([]string, 0, len(p.facts))
	for _, next := range p.facts[1:] {
		sep := "+" + next.Label
		if strings.Count(rest, sep) > 1 {
			return nil, errors.New("is ambiguous; write a + inside a value as %2B")
		}
		v, after, found := strings.Cut(rest, sep)
		if !found {
			if !p.prefix {
				return nil, fmt.Errorf("must have the form %s", p.form())
			}
			if strings.HasSuffix(rest, "+") {
				return nil, fmt.Errorf("must name the next fact before the *, as in %s*", sep)
			}
			break
		}
		values, rest = append(values, v), after
	}
	return append(values, rest), nil
}

// foreign reports whether a text begins with the label of another fact.
func (p *overrideParser) foreign(text string) bool {
	for _, name := range scope.Names {
		if strings.HasPrefix(text, name+":") {
			return true
		}
	}
	return false
}

// appendValue appends label and value of one fact in the form of a bucket's key; open marks the
// last value of a wildcard.
func (p *overrideParser) appendValue(dst []byte, f *scope.Fact, text string, open bool) ([]byte, error) {
	// Addresses are never hashed, so a hash of one would match nothing.
	if hash, ok := strings.CutPrefix(text, hashWord); ok && !open && f.Kind != scope.IP &&
		(isHashText(hash, shownHash) || isHashText(hash, hashLen)) {
		return append(append(append(dst, f.Label...), "%h"...), hash[:shownHash]...), nil
	}
	v := chars.Unescape(text)
	switch {
	case open:
		return p.appendOpen(dst, f, v)
	case v == "":
		return nil, fmt.Errorf("has no value for %s", f.Name())
	}
	d := Descriptor{}
	switch f.Kind {
	case scope.User:
		d.User = v
	case scope.APIKey:
		d.APIKey = v
	case scope.Attribute:
		d.Attributes = map[string]string{f.Attribute: v}
	case scope.Tier:
		d.Tier = v
	case scope.Route:
		if v[0] != '/' {
			return nil, errors.New("must have a route that begins with /")
		}
		d.Route = v
	case scope.Method:
		d.Method = v
	case scope.Host:
		host, err := host.Parse(v)
		if err != nil {
			return nil, errors.New("must have the name of a host, such as api.example.com")
		}
		d.Host = host
	case scope.IP:
		ip, network, err := p.address(v)
		switch {
		case err != nil:
			return nil, err
		case network.IsValid():
			return network.AppendTo(append(dst, f.Label...)), nil
		}
		d.IP = ip
	}
	k := p.set.keyer(&d)
	return appendShort(dst, k.encode(nil, f)), nil
}

// address parses an address, or a network. network is valid only if it has more than one bucket.
func (p *overrideParser) address(v string) (ip netip.Addr, network netip.Prefix, err error) {
	if !strings.Contains(v, "/") {
		ip, err = netip.ParseAddr(v)
		if err != nil || ip.Zone() != "" {
			return ip, network, errors.New("must have an IP address such as 203.0.113.7 or 2001:db8::1, or a network such as " +
				"10.0.0.0/8")
		}
		return ip, network, nil
	}
	if network, err = host.ParseNetwork(v); err != nil {
		return ip, network, err
	}
	network = p.set.opt.normalNetwork(network)
	ip = network.Addr()
	bits := p.set.opt.countedBits(ip)
	switch {
	case network.Bits() > bits:
		return ip, network, fmt.Errorf("cannot match, because addresses are counted by /%d networks; write %s", bits,
			netip.PrefixFrom(ip, bits).Masked())
	case network.Bits() == bits:
		return p.set.opt.addressUnder(network), netip.Prefix{}, nil
	case p.single:
		return ip, network, errors.New("must name one bucket; a network has many, so write an address in it")
	case p.prefix:
		return ip, network, errors.New("cannot have both a network and a wildcard *")
	}
	return ip, network, nil
}

// NetworksAround returns the Match of each override of a scope ip whose key names an address or a network around it,
// nil if text is no address.
func (o Options) NetworksAround(text string) []string {
	ip, err := netip.ParseAddr(strings.TrimPrefix(strings.TrimSpace(text), scope.Names[scope.IP]+":"))
	if err != nil {
		return nil
	}
	ip = o.NormalAddr(ip)
	keys := make([]string, 0, ip.BitLen()+1)
	for bits := range ip.BitLen() {
		keys = append(keys, "{ip:"+netip.PrefixFrom(ip, bits).Masked().String()+"}")
	}
	return append(keys, "{ip:"+ip.String()+"}")
}

// appendOpen appends the beginning of a value.
func (p *overrideParser) appendOpen(dst []byte, f *scope.Fact, v string) ([]byte, error) {
	switch {
	case v == "":
	case f.Kind == scope.APIKey:
		return nil, errors.New("cannot have a wildcard inside an API key, because API keys are stored as hashes")
	case f.Kind == scope.IP:
		return nil, errors.New("cannot have a wildcard inside an IP address; write a network such as 10.0.0.0/8")
	case f.Kind == scope.Route && v[0] != '/':
		return nil, errors.New("must have a route that begins with /")
	case redact.Secret(v) || f.Kind == scope.Route && redact.SecretPath(v):
		return nil, errors.New("cannot have a wildcard inside a value that looks like a credential, because credentials " +
			"are stored as hashes")
	case f.Kind == scope.Method:
		v = route.NormalizeMethod(v)
	case f.Kind == scope.Host:
		v = strings.ToLower(v)
	case f.Kind == scope.Route && p.set.opt.FoldRoute:
		v = route.Fold(v)
	}
	return appendClear(append(dst, f.Label...), v), nil
}

// appendClear is limiter.AppendValue without its bound, for comparing wildcards.
func appendClear(dst []byte, v string) []byte {
	for len(v) > limiter.MaxKeyValue/3 {
		dst = limiter.AppendValue(dst, v[:limiter.MaxKeyValue/3])
		v = v[limiter.MaxKeyValue/3:]
	}
	return limiter.AppendValue(dst, v)
}

// appendShort appends the facts of a key with every hash shortened to shownHash characters; a
// shortened one is unchanged. No value can imitate a hash, because a % in a value is escaped.
func appendShort(dst, facts []byte) []byte {
	for i := 0; i < len(facts); {
		if facts[i] == '%' && i+1 < len(facts) && facts[i+1] == 'h' && i+2+hashLen <= len(facts) &&
			isHashByte(facts[i+2+shownHash]) { // behind a hash that is cut stands a brace or a +
			dst = append(dst, facts[i:i+2+shownHash]...)
			i += 2 + hashLen
			continue
		}
		dst = append(dst, facts[i])
		i++
	}
	return dst
}

// isHashText reports whether a text has the given length and only characters of hashes.
func isHashText(s string, length int) bool {
	if len(s) != length {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !isHashByte(s[i]) {
			return false
		}
	}
	return true
}

func isHashByte(c byte) bool { return chars.IsAlnum(c) || c == '-' || c == '_' }
