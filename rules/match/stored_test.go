package match

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/rules"

	"github.com/google/go-cmp/cmp"
)

func TestStored_MatchesTheSameBucketsAndHoldsNoCredential(t *testing.T) {
	var rs []rules.Rule
	for i, scope := range []string{"apikey", "user", "ip", "attr:tenant", "tier", "user+apikey", "route", "attr:token",
		"user+host"} {
		r := rules.Rule{ID: int64(i + 1), Name: "r" + string(rune('a'+i)), Scope: scope, Limit: 5, WindowMS: 1000,
			IsActive: true}
		r.Normalize()
		rs = append(rs, r)
	}
	set, err := Compile(rs, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	for name, d := range map[string]Descriptor{
		"plain": {Method: "GET", Route: "/a", IP: netip.MustParseAddr("203.0.113.7"), User: "42", Tier: "free",
			Host: "a.example.com", Attributes: map[string]string{"tenant": "acme"}},
		"secrets": {User: secret, APIKey: secret, Route: "/b", Attributes: map[string]string{"token": secret,
			"tenant": "<&> \u2028"}, Fields: map[string]int64{"n": 3}},
		"short":  {APIKey: "k"},
		"forged": {User: storedH + "AAAA", APIKey: storedRaw + "BBBB", Attributes: map[string]string{"tenant": storedRaw}},
		"empty":  {},
	} {
		b, err := d.MarshalStored()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(secret)) || d.APIKey != "" && strings.Contains(string(b), `"api_key":"`+d.APIKey+`"`) {
			t.Errorf("%s: stored in clear: %s", name, b)
		}
		var again Descriptor
		if err := again.UnmarshalStored(b); err != nil {
			t.Fatal(err)
		}
		now := time.UnixMilli(1_795_260_000_000)
		keys := func(d *Descriptor) (out []string) {
			for _, m := range set.Match(d, 1, now, nil) {
				out = append(out, string(m.Key))
			}
			return out
		}
		if diff := cmp.Diff(keys(&d), keys(&again)); diff != "" {
			t.Errorf("%s: buckets (-sent +stored):\n%s", name, diff)
		}
	}
}
