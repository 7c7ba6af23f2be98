package match

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
)

// entryList reads key=value with blanks between.
func entryList(text string) (list []entries.Entry) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		list = append(list, entries.Entry{Key: key, Value: value})
	}
	return list
}

func TestMatchEntries_FindsOneRuleWithItsBucketAndLimit(t *testing.T) {
	later := noon.Add(time.Hour)
	s := compile(t,
		entryRule(1, "shop:path=/pay", nil),
		entryRule(2, "shop:path=/pay user", nil),
		entryRule(3, "shop:path=/pay user", nil), // the same descriptor
		entryRule(4, "shop:file~/a/*!", nil),
		entryRule(5, "shop:file~/a/b/*", nil),
		entryRule(6, "shop:file~/a/* user", func(r *rules.Rule) { r.ShareThreshold = true }),
		entryRule(7, "shop:path=/later", func(r *rules.Rule) { r.ActiveFrom = &later }),
		entryRule(8, "shop:path", nil),
		entryRule(9, "user:path", func(r *rules.Rule) { r.Algorithm = "gcra" }),
		entryRule(10, "night:path", func(r *rules.Rule) {
			r.Schedule = &rules.Schedule{Windows: []rules.ScheduleWindow{{From: "12:00", To: "13:00", Limit: new(int64(77))}}}
		}),
		entryRule(11, "off:path", func(r *rules.Rule) { r.IsActive = false }),
		rule(12, func(r *rules.Rule) { r.Scope, r.Route = "global", nil }),
	)
	tests := []struct {
		domain, list, key, display string
		limit                      int64
	}{
		{"shop", "path=/pay", "{shop:path=/pay}|1|fw", "shop:path=/pay", 5},
		{"shop", "path=/pay user=b", "{shop:path=/pay+user=b}|2|fw", "shop:path=/pay+user=b", 5},
		{"shop", "path=/pay user=", "{shop:path=/pay+user=}|2|fw", "shop:path=/pay+user=", 5},
		{"shop", "path=/pay user=a+b=c:d", "{shop:path=/pay+user=a%2Bb%3Dc%3Ad}|2|fw", "shop:path=/pay+user=a%2Bb=c:d", 5},
		{"shop", "file=/a/x", "{shop:file=/a/*}|4|fw", "shop:file=/a/*", 5},
		{"shop", "file=/a/b/c", "{shop:file=/a/b/c}|5|fw", "shop:file=/a/b/c", 5},
		{"shop", "file=/a/x user=u", "{shop:file=/a/*+user=u}|6|fw", "shop:file=/a/*+user=u", 5},
		{"shop", "path=/later", "", "", 0}, // not in force, and no other rule in its place
		{"shop", "path=/other", "{shop:path=/other}|8|fw", "shop:path=/other", 5},
		{"shop", "path=*", "{shop:path=%2A}|8|fw", "shop:path=%2A", 5},
		{"shop", "path=sk_live_x", "", "", 5},
		{"shop", "path=/v1/sk_live_x/a", "", "", 5},
		{"user", "path=/x", "{%75ser:path=/x}|9|ga", "user:path=/x", 5},
		{"night", "path=/x", "{night:path=/x}|10|fw", "night:path=/x", 77},
		{"off", "path=/x", "", "", 0},
		{"", "path=/x", "", "", 0},
	}
	for _, tt := range tests {
		m, ok := s.MatchEntries(tt.domain, entryList(tt.list), noon)
		if ok != (tt.limit > 0) {
			t.Errorf("%s %s: matched %t", tt.domain, tt.list, ok)
			continue
		}
		if !ok {
			continue
		}
		if tt.key != "" && string(m.Key) != tt.key || m.Limit.Count != tt.limit || m.Weight != 0 {
			t.Errorf("%s %s: got %s with %d, want %s with %d", tt.domain, tt.list, m.Key, m.Limit.Count, tt.key, tt.limit)
		}
		if tt.display != "" && m.Display() != tt.display {
			t.Errorf("%s %s: shown as %s, want %s", tt.domain, tt.list, m.Display(), tt.display)
		}
		if strings.Contains(string(m.Key)+m.Display(), "sk_live") {
			t.Errorf("%s %s: a credential is shown: %s", tt.domain, tt.list, m.Key)
		}
		if id, ok := RuleID(m.Key); !ok || id != m.Rule.Rule.ID {
			t.Errorf("%s belongs to rule %d", m.Key, id)
		}
	}
	for domain, want := range map[string]bool{"shop": true, "off": false, "": false, "SHOP": false} {
		if s.HasDomain(domain) != want {
			t.Errorf("%q is known: %t", domain, !want)
		}
	}
	d := Descriptor{Route: "/pay", Method: "GET", User: "b", Attributes: map[string]string{"path": "/pay"}}
	if ms := s.Match(&d, 1, noon, nil); len(ms) != 1 || ms[0].Rule.Rule.ID != 12 {
		t.Errorf("an ordinary request matches %+v", ms)
	}
	for _, c := range s.Explain(&d, 1, noon) {
		if c.Rule.Rule.Descriptor != nil {
			t.Errorf("an ordinary request is explained by rule %d", c.Rule.Rule.ID)
		}
	}
}

func TestMatchEntries_CandidateHasABucketOfItsOwn(t *testing.T) {
	s := compile(t, entryRule(7, "shop:user", func(r *rules.Rule) {
		r.Candidate = &rules.Candidate{Algorithm: "gcra", Limit: new(int64(9))}
	}))
	m, _ := s.MatchEntries("shop", entryList("user=b"), noon)
	if key, l, ok := m.Candidate(); !ok || key != "{shop:user=b}|7.c|ga" || l.Count != 9 {
		t.Errorf("got %s with %+v, %t", key, l, ok)
	}
}

func TestMatchEntries_Overrides(t *testing.T) {
	over := func(key string, limit int64) rules.Override { return rules.Override{Key: key, Limit: &limit} }
	s := withOverrides(t, entryRule(7, "shop:path=/pay file~/a/*! user", nil),
		over("shop:path=/pay+file=/a/*+user=b", 1),
		over("shop:path=/pay+file=/a/*+user=acme-*", 2),
		over("shop:path=/pay+file=/a/*+user=acme-b*", 3),
		over("shop:path=/pay+file=*", 4),
		rules.Override{Key: "shop:path=/pay+file=/a/*+user=free", Unlimited: true},
		over("shop:path=/pay+file=/a/*+user=a%2Bb=c", 6),
		over("shop:path=/pay+file=/a/*+user=sk_live_x", 7),
		over("shop:path=/pay+file=/a/*+user=", 8),
	)
	for user, want := range map[string]int64{
		"b": 1, "acme-x": 2, "acme-bx": 3, "acme-b" + strings.Repeat("x", 300): 3, "other": 4, "a+b=c": 6, "sk_live_x": 7,
		"sk_live_y": 4, "": 8,
	} {
		list := []entries.Entry{{Key: "path", Value: "/pay"}, {Key: "file", Value: "/a/x"}, {Key: "user", Value: user}}
		m, ok := s.MatchEntries("shop", list, overrideNow)
		if !ok || m.Limit.Count != want || m.Unlimited() || m.Override.ID == 0 {
			t.Errorf("%s: got %+v, %t, want limit %d", user, m, ok, want)
			continue
		}
		if len(user) > limiter.MaxKeyValue {
			continue // a wildcard inside a value is not for hashes
		}
		for _, name := range []string{BucketName(m.Key), m.Display()} {
			b, err := s.FindBucket(m.Rule, name, overrideNow)
			if err != nil || b.Limit.Count != want || b.Override != m.Override || b.Key != "" && b.Key != m.Key {
				t.Errorf("%s: bucket %s is %+v, %v", user, name, b, err)
			}
		}
	}
	m, _ := s.MatchEntries("shop", entryList("path=/pay file=/a/x user=free"), overrideNow)
	if !m.Unlimited() {
		t.Errorf("got %+v, want unlimited", m)
	}
}

func TestMatchEntries_AnOverrideLimitsAnUnlimitedRule(t *testing.T) {
	s := withOverrides(t, entryRule(7, "shop:user", func(r *rules.Rule) { r.Unlimited, r.Limit = true, 0 }),
		rules.Override{Key: "shop:user=b", Limit: new(int64(3))})
	for user, want := range map[string]bool{"a": true, "b": false} {
		m, ok := s.MatchEntries("shop", entryList("user="+user), overrideNow)
		if !ok || m.Unlimited() != want || !want && m.Limit.Count != 3 {
			t.Errorf("%s: got %+v, %t, want unlimited %t", user, m, ok, want)
		}
	}
}

// TestApply_KeepsTheTreeOfDescriptors compares sets that were changed with sets that were compiled.
func TestApply_KeepsTheTreeOfDescriptors(t *testing.T) {
	descriptors := []string{"a:k", "a:k=x", "a:k~x*", "a:k~x* l", "b:k=x l=y", "b:k", ""}
	lists := []string{"k=x", "k=xy", "k=z", "k=xy l=y", "k=x l=y", "l=y"}
	tb := t
	rapid.Check(t, func(t *rapid.T) {
		drawn := func(id int64) rules.Rule {
			var r rules.Rule
			if d := rapid.SampledFrom(descriptors).Draw(t, "descriptor"); d != "" {
				r = entryRule(id, d, nil)
			} else {
				r = rule(id, func(r *rules.Rule) { r.Scope, r.Route = "user", nil })
			}
			r.IsActive = rapid.IntRange(0, 4).Draw(t, "active") > 0
			return r
		}
		stored := map[int64]rules.Rule{}
		for id := range int64(rapid.SampledFrom([]int{0, 5, 100}).Draw(t, "first")) {
			stored[id+1] = drawn(id + 1)
		}
		all := func() (rs []rules.Rule) {
			for _, id := range slices.Sorted(maps.Keys(stored)) {
				rs = append(rs, stored[id])
			}
			return rs
		}
		s := compile(tb, all()...)
		for step := range rapid.IntRange(1, 6).Draw(t, "steps") {
			var d Delta
			for range rapid.IntRange(1, 4).Draw(t, "edits") {
				id := int64(rapid.IntRange(1, 110).Draw(t, "id"))
				if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
					d.Removed = append(d.Removed, id)
					d.Changed = slices.DeleteFunc(d.Changed, func(r rules.Rule) bool { return r.ID == id })
					delete(stored, id)
				} else {
					stored[id] = drawn(id)
					d.Changed = append(d.Changed, stored[id])
				}
			}
			before := s
			was := matchesOf(before, lists)
			next, err := s.Apply(d)
			if err != nil {
				t.Fatal(err)
			}
			s = next
			if diff := cmp.Diff(matchesOf(compile(tb, all()...), lists), matchesOf(s, lists)); diff != "" {
				t.Fatalf("step %d (-compiled +applied):\n%s", step, diff)
			}
			if diff := cmp.Diff(was, matchesOf(before, lists)); diff != "" {
				t.Fatalf("step %d changed the set before:\n%s", step, diff)
			}
		}
	})
}

func matchesOf(s *Set, lists []string) (out []string) {
	for _, domain := range []string{"a", "b"} {
		out = append(out, fmt.Sprint(domain, s.HasDomain(domain)))
		for _, list := range lists {
			m, ok := s.MatchEntries(domain, entryList(list), noon)
			x := s.ExplainEntries(domain, entryList(list), noon)
			out = append(out, fmt.Sprint(domain, list, m.Key, ok, len(x.Hidden), x.Reason))
		}
	}
	for _, m := range s.Match(&Descriptor{User: "42"}, 1, noon, nil) {
		out = append(out, string(m.Key))
	}
	return out
}

func TestExplainEntries_SaysWhy(t *testing.T) {
	later := noon.Add(time.Hour)
	s := withOverrides(t, entryRule(7, "shop:path=/pay user", nil),
		rules.Override{Key: "shop:path=/pay+user=free", Unlimited: true},
		rules.Override{Key: "shop:path=/pay+user=less", Limit: new(int64(1))})
	next, err := s.Apply(Delta{Changed: []rules.Rule{
		entryRule(8, "shop:path=/pay user", nil), entryRule(9, "shop:path=/free", func(r *rules.Rule) { r.Unlimited = true }),
		entryRule(10, "shop:path=/later", func(r *rules.Rule) { r.ActiveFrom = &later }),
	}})
	if err != nil {
		t.Fatal(err)
	}
	const hidden = " Rule rule-8 has the same descriptor and does not apply, because its id is higher."
	for _, tt := range []struct {
		domain, list string
		reason       EntriesReason
		sentence     string
		rule         int64
		display      string
	}{
		{"shop", "path=/pay user=b", EntriesMatched, "The rule applies." + hidden, 7, "shop:path=/pay+user=b"},
		{"shop", "path=/pay user=less", EntriesMatched, "The rule applies. Override 2 sets its limit to 1." + hidden, 7,
			"shop:path=/pay+user=less"},
		{"shop", "path=/pay user=free", EntriesUnlimited, "Override 1 makes the key unlimited." + hidden, 7,
			"shop:path=/pay+user=free"},
		{"shop", "path=/free", EntriesUnlimited, "The rule is unlimited.", 9, "shop:path=/free"},
		{"shop", "path=/later", EntriesLifeSpan, "The rule is not in force before 2026-11-21T13:00:00Z.", 10, ""},
		{"other", "path=/pay", EntriesUnknownDomain, "No active rule has the domain.", 0, ""},
		{"shop", "path=/x", EntriesNoFit, "No rule on the path has entry 1 with this key and value.", 0, ""},
		{"shop", "path=/pay host=a", EntriesNoFit, "No rule on the path has entry 2 with this key and value.", 0, ""},
		{"shop", "path=/pay", EntriesNoRule, "The descriptor has 1 entry; the rules on its path have more.", 0, ""},
		{"shop", "path=/pay user=b x=y", EntriesTooDeep, "The descriptor has 3 entries; the rules on its path have 2.", 0,
			""},
	} {
		x := next.ExplainEntries(tt.domain, entryList(tt.list), noon)
		var id int64
		if x.Rule != nil {
			id = x.Rule.Rule.ID
		}
		if x.Reason != tt.reason || x.Sentence != tt.sentence || id != tt.rule || x.Display != tt.display ||
			x.Matched != (tt.reason == EntriesMatched) {
			t.Errorf("%s %s: got %q, %q, rule %d, %s", tt.domain, tt.list, x.Reason, x.Sentence, id, x.Display)
		}
		m, ok := next.MatchEntries(tt.domain, entryList(tt.list), noon)
		if ok && (m.Key != x.Key || m.Override != x.Override) || ok == (x.Key == "") {
			t.Errorf("%s %s: explained as %+v, matched as %+v, %t", tt.domain, tt.list, x, m, ok)
		}
	}
}

func TestMatchEntries_AllocatesTheKeyOnly(t *testing.T) {
	s := entriesSet(t, 100)
	list := entryList("path=/v1/7 agent=browser/1.7 user=42")
	if n := testing.AllocsPerRun(100, func() { s.MatchEntries("shop", list, noon) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// entriesSet has n rules for descriptors with three entries.
func entriesSet(tb testing.TB, n int) *Set {
	rs := make([]rules.Rule, n)
	for i := range rs {
		rs[i] = entryRule(int64(i+1), fmt.Sprintf("shop:path=/v1/%d agent~browser/%d* user", i/3, i%3), nil)
	}
	s, err := Compile(rs, 1, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkMatchEntries finds the rule of a descriptor with three entries, with its key.
func BenchmarkMatchEntries(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			s := entriesSet(b, n)
			list := entryList(fmt.Sprintf("path=/v1/%d agent=browser/1.7 user=42", n/6))
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := s.MatchEntries("shop", list, noon); !ok {
					b.Fatal("no match")
				}
			}
		})
	}
}
