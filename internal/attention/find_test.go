package attention_test

import (
	"slices"
	"testing"
	"time"

	"sluice/internal/attention"
	"sluice/internal/history"
	"sluice/rules"
)

var now = time.Date(2026, 11, 30, 18, 40, 0, 0, time.UTC)

// denying is a rule of which one key made so many of its denials in the last minute.
func denying(name string, denied, ofKey int64) attention.RuleFacts {
	return attention.RuleFacts{
		Rule:   &rules.Rule{Name: name, Scope: "user", Limit: 60, WindowMS: 60_000},
		Minute: history.Figures{Allowed: 10, Denied: denied},
		Keys: []history.KeyDenials{{Rule: name, Key: "user:flood-9", Minute: ofKey, Since: now.Add(-time.Minute)},
			{Rule: name, Key: "user:7", Minute: denied - ofKey}},
	}
}

// edited is an edit after which the share of denials, in percent of 100 requests, changed.
func edited(version, before, soon, is int64) attention.Edited {
	of := func(n int64) attention.Counts { return attention.Counts{Requests: 100, Denied: n} }
	return attention.Edited{Edit: attention.Edit{Version: version, At: now.Add(-time.Duration(9-version) * time.Minute)},
		Before: of(before), Soon: of(soon), Now: of(is)}
}

// kindOf is the kind of a finding in a word, with what it is about.
func kindOf(f *attention.Finding) string {
	switch {
	case f.Outage != nil:
		return "outage"
	case f.Rise != nil:
		return "rise of " + f.Rule.Name
	}
	return "flood of " + f.Rule.Name
}

func TestFind_SaysWhatTheFactsShow(t *testing.T) {
	with := func(r attention.RuleFacts, change func(*attention.RuleFacts)) attention.RuleFacts {
		change(&r)
		return r
	}
	for name, tt := range map[string]struct {
		facts attention.Facts
		want  []string
	}{
		"nothing": {},
		"a flood": {attention.Facts{Rules: []attention.RuleFacts{denying("a", 100, 95)}}, []string{"flood of a"}},
		"a key that makes half of the denials": {attention.Facts{Rules: []attention.RuleFacts{denying("a", 100, 50)}},
			[]string{"flood of a"}},
		"a key that makes less": {attention.Facts{Rules: []attention.RuleFacts{denying("a", 100, 49)}}, nil},
		"few denials":           {attention.Facts{Rules: []attention.RuleFacts{denying("a", 29, 29)}}, nil},
		"a key of which little is sure": {attention.Facts{Rules: []attention.RuleFacts{with(denying("a", 100, 95),
			func(r *attention.RuleFacts) { r.Keys[0].Error = 46 })}}, nil},
		"unknown keys": {attention.Facts{Rules: []attention.RuleFacts{with(denying("a", 100, 95),
			func(r *attention.RuleFacts) { r.Keys = nil })}}, nil},
		"a rule with one key": {attention.Facts{Rules: []attention.RuleFacts{with(denying("a", 100, 100),
			func(r *attention.RuleFacts) { r.Rule.Scope = "global" })}}, nil},
		"denials of a fail mode": {attention.Facts{Rules: []attention.RuleFacts{with(denying("a", 100, 95),
			func(r *attention.RuleFacts) { r.Minute.Degraded, r.Minute.DegradedDenied = 51, 51 })}}, nil},
		"denials of the limit, and requests that a fail mode let pass": {attention.Facts{Rules: []attention.RuleFacts{with(
			denying("a", 100, 95), func(r *attention.RuleFacts) { r.Minute.Degraded = 90 })}}, []string{"flood of a"}},
		"a wrong edit": {attention.Facts{Rules: []attention.RuleFacts{with(denying("a", 61, 20),
			func(r *attention.RuleFacts) { r.Edits = []attention.Edited{edited(2, 5, 61, 61)} })}}, []string{"rise of a"}},
		"the most denied first": {attention.Facts{Outage: &attention.Outage{Denied: 70}, Rules: []attention.RuleFacts{
			denying("a", 60, 55), denying("b", 80, 75)}}, []string{"flood of b", "outage", "flood of a"}},
		"at most five, an outage among them": {attention.Facts{Outage: &attention.Outage{}, Rules: []attention.RuleFacts{
			denying("a", 90, 90), denying("b", 80, 80), denying("c", 70, 70), denying("d", 60, 60), denying("e", 50, 50)}},
			[]string{"flood of a", "flood of b", "flood of c", "flood of d", "outage"}},
	} {
		var got []string
		for _, f := range attention.Find(&tt.facts) {
			got = append(got, kindOf(&f))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// What a fail mode let pass takes nothing from what a limit denied.
func TestCountsOf_LeavesOutFailModes(t *testing.T) {
	got := attention.CountsOf(history.Figures{Allowed: 80, Denied: 107, Degraded: 75, DegradedDenied: 5})
	if want := (attention.Counts{Requests: 112, Denied: 102}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRiseOf_NamesTheEditBeforeTheRise(t *testing.T) {
	few := edited(2, 0, 61, 61)
	few.Before.Requests = 19
	for name, tt := range map[string]struct {
		edits []attention.Edited
		want  int64 // version
		times int64
	}{
		"none":                          {nil, 0, 0},
		"twelve times as much":          {[]attention.Edited{edited(2, 5, 60, 60)}, 2, 12},
		"none before":                   {[]attention.Edited{edited(2, 0, 61, 61)}, 2, 0},
		"less than twice as much":       {[]attention.Edited{edited(2, 30, 59, 59)}, 0, 0},
		"rolled back":                   {[]attention.Edited{edited(3, 60, 5, 5), edited(2, 5, 60, 5)}, 0, 0},
		"rolled back a moment ago":      {[]attention.Edited{{Young: true}, edited(2, 5, 60, 60)}, 0, 0},
		"edited again, in vain":         {[]attention.Edited{edited(3, 61, 60, 60), edited(2, 5, 61, 60)}, 2, 12},
		"a rise that came much later":   {[]attention.Edited{edited(2, 5, 5, 60)}, 0, 0},
		"too few requests before":       {[]attention.Edited{few}, 0, 0},
		"a small share of the requests": {[]attention.Edited{edited(2, 0, 1, 1)}, 0, 0},
	} {
		got := attention.RiseOf(tt.edits)
		switch {
		case got == nil && tt.want != 0, got != nil && (got.Version != tt.want || got.Times() != tt.times):
			t.Errorf("%s: %+v, want version %d, %d times", name, got, tt.want, tt.times)
		}
	}
}

// Around leaves out the step that contains the edit, and what other edits decided.
func TestAround_LeavesOutTheEditItself(t *testing.T) {
	e := attention.Edit{At: now.Add(5 * time.Second)}
	var points []history.Point
	for at := now.Add(-20 * time.Minute); at.Before(now.Add(20 * time.Minute)); at = at.Add(10 * time.Second) {
		points = append(points, history.Point{At: at, Figures: history.Figures{Allowed: 1, Denied: 1}})
	}
	before, soon := attention.Around(&e, time.Time{}, time.Time{}, points, 10*time.Second)
	if before != (attention.Counts{Requests: 118, Denied: 59}) || soon != (attention.Counts{Requests: 118, Denied: 59}) {
		t.Errorf("before %+v, soon %+v", before, soon)
	}
	earlier, later := now.Add(-time.Minute), now.Add(time.Minute)
	before, soon = attention.Around(&e, earlier, later, points, 10*time.Second)
	if before.Requests != 10 || soon.Requests != 10 {
		t.Errorf("between two edits: before %+v, soon %+v", before, soon)
	}
}
