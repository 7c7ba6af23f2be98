package api

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/doctor"
	"sluice/internal/history"
	"sluice/rules"
)

type doctorReply struct {
	Findings []doctor.Finding
	Since    *time.Time
	Rules    int
	Partial  string
	Next     string `json:"next_page_token"`
}

// deniedHour is a source in which every rule denied 100 requests in its first known hour.
func deniedHour() *told {
	at := time.UnixMilli(epoch).UTC().Truncate(time.Hour).Add(-time.Hour)
	return &told{result: history.Result{Step: time.Hour, Series: []history.Series{{Points: []history.Point{
		{At: at.Add(-time.Hour)}, {At: at, Known: true, Figures: history.Figures{Denied: 100}}}}}}}
}

func TestDoctor_ExaminesRulesInForcePageByPage(t *testing.T) {
	s := deniedHour()
	var list []rules.Rule
	for _, name := range []string{"a", "b", "c"} {
		list = append(list, rules.Rule{Name: name, Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true})
	}
	f := newFixture(t, list, func(_ *decide.CheckerOptions, d *Deps) {
		d.Stats = s
		d.Now = func() time.Time { return time.UnixMilli(epoch).UTC().Add(3 * history.Day) } // the rules are not new then
	})
	var first, second, one doctorReply
	f.do(http.MethodGet, "/ratelimit/doctor?page_size=2", "").want(http.StatusOK).decode(&first)
	f.do(http.MethodGet, "/ratelimit/doctor?page_size=2&page_token="+first.Next, "").want(http.StatusOK).decode(&second)
	f.do(http.MethodGet, "/ratelimit/doctor?rule=b", "").want(http.StatusOK).decode(&one)
	all := append(append([]doctor.Finding{}, first.Findings...), second.Findings...)
	if len(all) != 3 || first.Rules != 2 || second.Rules != 1 || second.Next != "" {
		t.Fatalf("pages %+v and %+v", first, second)
	}
	for i, name := range []string{"a", "b", "c"} {
		if all[i].Rule != name || all[i].Finding != doctor.DeniesMost || all[i].Numbers["denied"] != 100 {
			t.Errorf("finding %+v", all[i])
		}
	}
	if len(one.Findings) != 1 || one.Findings[0].Rule != "b" || one.Since == nil ||
		!one.Since.Equal(s.result.Series[0].Points[1].At) || one.Next != "" {
		t.Errorf("rule b: %+v", one)
	}
	s.result.Partial = errors.New("the counters are unavailable")
	var partial doctorReply
	f.do(http.MethodGet, "/ratelimit/doctor", "").want(http.StatusOK).decode(&partial)
	if len(partial.Findings) != 0 || partial.Partial != "the counters are unavailable" || partial.Rules != 3 {
		t.Errorf("with missing figures: %+v", partial)
	}
}

func TestDoctor_WhatItRefuses(t *testing.T) {
	f := newFixture(t, []rules.Rule{{Name: "a", Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true}})
	for query, want := range map[string]int{
		"rule=none": http.StatusNotFound, "rule=%20": http.StatusUnprocessableEntity,
		"page_size=0": http.StatusUnprocessableEntity, "page_token=x": http.StatusUnprocessableEntity,
		"owner=x": http.StatusUnprocessableEntity, "rule=&page_token=": http.StatusOK,
	} {
		f.do(http.MethodGet, "/ratelimit/doctor?"+query, "").want(want)
	}
	f = withStats(t, &told{err: rules.ErrUnavailable})
	f.do(http.MethodPost, "/ratelimit/rules", `{"name":"a","scope":"user","limit":5,"window_ms":1000}`).want(201)
	f.do(http.MethodGet, "/ratelimit/doctor", "").want(http.StatusServiceUnavailable)
}
