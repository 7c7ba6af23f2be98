package profiles

import (
	"net/url"
	"testing"

	"sluice/deploy"
)

// A port is written as files of gateways need it, and the problems of several addresses have one order.
func TestReadChoice_NamesWrongAddressesInOrder(t *testing.T) {
	for text, want := range map[string]bool{"127.0.0.1:8080": true, "[::1]:80": true, "edge.example:443": true,
		"127.0.0.1:080": false, "127.0.0.1:0": false, "127.0.0.1": false, "127.0.0.1:65536": false, ":80": false} {
		if isAddress(text) != want {
			t.Errorf("%s: an address is %v", text, !want)
		}
	}
	for range 50 {
		_, problems := readChoice(url.Values{"gateway": {deploy.Gateways[0].Name}})
		var names []string
		for _, p := range problems {
			if p.Field == "sluice" || p.Field == "clients" || p.Field == "app" {
				names = append(names, p.Field)
			}
		}
		if len(names) != 3 || names[0] != "sluice" || names[1] != "clients" || names[2] != "app" {
			t.Fatalf("the problems are about %q", names)
		}
	}
}
