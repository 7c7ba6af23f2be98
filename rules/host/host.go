// Package host reads the names of hosts and the networks that people write.
package host

import (
	"errors"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// MaxLength is the longest host, in bytes.
const MaxLength = 253

// maxText bounds a host before other scripts are written in ASCII, in bytes.
const maxText = 1024

// maxLabel is the longest part of a host between two dots, in bytes.
const maxLabel = 63

var (
	errHost = errors.New("must be the name of a host, such as api.example.com, or its address, without scheme, path and " +
		"blanks")
	errHostPattern = errors.New("must be the name of a host, such as api.example.com, or *.example.com for all names " +
		"below example.com, without scheme, port and path")
)

// unicodeHosts converts names of other scripts to ASCII. It does not object to the characters that hostName looks at.
var unicodeHosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false))

// Parse returns a host as it is compared and counted: in lower case, other scripts as IDNA writes them in ASCII
// (xn--…), and without a port, the brackets of an IPv6 address and the dot at the end. A name in that form costs no
// memory.
func Parse(s string) (string, error) {
	if s == "" {
		return "", errHost
	}
	if s[0] == '[' {
		inner, port, ok := strings.Cut(s[1:], "]")
		if !ok || !strings.Contains(inner, ":") || port != "" && (port[0] != ':' || !isPort(port[1:])) {
			return "", errHost
		}
		return hostName(inner)
	}
	if name, port, ok := strings.Cut(s, ":"); ok && !strings.Contains(port, ":") {
		if !isPort(port) {
			return "", errHost
		}
		s = name
	}
	return hostName(s)
}

// isPort reports whether s is a port, which may be empty.
func isPort(s string) bool { return len(s) <= 5 && isDigits(s) }

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// hostName is Parse without a port.
func hostName(s string) (string, error) {
	if strings.Contains(s, ":") {
		ip, err := netip.ParseAddr(s)
		if err != nil || ip.Zone() != "" {
			return "", errHost
		}
		return ip.String(), nil
	}
	if len(s) > maxText || !utf8.ValidString(s) {
		return "", errHost
	}
	if !isASCII(s) || strings.Contains(strings.ToLower(s), "xn--") {
		var err error
		if s, err = unicodeHosts.ToASCII(s); err != nil {
			return "", errHost
		}
	}
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if len(s) > MaxLength {
		return "", errHost
	}
	for rest, more := s, true; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		if !isLabel(label) {
			return "", errHost
		}
	}
	return s, nil
}

// isLabel reports whether s is one part of a name in lower case. Names inside networks have underscores.
func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// ParsePattern returns the host of a rule as the index keeps it: a name, or for *.example.com what the names end
// in, .example.com.
func ParsePattern(s string) (string, error) {
	below, wild := strings.CutPrefix(s, "*.")
	if wild && strings.Contains(below, ":") {
		return "", errHostPattern
	}
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.Contains(inner, ":") && strings.HasSuffix(inner, "]") {
		below = inner[:len(inner)-1]
	}
	name, err := hostName(below)
	switch {
	case err != nil || wild && isDigits(name[strings.LastIndexByte(name, '.')+1:]): // addresses have no names below
		return "", errHostPattern
	case wild:
		return "." + name, nil
	}
	return name, nil
}

// Normal returns the host of a rule as it is stored, and unchanged if it is none.
func Normal(s string) string {
	key, err := ParsePattern(s)
	switch {
	case err != nil:
		return s
	case key[0] == '.':
		return "*" + key
	}
	return key
}

// Matches reports whether a host matches the host of a rule; of is the result of ParsePattern.
func Matches(of, host string) bool {
	if of[0] == '.' {
		return len(host) > len(of) && strings.HasSuffix(host, of)
	}
	return host == of
}
