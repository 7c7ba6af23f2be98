package api

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
)

func TestAdvice_MergesTheWarningsAndTheStrictestWins(t *testing.T) {
	warning := func(name string, limit, percent int64, set map[string]string) rules.Rule {
		r := aMinute(name, limit)
		r.Warn = &rules.Warn{Percent: percent, Set: set}
		return r
	}
	list := []rules.Rule{warning("wide", 100, 5, map[string]string{"model": "medium", "cache": `"on"`}),
		warning("narrow", 10, 70, map[string]string{"model": "small"}), aMinute("plain", 8)}
	onBothStores(t, nil, list, func(t *testing.T, f *fixture) {
		check := func(op, weight string) any {
			return f.post("/ratelimit/"+op, `{"user":"42","weight":`+weight+`}`).object()["advice"]
		}
		if got := check("check", "4"); got != nil {
			t.Errorf("below every warning: %v", got)
		}
		want := map[string]any{"rule": "wide", "set": map[string]any{"model": "medium", "cache": `"on"`}}
		if d := cmp.Diff(any(want), check("check", "1")); d != "" {
			t.Error("at exactly 5 %: ", d)
		}
		want = map[string]any{"rule": "narrow", "set": map[string]any{"model": "small", "cache": `"on"`}}
		for _, ask := range [][2]string{{"check", "2"}, {"check", "0"}, {"check", "9"}, {"charge", "1"}} {
			if d := cmp.Diff(any(want), check(ask[0], ask[1])); d != "" {
				t.Error(ask, d)
			}
		}
		if got := check("reset", "1"); got != nil {
			t.Errorf("a reset: %v", got)
		}
	})
}

func TestAdvice_BadInput(t *testing.T) {
	f := newFixture(t, nil)
	for member, fields := range map[string][]string{
		`{"percent":90}`: {"warn.set"}, `{"set":{"a":"b"}}`: {"warn.percent"},
		`{"percent":0,"set":{}}`:      {"warn.percent", "warn.set"},
		`{"percent":1,"set":{"a":1}}`: {"warn.set.a"}, `{"percent":1,"set":[]}`: {"warn.set"}, `[]`: {"warn"},
	} {
		a := f.do(http.MethodPost, "/ratelimit/rules",
			`{"name":"r","scope":"user","limit":1,"window_ms":1000,"warn":`+member+`}`)
		if a.status != 422 || !slices.Equal(slices.Compact(a.fields()), fields) {
			t.Errorf("%s: %d %s", member, a.status, a.body)
		}
	}
}
