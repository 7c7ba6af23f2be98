package app

import (
	"errors"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/testenv"
)

func TestNAT64_AnAddressUnderAPrefixIsTheOneInside(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]config.Serve{"memory": settings(t), "redis": sharedSettings(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg.NAT64Prefixes = []string{"2001:db8:122:344::/64"}
			n := start(t, cfg)
			n.create(`{"name":"r","scope":"ip","limit":1,"window_ms":86400000}`)
			for _, step := range []struct {
				ip      string
				allowed bool
			}{
				{"192.0.2.33", true}, {"2001:db8:122:344:c0:2:2100::", false}, {"2001:db8:122:344:c0:2:2200::", true},
				{"192.0.2.34", false}, {"64:ff9b::192.0.2.35", true}, {"192.0.2.35", true},
			} {
				if got := n.check(`{"ip":"` + step.ip + `"}`); got["allowed"] != step.allowed {
					t.Errorf("%s: got %v", step.ip, got)
				}
			}
		})
	}
}

func TestAgreement_ANodeWithOtherPrefixesOfNAT64IsRefused(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t).URL()
	with := func(prefixes ...string) error {
		a, _ := follower(t, url, func(cfg *config.Serve) { cfg.NAT64Prefixes = prefixes })
		return a.compare(t.Context())
	}
	if err := with("64:ff9b::/96", "2001:db8:64::/96"); err != nil {
		t.Fatalf("the first node: %v", err)
	}
	if err := with("2001:DB8:64::/96", " 64:ff9b::/96"); err != nil {
		t.Errorf("the same prefixes in another order: %v", err)
	}
	for value, prefixes := range map[string][]string{"none": {"none"}, "64:ff9b::/96": nil} {
		err := with(prefixes...)
		if !errors.Is(err, errDiffers) || !strings.Contains(err.Error(), "--nat64-prefixes (SLUICE_NAT64_PREFIXES) is") ||
			!strings.Contains(err.Error(), `use "64:ff9b::/96,2001:db8:64::/96"`) ||
			!strings.Contains(err.Error(), "HSET sl:settings nat64_prefixes "+value) {
			t.Errorf("%v: %v", prefixes, err)
		}
	}
}
