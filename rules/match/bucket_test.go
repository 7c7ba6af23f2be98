package match

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/scope"
)

var bucketScopes = []string{"user", "apikey", "ip", "route", "attr:tenant", "user+ip", "user+apikey", "apikey+ip",
	"user+route", "attr:tenant+user+method", "global"}

func bucketRule(scope string) rules.Rule {
	return rules.Rule{ID: 17, Name: "r", Scope: scope, Limit: 5, WindowMS: 1000, IsActive: true}
}

func TestFindBucket_LeadsBackToWhatARequestCounts(t *testing.T) {
	value := rapid.OneOf(
		rapid.StringMatching(`[a-z0-9:+*%{}| .@/\\-]{1,20}`), rapid.StringN(1, 12, 40),
		rapid.SampledFrom([]string{"sk_live_abcdef", "sha256:abcdefghijkl", "x sha256:abcdefghijkl",
			strings.Repeat("long", 60), "a+ip:1.2.3.4", "sha256:" + strings.Repeat("a", 43), "xsha256:" +
				strings.Repeat("b", 43)}),
	)
	rapid.Check(t, func(t *rapid.T) {
		scopeText := rapid.SampledFrom(bucketScopes).Draw(t, "scope")
		set, err := Compile([]rules.Rule{bucketRule(scopeText)}, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := Descriptor{
			User: value.Draw(t, "user"), APIKey: value.Draw(t, "key"), Method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t,
				"method"),
			Route:      "/" + rapid.SampledFrom([]string{"v1/a", "v1/sk_live_abcdef/b", "+/%2f"}).Draw(t, "route"),
			IP:         netip.MustParseAddr(rapid.SampledFrom([]string{"203.0.113.7", "2001:db8::1"}).Draw(t, "ip")),
			Attributes: map[string]string{"tenant": value.Draw(t, "tenant")},
		}
		matches := set.Match(&d, 1, time.Unix(0, 0), nil)
		if len(matches) != 1 {
			return // such a route is normalised away
		}
		key := matches[0].Key
		name := BucketName(key)
		b, err := set.FindBucket(set.At(0), name, time.Unix(0, 0))
		if err != nil {
			t.Fatalf("%q of %q: %v", name, key, err)
		}
		if b.Key != key || b.Name != name {
			t.Fatalf("%q led to %q (%q), want %q", name, b.Key, b.Name, key)
		}
		if scopeText == scope.Global {
			return
		}
		want, err := ParseOverrideKey(scopeText, Options{}, b.Exception)
		if err != nil || want.Text != b.Exception {
			t.Fatalf("no override can be made for %q: %+v %v", b.Exception, want, err)
		}
	})
}

func TestFindBucket_KnowsWhatIsCutShort(t *testing.T) {
	set, err := Compile([]rules.Rule{bucketRule("apikey")}, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, now := set.At(0), time.Unix(0, 0)
	hash := hashOf("k1")
	for _, text := range []string{"k1", "apikey:k1", "apikey:sha256:" + hash, "sha256:" + hash} {
		b, err := set.FindBucket(c, text, now)
		if err != nil || b.Key != limiter.Key("{apikey:%h"+hash+"}|17|sc") || b.Name != "apikey:sha256:"+hash ||
			b.Exception != "apikey:sha256:"+hash[:12] {
			t.Errorf("%q: %+v, %v", text, b, err)
		}
	}
	b, err := set.FindBucket(c, "apikey:sha256:"+hash[:12], now)
	if err != nil || b.Key != "" || b.Exception != "apikey:sha256:"+hash[:12] {
		t.Errorf("cut short: %+v, %v", b, err)
	}
}

func TestFindBucket_TellsTheOverride(t *testing.T) {
	set := withOverrides(t, bucketRule("user"), rules.Override{Key: "42", Blocked: true},
		rules.Override{Key: "acme-*", Limit: new(int64(9))}, rules.Override{Key: "free", Unlimited: true})
	for text, want := range map[string]struct {
		id, limit int64
		unlimited bool
	}{"42": {1, 0, false}, "acme-7": {2, 9, false}, "free": {3, 5, true}, "other": {0, 5, false}} {
		b, err := set.FindBucket(set.At(0), text, time.Unix(0, 0))
		if err != nil || b.Override.ID != want.id || b.Limit.Count != want.limit || b.Override.Unlimited != want.unlimited {
			t.Errorf("%s: %+v, %v", text, b, err)
		}
	}
}

func TestFindBucket_HasTheCandidate(t *testing.T) {
	r := bucketRule("user")
	r.Candidate = &rules.Candidate{Limit: new(int64(3))}
	set, err := Compile([]rules.Rule{r}, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := set.FindBucket(set.At(0), "42", time.Unix(0, 0))
	if err != nil || b.Candidate != "{user:42}|17.c|sc" || b.CandidateLimit.Count != 3 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestFindBucket_RefusesWhatIsNoKey(t *testing.T) {
	set, err := Compile([]rules.Rule{bucketRule("user+ip"), {ID: 18, Name: "g", Scope: "global", Limit: 1, WindowMS: 1,
		IsActive: true}}, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for text, part := range map[string]string{
		"": "required", "user:4*": "one bucket", "user:42": "form", "user:%FFhabc+ip:1.2.3.4": "no request",
		"user:a+ip:nowhere": "IP address", "x\n": "printable", "user:a+ip:10.0.0.0/8": "one bucket",
	} {
		if _, err := set.FindBucket(set.At(0), text, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", text, err, part)
		}
	}
	if _, err := set.FindBucket(set.At(1), "user:42", time.Unix(0, 0)); err == nil {
		t.Error("a global rule has a key")
	}
}

// A bucket may be named by the 12 characters of a hash that are displayed, also
// where other facts follow it.
func TestFindBucket_AShownHashBeforeOtherFactsStays(t *testing.T) {
	set, err := Compile([]rules.Rule{bucketRule("user+route+method")}, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const text = "user:sha256:k90Y2meAxzbh+route:/v1/some/longer/route+method:GET"
	b, err := set.FindBucket(set.At(0), text, time.Unix(0, 0))
	if err != nil || b.Name != text || b.Exception != text {
		t.Errorf("named %q, as an override %q, %v; want %q", b.Name, b.Exception, err, text)
	}
}
