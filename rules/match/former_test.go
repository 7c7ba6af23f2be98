package match

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
	"sluice/rules"
)

// edited is a rule after an edit at overrideNow, as the rule database would store it.
func edited(was rules.Rule, edit func(*rules.Rule)) rules.Rule {
	is := was.Clone()
	edit(&is)
	is.Normalize()
	is.Former = rules.FormerAfter(&was, &is, overrideNow)
	return is
}

func to(algorithm string) func(*rules.Rule) { return func(r *rules.Rule) { r.Algorithm = algorithm } }

func fiveAMinute(r *rules.Rule) {
	r.Limit, r.WindowMS, r.Algorithm, r.Route = 5, 60_000, "fixed_window", nil
}

func TestFormerAfter_KeepsTheLimitBeforeTheLastEditOfTheKind(t *testing.T) {
	counter := rule(1, fiveAMinute)
	bucket := edited(counter, func(r *rules.Rule) { r.Algorithm, r.Limit, r.WindowMS = "token_bucket", 7, 70_000 })
	want := &rules.Former{AtMS: nowMS, Algorithm: "fixed_window", Limit: 5, WindowMS: 60_000}
	if diff := cmp.Diff(want, bucket.Former); diff != "" {
		t.Fatal(diff)
	}
	for what, edit := range map[string]func(*rules.Rule){
		"the limit": func(r *rules.Rule) { r.Limit = 9 }, "the kind stays": to("leaky_bucket"),
	} {
		if diff := cmp.Diff(want, edited(bucket, edit).Former); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if f := edited(bucket, to("fixed_window")).Former; f == nil || f.Algorithm != "token_bucket" || f.Limit != 7 {
		t.Errorf("after an edit back: %+v", f)
	}
	if f := edited(edited(bucket, to("concurrency")), to("gcra")).Former; f != nil {
		t.Errorf("after slots: %+v", f)
	}
}

func TestEditWarnings_SayWhatLosesWhatWasSpent(t *testing.T) {
	for _, tt := range []struct{ from, to, span, words string }{
		{"fixed_window", "gcra", "region", ""}, {"token_bucket", "leaky_queue", "global", ""},
		{"concurrency", "concurrency", "region", ""},
		{"fixed_window", "concurrency", "region", "concurrency counts requests in progress"},
		{"concurrency", "gcra", "region", "concurrency counts requests in progress"},
		{"fixed_window", "sliding_window_counter", "global", "beyond one region"},
		{"fixed_window", "token_bucket", "local_then_global", "beyond one region"},
		{"fixed_window", "token_bucket", "global_exact", "beyond one region"},
	} {
		was := rule(1, func(r *rules.Rule) { fiveAMinute(r); r.Algorithm, r.Span = tt.from, tt.span })
		is := edited(was, to(tt.to))
		got := rules.EditWarnings(&was, &is)
		kept := is.Former != nil || was.Traits().Kind == is.Traits().Kind
		if (len(got) == 0) != (tt.words == "") || (len(got) == 0) != kept {
			t.Errorf("%+v: %v, kept %v", tt, got, kept)
		}
		for _, w := range got {
			if w.Field != "algorithm" || !strings.Contains(w.Message, tt.words) || !strings.Contains(w.Message, tt.to) {
				t.Errorf("%+v: %v", tt, w)
			}
		}
		plan := rules.MakePlan([]rules.Rule{was}, []rules.Rule{is}, false)
		if shown := strings.Contains(plan.String(), "warning: algorithm: What was spent"); shown != (len(got) > 0) {
			t.Errorf("%+v: the plan says\n%s", tt, plan.String())
		}
	}
}

// formerAt is the former limit of a request to the one rule of a set, so long after the edit.
func formerAt(s *Set, d Descriptor, after time.Duration) *FormerLimit {
	if m := matchOne(s, d, overrideNow.Add(after)); m != nil {
		return m.Former
	}
	return nil
}

func TestMatch_HasTheFormerLimitForOneOfItsWindows(t *testing.T) {
	user := Descriptor{User: "u"}
	for _, tt := range []struct {
		name   string
		former func(*rules.Rule)
		window time.Duration
	}{
		{"window", func(*rules.Rule) {}, time.Minute},
		{"bucket", func(r *rules.Rule) { r.Algorithm, r.Burst = "gcra", ptr[int64](7) }, 84 * time.Second}, // 7 at 5 a minute
		{"calendar", func(r *rules.Rule) {
			r.WindowMS, r.Calendar = 86_400_000, &rules.Calendar{Every: rules.EveryDay, Zone: "UTC"}
		}, 24 * time.Hour},
	} {
		was := rule(1, func(r *rules.Rule) { fiveAMinute(r); tt.former(r) })
		s := compile(t, edited(was, func(r *rules.Rule) {
			r.Algorithm, r.Burst, r.Calendar, r.WindowMS = "sliding_window_counter", nil, nil, 60_000
		}))
		if f := formerAt(s, user, tt.window-time.Millisecond); f == nil || f.Limit.Algorithm.String() != was.Algorithm ||
			f.Limit.Count != 5 || f.Until != nowMS+tt.window.Milliseconds() {
			t.Errorf("%s: within the window %+v", tt.name, f)
		}
		if f := formerAt(s, user, tt.window); f != nil {
			t.Errorf("%s: after the window %+v", tt.name, f)
		}
	}
	s := compile(t, edited(rule(1, fiveAMinute), func(r *rules.Rule) { r.Limit = 3 }))
	if f := formerAt(s, user, 0); f != nil {
		t.Errorf("an edit of the limit left %+v", f)
	}
}

func TestMatch_FormerLimitHasTierAndOverride(t *testing.T) {
	was := rule(1, func(r *rules.Rule) {
		fiveAMinute(r)
		r.Tiers = map[string]rules.TierLimit{"pro": {Limit: ptr[int64](50)}, "free": {Unlimited: true}}
	})
	is := edited(was, func(r *rules.Rule) { r.Algorithm, r.Tiers = "token_bucket", nil })
	s := withOverrides(t, is, rules.Override{Key: "big", Limit: ptr[int64](500)},
		rules.Override{Key: "none", Blocked: true},
		rules.Override{Key: "a*", Limit: ptr[int64](8)})
	for _, tt := range []struct {
		user, tier string
		count      int64 // 0 for no former limit
	}{{"u", "", 5}, {"u", "pro", 50}, {"u", "free", 0}, {"big", "", 500}, {"big", "free", 500}, {"none", "", 0},
		{"ab", "", 8}} {
		f := formerAt(s, Descriptor{User: tt.user, Tier: tt.tier}, time.Second)
		if (f != nil) != (tt.count > 0) || f != nil && f.Limit.Count != tt.count {
			t.Errorf("%s of tier %q: %+v", tt.user, tt.tier, f)
		}
		if tt.tier != "" {
			continue
		}
		b, err := s.FindBucket(s.Get(1), tt.user, overrideNow)
		if err != nil || (b.Former != nil) != (tt.count > 0) || b.Former != nil && b.Former.Limit.Count != tt.count {
			t.Errorf("the bucket of %s: %+v, %v", tt.user, b.Former, err)
		}
	}
}

func TestMatchEntries_HasTheFormerLimit(t *testing.T) {
	was := entryRule(1, "shop:path=/pay user", fiveAMinute)
	s := compile(t, edited(was, to("gcra")))
	m, ok := s.MatchEntries("shop", entryList("path=/pay user=u"), overrideNow)
	if !ok || m.Former == nil || m.Former.Limit.Algorithm != limiter.FixedWindow {
		t.Fatalf("%+v, %v", m.Former, ok)
	}
	x := s.ExplainEntries("shop", entryList("path=/pay user=u"), overrideNow)
	if want := "Until 2026-11-21T12:01:00Z the figures include what was spent under fixed_window."; !strings.HasSuffix(
		x.Sentence, want) {
		t.Errorf("explained as %q", x.Sentence)
	}
	if b, err := s.FindBucket(s.Get(1), m.Display(), overrideNow); err != nil || b.Former == nil {
		t.Errorf("the bucket: %+v, %v", b.Former, err)
	}
}

func TestExplain_SaysThatTheFiguresIncludeTheFormerAlgorithm(t *testing.T) {
	s := compile(t, edited(rule(1, fiveAMinute), to("gcra")))
	for after, want := range map[time.Duration]string{
		0:           "The rule applies. Until 2026-11-21T12:01:00Z the figures include what was spent under fixed_window.",
		time.Minute: "The rule applies.",
	} {
		if got := s.Explain(&Descriptor{User: "u"}, 1, overrideNow.Add(after))[0].Sentence; got != want {
			t.Errorf("after %v: %q", after, got)
		}
	}
}

// A former limit that is of no use never keeps a rule out of force, and a rule that reaches beyond its region has none.
func TestCompile_LeavesOutAFormerLimitOfNoUse(t *testing.T) {
	is := edited(rule(1, fiveAMinute), to("token_bucket"))
	for name, edit := range map[string]func(*rules.Rule){
		"damaged":       func(r *rules.Rule) { r.Former.Algorithm = "?" },
		"the same kind": func(r *rules.Rule) { r.Former.Algorithm = "leaky_bucket" },
		"no window":     func(r *rules.Rule) { r.Former.WindowMS = 0 },
		"a bad zone":    func(r *rules.Rule) { r.Former.Calendar = &rules.Calendar{Zone: "?"} },
		"span":          func(r *rules.Rule) { r.Span = rules.SpanGlobal },
		"slots":         func(r *rules.Rule) { r.Former.Algorithm = "concurrency" },
	} {
		r := is.Clone()
		edit(&r)
		if f := formerAt(compile(t, r), Descriptor{User: "u"}, 0); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if text, err := json.Marshal(is); err != nil || strings.Contains(string(text), "at_ms") {
		t.Errorf("people see it: %s, %v", text, err)
	}
}
