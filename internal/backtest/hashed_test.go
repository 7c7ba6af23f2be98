package backtest

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/api/decide"
	"sluice/internal/records"
	"sluice/rules/match"
)

// hashedLog is the decision log, with addresses hashed, of a check of each descriptor in turn, a millisecond apart.
func hashedLog(t *testing.T, set *match.Set, descriptors ...match.Descriptor) string {
	t.Helper()
	var into bytes.Buffer
	r := newRecorded(t, set, &into, 100, records.AddressPrefix)
	var a decide.Answer
	for _, d := range descriptors {
		time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
		if err := r.checker.Do(t.Context(), &decide.Question{Weight: 1, Descriptor: d}, &a); err != nil {
			t.Fatal(err)
		}
	}
	r.close(t)
	return into.String()
}

// Rules count the addresses of one network together, and so does a replay of hashes.
func TestRun_CountsHashedAddressesAsRulesDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perIP = "rules:\n  - {name: per-ip, scope: ip, algorithm: fixed_window, limit: 3, window_ms: 60000}\n"
		var from []match.Descriptor
		for _, ip := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4", "2001:db8:0:1::1",
			"203.0.113.7", "64:ff9b::203.0.113.7", "::ffff:203.0.113.7", "203.0.113.7", "203.0.113.8"} {
			from = append(from, match.Descriptor{Method: "GET", Route: "/x", IP: netip.MustParseAddr(ip)})
		}
		log := hashedLog(t, compiled(t, perIP), from...)
		r := run1(t, Options{Span: Span{Log: logOf(t, log)}, Proposed: compiled(t, perIP)})
		if r.Checks != 10 || r.DeniedBefore != 2 || r.DeniedAfter != 2 || r.NewlyAllowed+r.NewlyDenied != 0 {
			t.Errorf("the rules that wrote the log: %s", r)
		}
	})
}

// One bucket has one name before and after, also if the log has hashes of its values, and none that a replay made up.
func TestRun_NamesBucketsAsTheLog(t *testing.T) {
	const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	d := match.Descriptor{Method: "GET", Route: "/x", User: secret, APIKey: "abc", IP: netip.MustParseAddr("203.0.113.7"),
		Attributes: map[string]string{"tenant": "token:" + secret}}
	const rule = `rules:
  - {name: NAME, scope: SCOPE, algorithm: fixed_window, limit: LIMIT, window_ms: 60000}
`
	set := func(t *testing.T, name, scope, limit string) *match.Set {
		return compiled(t, strings.NewReplacer("NAME", name, "SCOPE", "'"+scope+"'", "LIMIT", limit).Replace(rule))
	}
	for _, scope := range []string{"user", "apikey", "ip", "user+ip", "attr:tenant", "user+route"} {
		synctest.Test(t, func(t *testing.T) {
			log := hashedLog(t, set(t, "old", scope, "2"), d, d, d, d, d)
			r := run1(t, Options{Span: Span{Log: logOf(t, log)}, Proposed: set(t, "old", scope, "3")})
			if len(r.Keys) != 1 || r.Keys[0].DeniedBefore != 3 || r.Keys[0].DeniedAfter != 2 {
				t.Errorf("%s: %+v", scope, r.Keys)
			}
			// A rule that the log does not know counts by facts that it has.
			for _, k := range run1(t, Options{Span: Span{Log: logOf(t, log)}, Proposed: set(t, "new", scope, "3")}).Keys {
				for part := range strings.SplitSeq(k.Key, "+") {
					if !strings.Contains(part, ":hash:") && part != "route:/x" {
						t.Errorf("%s: the key %q of the rule %s", scope, k.Key, k.Rule)
					}
				}
			}
		})
	}
}
