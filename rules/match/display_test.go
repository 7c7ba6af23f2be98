package match

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/override"
	"sluice/rules/scope"
)

// trickyValues try to look like something else when they are displayed.
var trickyValues = []string{
	"a*", "*", "a%b", "a%41", "aA", "%2A", "a", "b", "c", "a+attr:t:b", "b+attr:t:c", "a+ip:203.0.113.7", "a%2Battr:t:b",
	"user:42", "42", "host:a.com", "ip:1.2.3.4", "ip%3A1.2.3.4",
	"attr:t:x", "t:x", "global", "sha256:abcdefghijkl", "sha256:" + strings.Repeat("b", hashLen), "x sha256:abcdefghijkl",
	"sk_live_4eC39HqLyjWDarjt", "\u00fc",
	"a\u00a0b", "\u202e", " a ", "a\nb", strings.Repeat("*", limiter.MaxKeyValue), strings.Repeat("y", 120), "\xff", "%FF",
	"%h", "key:42", "a}b", "{a", "a|b",
}

func tricky() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringMatching(`[ab+:%*{}| ,0-9]{1,9}`), rapid.SampledFrom(trickyValues),
		rapid.StringN(1, 6, 40))
}

func trickyDescriptor(t *rapid.T, label string) Descriptor {
	value := tricky()
	return Descriptor{
		User: value.Draw(t, label+" user"), APIKey: value.Draw(t, label+" key"), Tier: value.Draw(t, label+" tier"),
		Attributes: map[string]string{"t": value.Draw(t, label+" t"), "tenant": value.Draw(t, label+" tenant")},
		Route: "/" + rapid.SampledFrom([]string{"v1", "v1/a*", "a+method:GET", "%2F", "x%zz",
			"v1/sk_live_4eC39HqLyjWDarjt"}).Draw(t, label+" route"),
		Method: rapid.SampledFrom([]string{"GET", "post", "P*", "A+B"}).Draw(t, label+" method"),
		Host:   rapid.SampledFrom([]string{"a.com", "b.a.com", "10.0.0.1", "2001:db8::1", "a_b"}).Draw(t, label+" host"),
		IP: netip.MustParseAddr(rapid.SampledFrom([]string{"203.0.113.7", "203.0.113.8", "2001:db8::1",
			"2001:db8:0:1::1", "::ffff:203.0.113.7"}).Draw(t, label+" ip")),
	}
}

var displayScopes = []string{
	"user", "apikey", "ip", "tier", "route", "method", "attr:t", "user+ip", "user+attr:t", "attr:t+attr:tenant",
	"user+route+method", "apikey+ip", "tier+ip+attr:t", "global", "host", "host+user", "ip+host+route",
}

// What is displayed for a bucket, pasted as the key of an override, is for exactly
// that bucket, and different buckets are never displayed alike.
func TestDisplayKey_PastedAsAnOverrideNamesThatBucketOnly(t *testing.T) {
	now := time.Unix(0, 0)
	rapid.Check(t, func(t *rapid.T) {
		scopeText, other := rapid.SampledFrom(displayScopes).Draw(t, "scope"), rapid.SampledFrom(displayScopes).Draw(t,
			"another scope")
		opt := Options{IPv4Prefix: rapid.SampledFrom([]int{32, 24}).Draw(t, "v4"),
			IPv6Prefix: rapid.SampledFrom([]int{64, 128}).Draw(t, "v6")}
		set, err := Compile([]rules.Rule{bucketRule(scopeText), {ID: 18, Name: "s", Scope: other, Limit: 5, WindowMS: 1000,
			IsActive: true}}, 1, opt)
		if err != nil {
			t.Fatal(err)
		}
		a, b := trickyDescriptor(t, "a"), trickyDescriptor(t, "b")
		keyA, keyB := keysOf(set, &a), keysOf(set, &b)
		for _, k := range []limiter.Key{keyB[17], keyA[18], keyB[18]} {
			if k == "" || keyA[17] == "" {
				continue
			}
			alike := DisplayKey(keyA[17]) == DisplayKey(k)
			if same := factsOf(keyA[17]) == factsOf(k); alike != same {
				t.Fatalf("%q and %q: displayed %q and %q", keyA[17], k, DisplayKey(keyA[17]), DisplayKey(k))
			}
		}
		if scopeText == scope.Global || keyA[17] == "" {
			return
		}
		shown := DisplayKey(keyA[17])
		pasted := []string{shown}
		if c := set.At(0); len(c.facts) == 1 {
			pasted = append(pasted, strings.TrimPrefix(shown, c.facts[0].Label))
		}
		for _, text := range pasted {
			key, err := ParseOverrideKey(scopeText, opt, text)
			if err != nil || key.Prefix || key.Text != shown {
				t.Fatalf("%q of %q: read as %+v, %v", text, keyA[17], key, err)
			}
			e := override.New().Edit()
			e.Add(override.Row{RuleID: 17, ID: 1, Match: key.Match, Prefix: key.Prefix, Blocked: true, Limit: -1, Burst: -1})
			over := set.WithOverrides(e.Done(1, 0))
			if got := blocked(over, &a, now); !got {
				t.Fatalf("%q does not block its own bucket %q", text, keyA[17])
			}
			if got, want := blocked(over, &b, now), keyB[17] == keyA[17]; got != want {
				t.Fatalf("%q blocks %q: %v, want %v", text, keyB[17], got, want)
			}
			bucket, err := set.FindBucket(set.At(0), text, now)
			if err != nil || bucket.Exception != shown || bucket.Key != "" && bucket.Key != keyA[17] {
				t.Fatalf("%q leads to %+v, %v", text, bucket, err)
			}
		}
	})
}

// The values that could be mistaken for each other, all of them against all.
func TestDisplayKey_TrickyValuesAreNeverDisplayedAlike(t *testing.T) {
	facts := map[string]string{} // by what is displayed
	for _, scope := range []string{"user", "tier", "attr:t", "user+attr:t", "user+ip", "user+tier"} {
		set, err := Compile([]rules.Rule{bucketRule(scope)}, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := set.At(0)
		seconds := trickyValues
		if len(c.facts) == 1 {
			seconds = trickyValues[:1]
		}
		for _, first := range trickyValues {
			for _, second := range seconds {
				d := Descriptor{User: first, Tier: second, Attributes: map[string]string{"t": second},
					IP: netip.MustParseAddr("203.0.113.7")}
				if len(c.facts) == 1 {
					d.Tier, d.Attributes["t"] = first, first
				}
				key := keysOf(set, &d)[17]
				shown, is := DisplayKey(key), factsOf(key)
				if was, ok := facts[shown]; ok && was != is {
					t.Errorf("%q is displayed for %q and for %q", shown, was, is)
				}
				facts[shown] = is
				for _, text := range []string{shown, strings.TrimPrefix(shown, c.facts[0].Label)} {
					if len(c.facts) > 1 {
						text = shown
					}
					got, err := ParseOverrideKey(scope, Options{}, text)
					if want := string(appendShort(nil, []byte(is))); err != nil || got.Match != want || got.Prefix ||
						got.Text != shown {
						t.Errorf("%s %q: read as %+v, %v, want %q", scope, text, got, err, want)
					}
				}
			}
		}
	}
}

func keysOf(s *Set, d *Descriptor) map[int64]limiter.Key {
	keys := map[int64]limiter.Key{}
	for _, m := range s.Match(d, 1, time.Unix(0, 0), nil) {
		keys[m.Rule.Rule.ID] = m.Key
	}
	return keys
}

func factsOf(k limiter.Key) string {
	facts, _, _ := strings.Cut(string(k), "|")
	return facts
}

func blocked(s *Set, d *Descriptor, now time.Time) bool {
	for _, m := range s.Match(d, 1, now, nil) {
		if m.Rule.Rule.ID == 17 {
			return m.Override.Blocked
		}
	}
	return false
}

func TestDisplayKey_UserWithAStarIsNoWildcard(t *testing.T) {
	for user, innocent := range map[string]string{"a*": "alice", "*": "bob"} {
		shown := keyOf(t, "user", Options{}, Descriptor{User: user})
		set := withOverrides(t, bucketRule("user"), rules.Override{Key: shown.Display(), Blocked: true})
		if !blocked(set, &Descriptor{User: user}, time.Unix(0, 0)) || blocked(set, &Descriptor{User: innocent},
			time.Unix(0, 0)) {
			t.Errorf("user %q is displayed as %q, and an override of that blocks %q", user, shown.Display(), innocent)
		}
	}
}

func TestDisplayDirectKey_IsWhatTheCallerWrote(t *testing.T) {
	for key, want := range map[string]string{
		"user:42:GET:/v1/charges": "user:42:GET:/v1/charges", "a* %41+b|{c}": "a* %41+b|{c}", "key:k": "key:k",
		"a\nb":                          "a%0Ab",
		"user:sk_live_4eC39HqLyjWDarjt": "sha256:" + hashOf("user:sk_live_4eC39HqLyjWDarjt")[:shownHash],
	} {
		if got := DisplayDirectKey(DirectKey(key, limiter.Limit{Algorithm: limiter.GCRA, Window: 1000})); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}
