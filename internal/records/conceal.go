package records

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/match"
	"sluice/rules/redact"
)

// What client_ip shows: the values of SLUICE_DECISION_LOG_CLIENT_IP.
const (
	AddressWhole  = "whole"
	AddressPrefix = "prefix"
	AddressHash   = "hash"
	AddressNone   = "none"
)

// The networks that AddressPrefix shows, in bits. Web analytics usually keep the same part of an address.
const (
	shownBits4 = 24
	shownBits6 = 48
)

// hashWord begins a value that is the keyed hash of another.
const hashWord = "hash:"

// shownHash is the number of bytes of a keyed hash that are written: 96 bits.
const shownHash = 12

// conceal hides what the log must not show. One goroutine uses it.
type conceal struct {
	// secret returns the key of hashes, which is the same on every node; nil while it is unknown.
	secret  func() []byte
	address string
	// network is what an address is counted under.
	network func(netip.Addr) netip.Prefix
	omit    map[string]bool
	omitted []string // the facts that no event has, in order
}

// hash replaces a value such that equal values stay equal. While the key is unknown it hides the value.
func (c *conceal) hash(v string) string {
	key := c.secret()
	if key == nil {
		return redact.Hidden
	}
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(v)) // never fails
	return hashWord + hex.EncodeToString(h.Sum(nil)[:shownHash])
}

// text returns a value as the log shows it: itself, or its hash if it has a credential in it or looks like a hash.
func (c *conceal) text(v string) string {
	if redact.Within(v) || strings.HasPrefix(v, hashWord) {
		return c.hash(v)
	}
	return v
}

// path is text for each segment of a path, without its query.
func (c *conceal) path(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	if !redact.SecretPath(path) && !redact.Within(path) {
		return path
	}
	return split(path, "/", c.segment)
}

// words is text for each word of a sentence, such as a user agent, and for each part of a word such as tool/1.0.
func (c *conceal) words(s string) string {
	return split(s, " ;,()={}:\"'", func(word string) string {
		if shown := c.text(word); shown != word {
			return shown
		}
		return split(word, "/", c.text)
	})
}

// split applies show to what stands between the separators of s.
func split(s, separators string, show func(string) string) string {
	n := strings.IndexAny(s, separators)
	if n < 0 {
		return show(s)
	}
	var b strings.Builder
	for ; n >= 0; n = strings.IndexAny(s, separators) {
		b.WriteString(show(s[:n]))
		b.WriteByte(s[n])
		s = s[n+1:]
	}
	b.WriteString(show(s))
	return b.String()
}

// segment hides a segment of a path that is, or has once its escapes are decoded, a credential.
func (c *conceal) segment(s string) string {
	if redact.Within(s) || redact.SecretPath(chars.Unescape(s)) {
		return c.hash(s)
	}
	return s
}

// trace returns the id of a trace, which looks random by its nature.
func (c *conceal) trace(id string) string {
	if !slices.ContainsFunc([]byte(id), func(b byte) bool { return !chars.IsHex(b) && b != '-' }) {
		return id
	}
	return c.text(id)
}

// clientIP is the member client_ip.
func (c *conceal) clientIP(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	switch c.address {
	case AddressWhole:
		return ip.String()
	case AddressPrefix:
		bits := shownBits6
		if ip.Is4() {
			bits = shownBits4
		}
		p, err := ip.Prefix(bits)
		if err != nil {
			return "" // impossible: both are in range
		}
		return p.String()
	case AddressHash:
		return c.hash(ip.String())
	}
	return ""
}

// factIP returns the address for the facts. Unless addresses are shown whole, it is the hash of the network under which
// the address is counted, as in the names of buckets, so that a limit by address can be replayed.
func (c *conceal) factIP(ip netip.Addr) string {
	switch {
	case !ip.IsValid() || c.address == AddressNone:
		return ""
	case c.address == AddressWhole:
		return ip.String()
	}
	p := c.network(ip)
	if p.IsSingleIP() {
		return c.hash(p.Addr().String())
	}
	return c.hash(p.String())
}

// hashOfKey begins a value in the name of a bucket that the rules hashed without a key. A list of values could be
// compared with it.
const hashOfKey = "sha256:"

// key is the name of a bucket of a rule, without what the log must not show.
func (c *conceal) key(key limiter.Key) string { return match.DisplayKeyWith(key, c.keyValue) }

// keyValue hides a value in the name of a bucket: addresses unless they are shown whole, facts that are never recorded,
// credentials and hashes. label is what stands before it, such as user:, attr:tenant: or remote_address=.
func (c *conceal) keyValue(label, v string) string {
	switch {
	case v == "":
		return v
	case strings.HasPrefix(v, hashOfKey), label != "" && c.omit[label[:len(label)-1]], redact.Within(v):
		return c.hash(v)
	case c.address == AddressWhole:
		return v
	}
	return c.addresses(v)
}

// addresses hides the addresses of a text, such as 203.0.113.7, login:203.0.113.7 or ip:2001:db8::1.
func (c *conceal) addresses(text string) string {
	hide := func(s string) string {
		if isAddress(s) {
			return c.hash(s)
		}
		return s
	}
	return split(text, "+,;|@= ", func(part string) string {
		for n := 0; ; { // longest suffix first: an IPv6 address contains colons
			if isAddress(part[n:]) {
				return part[:n] + c.hash(part[n:])
			}
			next := strings.IndexByte(part[n:], ':')
			if next < 0 {
				return split(part, ":", hide)
			}
			n += next + 1
		}
	})
}

// apiKeyLabels precede an API key in keys that callers choose.
var apiKeyLabels = [...]string{"apikey:", "apikey=", "api_key:", "api_key="}

// directKey conceals the name of a bucket that the caller chose, such as user:42 or job:7|ip:203.0.113.7. Everything
// after apikey: is hashed, because an API key may look like a name and contain separators.
func (c *conceal) directKey(display string) string {
	end := len(display)
	for _, label := range apiKeyLabels {
		if i := strings.Index(display[:end], label); i >= 0 && i+len(label) < len(display) {
			end = i + len(label)
		}
	}
	if end < len(display) {
		return c.directParts(display[:end]) + c.hash(display[end:])
	}
	return c.directParts(display)
}

// directParts is directKey for a key without an API key.
func (c *conceal) directParts(display string) string {
	return split(display, "+,;|", func(part string) string {
		if strings.HasPrefix(part, hashOfKey) || isAddress(part) {
			return c.keyValue("", part)
		}
		n := 1 + strings.IndexAny(part, ":=")
		if part[:n] == "attr:" {
			n += 1 + strings.IndexByte(part[n:], ':')
		}
		if shown := part[:n] + c.keyValue(part[:n], split(part[n:], ":@ ", c.text)); !redact.Within(part[:n]) {
			return shown
		}
		return c.hash(part)
	})
}

// isAddress reports whether a text is an address or a network, possibly with the escapes of bucket names.
func isAddress(v string) bool {
	if len(v) < 2 || !strings.ContainsAny(v, ".:%") || !strings.ContainsRune("0123456789abcdefABCDEF:[%", rune(v[0])) {
		return false // without the work of parsing
	}
	v = strings.Trim(chars.Unescape(v), "[]")
	if _, err := netip.ParseAddr(v); err == nil {
		return true
	}
	if _, err := netip.ParsePrefix(v); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(v)
	return err == nil
}

// Concealed reports whether a value of an event stands for another: its keyed hash, which is the same for equal
// values, or a word that says nothing. equal is true for a hash.
func Concealed(v string) (concealed, equal bool) {
	return strings.HasPrefix(v, hashWord) || v == redact.Hidden, v != redact.Hidden
}
