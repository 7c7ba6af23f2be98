package alerts

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"sluice/rules/field"
)

func TestParseAllowed_TakesHostsAddressesAndNetworks(t *testing.T) {
	a, err := ParseAllowed([]string{"Hooks.Corp.Example.", "bücher.example", "10.1.2.3/16", "::ffff:10.3.0.0/112",
		"fd00::1"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{"hooks.corp.example": true, "HOOKS.corp.example.": true, "corp.example": false,
		"a.hooks.corp.example": false, "xn--bcher-kva.example": true, "BÜCHER.example": true, "10.1.0.1": false} {
		if a.Host(host) != want {
			t.Errorf("host %s: %v", host, !want)
		}
	}
	for addr, want := range map[string]bool{"10.1.200.1": true, "::ffff:10.1.0.1": true, "10.2.0.1": false,
		"10.3.0.9": true, "fd00::1": true, "fd00::2": false} {
		if a.Addr(netip.MustParseAddr(addr)) != want {
			t.Errorf("address %s: %v", addr, !want)
		}
	}
	for _, bad := range []string{"", " ", "a b", "https://x", "10.0.0.0/33", "x:80", "*.example", "fe80::1%eth0", "127.1",
		"2130706433", "0x7f.1", "0x7f000001", "a..b", "-a.example", "a/b", "[::1]", strings.Repeat("a", 64)} {
		if _, err := ParseAllowed([]string{"x.example", bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// What a URL could be taken for by one program and not by another is refused.
func TestValidate_RefusesOddURLs(t *testing.T) {
	for url, want := range map[string]string{
		"https://hooks.example.com/x?y=z": "", "https://hooks.example.com.:8443/": "", "https://93.184.216.34/": "",
		"https://[2606:2800:220:1::1]:443/": "", "https://bücher.example/": "", "https://_x.example/": "",
		"https://127.1/": "whole IP address", "https://2130706433/": "whole IP address",
		"https://0x7f.0.0.1/": "whole IP address", "https://0177.0.0.1/": "whole IP address",
		"https://0x7f000001/": "whole IP address", "https://127.0.0.1.:80/": "whole IP address",
		"https://a..b/": "whole IP address", "https://[fe80::1%25eth0]/": "zone", "https://x.example:0/": "port",
		"https://x.example:65536/": "port", "https://x.example:/": "", "https://u@x.example/": "user",
		"https://u:p@x.example/": "user", "https://x.example/#f": "fragment", "ftp://x.example/": "https://",
		"//x.example/": "https://", "x.example": "https://", "https:x.example": "host", "https:///x": "host", "": "URL",
		"https://x.example\r\nA: b/": "URL", "https://x.example:8o/": "URL", "https://[::1/": "URL",
	} {
		w := NewWebhook()
		w.Name, w.URL = "pager", url
		var invalid *field.ValidationError
		err := Validate(&w)
		if want == "" && err != nil {
			t.Errorf("%q: %v", url, err)
		}
		if want != "" && (!errors.As(err, &invalid) || invalid.Fields[0].Field != "url" ||
			!strings.Contains(invalid.Fields[0].Message, want)) {
			t.Errorf("%q: %v, want %q about url", url, err, want)
		}
	}
}

func TestSubject_NamesAreShortAndUnique(t *testing.T) {
	long := strings.Repeat("é", 1000)
	seen := map[string]Subject{}
	for _, s := range []Subject{{}, {Kind: KindKeyUsage}, {Key: "a"}, {Key: "\x00"}, {Key: "\xff"}, {Key: "\ufffd"},
		{Rule: "a"}, {Level: "a"}, {Key: "a|b"}, {Key: `"a"`}, {Key: long}, {Key: long + "x"}, {Key: long, Rule: "r"}} {
		name := s.String()
		if other, taken := seen[name]; taken {
			t.Errorf("%+v and %+v are both %q", s, other, name)
		}
		seen[name] = s
		if len(name) > maxSubject || strings.ToValidUTF8(name, "") != name || strings.ContainsAny(name, "\x00\n") {
			t.Errorf("the name of %+v is %q", s, name)
		}
	}
}
