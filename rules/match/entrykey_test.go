package match

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/scope"
)

// entryTexts are texts that imitate separators, escapes, hashes, credentials and other keys.
var entryTexts = rapid.OneOf(
	rapid.SampledFrom([]string{
		"a", "b", "a=b", "a+b", "a:b", "a_b", "b_c", "%", "%h", "%2B", "a*", "*", "sk_live_x", "sk_live_y", "/v1/sk_live_x",
		"sha256:abcdefghijkl", "sha256:" + strings.Repeat("a", 43), "user", "key", "global", "}|7|fw", "ü", "\u202e", " ",
		strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("=", 40),
	}),
	rapid.StringMatching(`[a-c=+:%*{}| \x00]{0,6}`),
)

var entryLists = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entries.Entry {
	return drawEntry(t)
}), 1, 12)

// drawEntry draws an entry. Its key does not look like a credential.
func drawEntry(t *rapid.T) entries.Entry {
	key := entryTexts.Filter(func(s string) bool { return !strings.Contains(s, "sk_live") }).Draw(t, "key")
	return entries.Entry{Key: key, Value: entryTexts.Draw(t, "value")}
}

// TestEntriesKey_IsInjective: different descriptors never have one key.
func TestEntriesKey_IsInjective(t *testing.T) {
	s := compile(t)
	rapid.Check(t, func(t *rapid.T) {
		domainA, a := drawEntry(t).Key, entryLists.Draw(t, "list")
		domainB, b := domainA, slices.Clone(a)
		if rapid.Bool().Draw(t, "near") { // differs in one text, or in where one ends
			i := rapid.IntRange(0, len(b)-1).Draw(t, "which")
			b[i] = drawEntry(t)
		} else {
			domainB, b = drawEntry(t).Key, entryLists.Draw(t, "list")
		}
		keyA, keyB := s.EntriesKey(domainA, a), s.EntriesKey(domainB, b)
		same := domainA == domainB && slices.Equal(a, b)
		if (keyA == keyB) != same {
			t.Fatalf("%q %q and %q %q: keys %s and %s", domainA, a, domainB, b, keyA, keyB)
		}
		if shown := DisplayKey(keyA) == DisplayKey(keyB); shown != same {
			t.Fatalf("%q %q and %q %q: both are shown as %s", domainA, a, domainB, b, DisplayKey(keyA))
		}
		facts, _, _ := strings.Cut(string(keyA), "|")
		tag := facts[1 : len(facts)-1]
		if strings.ContainsAny(tag, "{}|") || len(tag) > maxEntriesFacts || keyA.Tag() != tag {
			t.Fatalf("%q %q: key %s", domainA, a, keyA)
		}
		if shown := DisplayKey(keyA); len(shown) > rules.MaxOverrideKey || !utf8.ValidString(shown) ||
			strings.Contains(shown, "sk_live") || DisplayDirectKey(keyA) != shown {
			t.Fatalf("%q %q: shown as %q and %q", domainA, a, shown, DisplayDirectKey(keyA))
		}
		if _, ok := RuleID(keyA); ok {
			t.Fatalf("%s seems to be the key of a rule", keyA)
		}
	})
}

// TestEntriesKey_MeetsNoOther: a rule keeps its id when a descriptor takes the place of its scope.
func TestEntriesKey_MeetsNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scopeText := rapid.SampledFrom(append(overrideScopes, scope.Global)).Draw(t, "scope")
		was := rule(7, func(r *rules.Rule) { r.Scope, r.Algorithm = scopeText, "fixed_window" })
		ordinary, err := Compile([]rules.Rule{was}, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		domain := rapid.OneOf(rapid.SampledFrom(append(scope.Names[:], "key", "global")), entryTexts).Draw(t, "domain")
		list := entryLists.Draw(t, "list")
		facts := appendEntries(nil, nil, domain, list)
		d := drawDescriptor(t, "request")
		key := string(facts[1:max(1, len(facts)-1)])
		_, d.User, _ = strings.Cut(key, ":") // the ordinary value nearest to it
		d.Attributes = map[string]string{"a": d.User, "b": d.User}
		for _, m := range ordinary.Match(&d, 1, noon, nil) {
			if string(m.Key) == string(facts)+keySuffix(7, m.Limit.Algorithm) {
				t.Fatalf("%s is a key of scope %s, and of %q %q", m.Key, scopeText, domain, list)
			}
		}
		own := limiter.Limit{Algorithm: limiter.FixedWindow, Window: 1000}
		if direct := limiter.DirectKey(d.User, own); string(direct) == string(facts)+entriesKind {
			t.Fatalf("%s is a direct key", direct)
		}
	})
}

// drawEntries draws a rule and a descriptor to which it applies.
func drawEntries(t *rapid.T) (rules.Rule, []entries.Entry) {
	r := entryRule(7, "a:b", func(r *rules.Rule) { r.ShareThreshold = rapid.Bool().Draw(t, "share") })
	text := func(name string) string {
		s := entryTexts.Filter(func(s string) bool {
			return s != "" && utf8.ValidString(s) &&
				!strings.Contains(s, "\x00")
		}).Draw(t, name)
		return s
	}
	r.Descriptor = &rules.RuleDescriptor{Domain: text("domain")}
	var list []entries.Entry
	for range rapid.IntRange(1, 6).Draw(t, "entries") {
		e, value := entries.Element{Key: text("key")}, text("value")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			e.Value = value
		case 1:
			e.Pattern = value[:len(value)/2] + "*"
			for !utf8.ValidString(e.Pattern) {
				e.Pattern = "*"
			}
			e.Shared = rapid.Bool().Draw(t, "shared")
		}
		r.Descriptor.Entries = append(r.Descriptor.Entries, e)
		list = append(list, entries.Entry{Key: e.Key, Value: value})
	}
	if !slices.ContainsFunc(r.Descriptor.Entries, func(e entries.Element) bool { return e.Pattern != "" }) {
		r.ShareThreshold = false
	}
	return r, list
}

// TestOverrideKey_ReadsDisplayedDescriptorsBack: what people see names the bucket and no other.
func TestOverrideKey_ReadsDisplayedDescriptorsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, list := drawEntries(t)
		s, err := Compile([]rules.Rule{r}, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, ok := s.MatchEntries(r.Descriptor.Domain, list, noon)
		if !ok {
			t.Fatalf("%+v does not match %q", r.Descriptor, list)
		}
		facts, _, _ := strings.Cut(string(m.Key), "|")
		want := string(appendShort(nil, []byte(facts)))
		for _, shown := range []string{m.Display(), BucketName(m.Key)} {
			k, err := ReadOverrideKey(&r, Options{}, shown)
			if err != nil || k.Match != want || k.Prefix || k.Text != m.Display() {
				t.Fatalf("%+v, %s shown as %s: read as %+v, %v, want %s", r.Descriptor, m.Key, shown, k, err, want)
			}
			b, err := s.FindBucket(m.Rule, shown, noon)
			if err != nil || b.Key != "" && (b.Key != m.Key || b.Name != BucketName(m.Key)) || b.Exception != m.Display() {
				t.Fatalf("%s: found %+v, %v, want %s", shown, b, err, m.Key)
			}
			if shown == BucketName(m.Key) && b.Key == "" {
				t.Fatalf("%s: not found", shown)
			}
		}
	})
}

func TestOverrideKey_OfDescriptors(t *testing.T) {
	r := entryRule(7, "shop:path=/pay file~/a/*! user~acme-* any", nil)
	const form = "must have the form shop:path=/pay+file=/a/*+user=<value>+any=<value>"
	long := strings.Repeat("x", 300)
	for text, want := range map[string]string{
		"shop:path=/pay+file=/a/*+user=acme-1+any=b":     "{shop:path=/pay+file=/a/*+user=acme-1+any=b}",
		"shop:path=%2Fpay+file=/a/*+user=acme-1+any=b=c": "{shop:path=/pay+file=/a/*+user=acme-1+any=b%3Dc}",
		"shop:path=/pay+file=/a/*+user=acme-1+any=*":     "{shop:path=/pay+file=/a/*+user=acme-1+any=*",
		"shop:path=/pay+file=/a/*+user=acme-*":           "{shop:path=/pay+file=/a/*+user=acme-*",
		"shop:path=/pay+file=*":                          "{shop:path=/pay+file=*",
		"shop:pa*":                                       form,
		"shop:*":                                         form,
		"shop:path=/pay":                                 form,
		"path=/pay+file=/a/*+user=acme-1+any=b":          form,
		"shop:path=/pay+user=acme-1+file=/a/*+any=b":     form,
		"shop:path=/pay+file=/a/*+user=acme-1+any=b+c":   form + "; write a + inside a value as %2B",
		"shop:path=/p+file=/a/*+user=acme-1+any=b":       "must have the value of the rule for path",
		"shop:path=/pay+file=/a/x+user=acme-1+any=b": "must have the pattern of the rule for file, " +
			"because all values that fit it have one bucket",
		"shop:path=/pay+file=/a/*+user=b+any=b":   "must have a value for user that fits the pattern of the rule",
		"shop:path=/pay+file=/a/*+user=a*b+any=b": "may have a wildcard * only at its end; write a literal * as %2A",
		"shop:path=/pay+file=/a/*+user=acme-1+any=sk_live_x*": "cannot have a wildcard inside a value that looks like a " +
			"credential, because credentials are stored as hashes",
		"shop:path=/pay+file=/a/*+user=acme-1+any=" + long + "*": "{shop:path=/pay+file=/a/*+user=acme-1+any=" + long + "*",
		"": "is required",
	} {
		k, err := ReadOverrideKey(&r, Options{}, text)
		got := k.Match
		if k.Prefix {
			got += "*"
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.80s: got %s, want %s", text, got, want)
		}
	}
}

func FuzzOverrideKey_OfDescriptors(f *testing.F) {
	for _, s := range []string{"shop:path=/pay+file=/a/*+user=acme-1+any=b", "shop:path=/pay+file=*", "shop:%",
		"shop:sha256:abcdefghijkl", "shop:path=/pay+file=/a/*+user=sha256:abcdefghijkl+any=%"} {
		f.Add(s)
	}
	r := entryRule(7, "shop:path=/pay file~/a/*! user~acme-* any", nil)
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ReadOverrideKey(&r, Options{}, text)
		if err != nil {
			return
		}
		if again, err := ReadOverrideKey(&r, Options{}, k.Text); err != nil || again != k {
			t.Fatalf("%q: %+v is read back as %+v, %v", text, k, again, err)
		}
	})
}
