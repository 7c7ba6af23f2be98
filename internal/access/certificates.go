package access

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Certificates maps names of client certificates to scopes. A call with a certificate of such a name has the scopes
// without a token. It is immutable and safe for concurrent use; nil has no name.
//
// The names of a certificate are its subject alternative names: DNS names in any case, URIs and e-mail addresses as
// they are written. The common name counts only in a certificate without any. A certificate with several names of the
// map has the scopes of all.
type Certificates struct {
	exact map[string]Token
	dns   map[string]Token // by names in lower case
}

// maxCertificateName is the length of the longest name, in bytes.
const maxCertificateName = 255

// errNoEntry is the error of a map without entries.
var errNoEntry = errors.New("must have an entry, as in gateway.example.com=check")

// ParseCertificates reads a map such as gateway.example.com=check;ops=rules:write,counters. A name with a = is written
// as it is: the last = of an entry ends the name. The error names the entry.
func ParseCertificates(text string) (*Certificates, error) {
	c := &Certificates{exact: map[string]Token{}, dns: map[string]Token{}}
	for entry := range strings.SplitSeq(text, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue // after the last one
		}
		if err := c.add(entry); err != nil {
			return nil, err
		}
	}
	if len(c.exact) == 0 {
		return nil, errNoEntry
	}
	return c, nil
}

func (c *Certificates) add(entry string) error {
	end := strings.LastIndexByte(entry, '=')
	if end < 0 {
		return fmt.Errorf("has the entry %q without scopes; write %s=check", entry, entry)
	}
	name := strings.TrimSpace(entry[:end])
	lower, isDNS := strings.ToLower(name), !strings.ContainsAny(name, " :/@")
	_, taken := c.exact[name]
	if isDNS && !taken {
		_, taken = c.dns[lower]
	}
	switch {
	case name == "":
		return fmt.Errorf("has the entry %q without a name; write the name of the certificate before the =", entry)
	case strings.Contains(name, "*"):
		return fmt.Errorf("has the name %q with a *; patterns are not supported, write each name", name)
	case len(name) > maxCertificateName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("has the name %.40q, which is longer than %d bytes or has control characters", name,
			maxCertificateName)
	case taken:
		return fmt.Errorf("has the name %q twice; write all of its scopes in one entry", name)
	}
	scopes, err := ParseScopes(entry[end+1:])
	if err != nil {
		return fmt.Errorf("has the entry %q: %w", entry, err)
	}
	token := Token{Name: name, Scopes: scopes, Certificate: true}
	c.exact[name] = token
	if isDNS {
		c.dns[lower] = token
	}
	return nil
}

// find returns a token with the scopes of the client certificate of verified chains. Its name is the first name of the
// certificate that is in the map.
func (c *Certificates) find(chains [][]*x509.Certificate) (token Token, ok bool) {
	if c == nil || len(chains) == 0 || len(chains[0]) == 0 {
		return Token{}, false
	}
	add := func(found Token, has bool) {
		switch {
		case !has:
		case !ok:
			token, ok = found, true
		default:
			token.Scopes = union(token.Scopes, found.Scopes)
		}
	}
	leaf := chains[0][0] // the same in every chain
	for _, name := range leaf.DNSNames {
		found, has := c.dns[strings.ToLower(name)]
		add(found, has)
	}
	for _, uri := range leaf.URIs {
		found, has := c.exact[uri.String()]
		add(found, has)
	}
	for _, address := range leaf.EmailAddresses {
		found, has := c.exact[address]
		add(found, has)
	}
	if !hasAlternativeNames(leaf) {
		found, has := c.exact[leaf.Subject.CommonName]
		add(found, has)
	}
	return token, ok
}

// alternativeNames identifies the extension with the subject alternative names (RFC 5280, section 4.2.1.6).
var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

// hasAlternativeNames reports whether a certificate has subject alternative names, of whatever kind.
func hasAlternativeNames(leaf *x509.Certificate) bool {
	for i := range leaf.Extensions {
		if leaf.Extensions[i].Id.Equal(alternativeNames) {
			return true
		}
	}
	return false
}

// union returns the scopes of both lists, which it does not change.
func union(a, b []Scope) []Scope {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
