package match

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/field"
)

func TestCIDR_SeesTheIPv4AddressInside(t *testing.T) {
	s := compile(t, conditional(`cidr(ip, "203.0.113.0/24")`))
	for ip, want := range map[string]int{
		"203.0.113.7": 1, "::ffff:203.0.113.7": 1, "64:ff9b::203.0.113.7": 1, "203.0.114.7": 0, "2001:db8::1": 0,
	} {
		if got := s.Match(&Descriptor{IP: netip.MustParseAddr(ip)}, 1, noon, nil); len(got) != want {
			t.Errorf("%s: %d rules match, want %d", ip, len(got), want)
		}
	}
}

// No address equals a network, so such a rule would never apply. One that was stored before stays in force.
func TestCIDR_ComparingTheAddressWithANetworkIsRefused(t *testing.T) {
	for when, want := range map[string]string{
		`ip == "10.0.0.0/8"`:                 `line 1, column 7: ip is one address and never equals a network; write cidr(ip, "10`,
		`"2001:db8::/32" != ip`:              `line 1, column 1: ip is one address and never equals a network; write cidr(ip, "2`,
		`ip in ["10.1.1.1", "10.0.0.0/8"]`:   `line 1, column 20: ip is one address and never equals a network; write`,
		`ip in ["10.0.0.0/255.0.0.0"]`:       `write cidr(ip, "10.0.0.0/255.0.0.0")`,
		`user == "a" && ip == "10.0.0.0/33"`: `line 1, column 22`,
	} {
		r := conditional(when)
		var ve *field.ValidationError
		if err := rules.CheckPatterns(nil, &r); !errors.As(err, &ve) || ve.Fields[0].Field != "when" ||
			!strings.Contains(ve.Fields[0].Message, want) {
			t.Errorf("%s: got %v, want %s", when, err, want)
		}
		compile(t, r)
		edited := r
		edited.Limit++
		if err := rules.CheckPatterns(&r, &edited); err != nil {
			t.Errorf("%s: an edit of another field: %v", when, err)
		}
	}
	for _, when := range []string{
		`ip == "10.0.0.1"`, `ip in ["10.0.0.1", "::1"]`, `user == "10.0.0.0/8"`, `ip == "a/b"`, `ip startsWith "10."`,
		`cidr(ip, "10.0.0.0/8") == true`,
	} {
		r := conditional(when)
		if err := rules.CheckPatterns(nil, &r); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
}
