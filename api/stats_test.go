package api

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/internal/history"
	"sluice/rules"
)

// told is a history.Source that remembers the query and answers a fixed result.
type told struct {
	asked  history.Query
	result history.Result
	err    error
}

func (s *told) Stats(_ context.Context, q history.Query) (history.Result, error) {
	s.asked = q
	if s.result.Step == 0 {
		s.result.From, s.result.To, s.result.Step = q.From, q.To, q.Step
	}
	return s.result, s.err
}

func withStats(t testing.TB, s history.Source) *fixture {
	return newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Stats = s })
}

func instantOf(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// statsReply is an answer of GET /ratelimit/stats, as a client reads it.
type statsReply struct {
	From, To      time.Time
	StepMS        int64      `json:"step_ms"`
	CompleteUntil *time.Time `json:"complete_until"`
	Partial       string
	Series        []struct {
		Rule   *string
		Points [][]*int64
	}
	Top []struct {
		Key                    string
		Allowed, Denied, Error int64
	}
}

func TestStats_ExactAnswer(t *testing.T) {
	s := &told{result: history.Result{
		From: instantOf("2026-11-23T09:00:00Z"), To: instantOf("2026-11-23T09:02:00Z"), Step: time.Minute,
		CompleteUntil: instantOf("2026-11-23T09:01:00Z"),
		Series: []history.Series{{Rule: "r", Points: []history.Point{
			{At: instantOf("2026-11-23T09:00:00Z"), Known: true, Peak: 7, Figures: history.Figures{Allowed: 1, Denied: 2,
				Soft:    3,
				Elastic: 4, Shed: 5, Degraded: 6, WouldDeny: 7, WouldAllow: 8}},
			{At: instantOf("2026-11-23T09:01:00Z"), Peak: -1},
		}}},
		Top: []history.Row{{Key: `a"b`, Allowed: 1, Denied: 2, Error: 3, Peak: 4}},
	}}
	f := withStats(t, s)
	body := `{"from":"2026-11-23T09:00:00Z","to":"2026-11-23T09:02:00Z","step_ms":60000,` +
		`"complete_until":"2026-11-23T09:01:00Z","series":[{"rule":"r","points":[[1795424400000,1,2,3,4,5,6,7,8],` +
		`[1795424460000,null,null,null,null,null,null,null,null]]}],` +
		`"top":[{"key":"a\"b","allowed":1,"denied":2,"error":3}],"keys_denied":null,"keys_denied_error":null}` + "\n"
	if a := f.do(http.MethodGet, "/ratelimit/stats", "").want(http.StatusOK); a.body != body {
		t.Errorf("%s", cmp.Diff(body, a.body))
	}
	s.result.Denied = history.Distinct{0}
	if a := f.do(http.MethodGet, "/ratelimit/stats", "").want(http.StatusOK); !strings.HasSuffix(a.body,
		`"keys_denied":0,"keys_denied_error":0}`+"\n") {
		t.Errorf("no key was denied: %s", a.body)
	}
	s.result.CompleteUntil = time.Time{}
	s.result.Partial = errors.Join(errors.New("one"), errors.New("two"))
	s.result.Series[0].Rule = ""
	var got statsReply
	f.do(http.MethodGet, "/ratelimit/stats", "").want(http.StatusOK).decode(&got)
	if got.CompleteUntil != nil || got.Partial != "one; two" || got.Series[0].Rule != nil {
		t.Errorf("got %+v", got)
	}
}

func TestStats_CSV(t *testing.T) {
	s := &told{result: history.Result{Partial: errors.Join(errors.New("one"), errors.New("two")),
		Series: []history.Series{
			{Points: []history.Point{{At: instantOf("2026-11-23T09:00:00Z")}}},
			{Rule: "r", Points: []history.Point{{At: instantOf("2026-11-23T09:01:00Z"), Known: true,
				Figures: history.Figures{Allowed: 1, WouldAllow: 8}}}},
		}}}
	f := withStats(t, s)
	a := f.do(http.MethodGet, "/ratelimit/stats?format=csv", "").want(http.StatusOK)
	got, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	want := [][]string{statsHeader, {"2026-11-23T09:00:00Z", "", "", "", "", "", "", "", "", ""},
		{"2026-11-23T09:01:00Z", "r", "1", "0", "0", "0", "0", "0", "0", "8"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if a.header.Get("Sluice-Partial") != "one; two" ||
		!strings.Contains(a.header.Get("Content-Disposition"), "stats.csv") {
		t.Errorf("got %v", a.header)
	}
	if a := f.do(http.MethodHead, "/ratelimit/stats?format=csv", "").want(http.StatusOK); a.body != "" {
		t.Errorf("HEAD has the body %q", a.body)
	}
	for i, name := range statsHeader[2:] { // the order of Figures.Array
		only := history.FiguresOf([history.NumFigures]int64{})
		figure := map[string]*int64{"allowed": &only.Allowed, "denied": &only.Denied, "soft": &only.Soft,
			"elastic": &only.Elastic, "shed": &only.Shed, "degraded": &only.Degraded, "would_deny": &only.WouldDeny,
			"would_allow": &only.WouldAllow}
		*figure[name] = 1
		if only.Array()[i] != 1 {
			t.Errorf("%s is in the wrong column", name)
		}
	}
}

func TestStats_Queries(t *testing.T) {
	now := time.UnixMilli(epoch).UTC()
	day := now.Add(-24 * time.Hour)
	text := func(t time.Time) string { return t.Format(time.RFC3339) }
	for _, c := range []struct {
		query string
		want  history.Query
	}{
		{"", history.Query{By: "rule", From: now.Add(-time.Hour), To: now, Step: time.Minute, Series: true}},
		{"rule=&by=&from=&to=&step=", history.Query{By: "rule", From: now.Add(-time.Hour), To: now, Step: time.Minute,
			Series: true}},
		{"rule=r", history.Query{Rule: "r", From: now.Add(-time.Hour), To: now, Step: time.Minute}},
		{"rule=(other)&by=rule", history.Query{Rule: "(other)", By: "rule", From: now.Add(-time.Hour), To: now,
			Step: time.Minute}},
		{"by=key&step=second", history.Query{By: "key", From: now.Add(-time.Hour), To: now, Step: time.Second}},
		{"by=node", history.Query{By: "node", From: now.Add(-time.Hour), To: now, Step: time.Minute}},
		{"rule=r&by=tenant&from=" + text(day), history.Query{Rule: "r", By: "tenant", From: day, To: now, Step: time.Minute}},
		{"by=route&to=" + text(day), history.Query{By: "route", From: day.Add(-time.Hour), To: day, Step: time.Minute}},
		{"rule=r&from=" + text(now.Add(-25*time.Hour-time.Second)), history.Query{Rule: "r",
			From: now.Add(-25*time.Hour - time.Second), To: now, Step: time.Hour}},
		{"rule=r&from=" + text(now.Add(-90*24*time.Hour)), history.Query{Rule: "r", From: now.Add(-90 * 24 * time.Hour),
			To: now, Step: history.Day}},
		{"rule=r&from=2026-11-21T10:00:00%2B02:00&to=2026-11-21T09:00:00Z", history.Query{Rule: "r",
			From: instantOf("2026-11-21T08:00:00Z"), To: instantOf("2026-11-21T09:00:00Z"), Step: time.Minute}},
	} {
		s := &told{}
		withStats(t, s).do(http.MethodGet, "/ratelimit/stats?"+c.query, "").want(http.StatusOK)
		if d := cmp.Diff(c.want, s.asked); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.query, d)
		}
	}
}

func TestStats_RefusesWhatIsNoQuery(t *testing.T) {
	f := withStats(t, history.Unknown{})
	for _, c := range []struct {
		query  string
		status int
		fields []string
		says   string
	}{
		{"by=colour", 422, []string{"by"}, "rule, key, route, tenant, node"},
		{"by=node&rule=r", 422, []string{"by"}, "cannot be combined"},
		{"rule=@10.0.0.1:8080", 422, []string{"rule"}, "name of a rule"},
		{"rule=%00", 422, []string{"rule"}, ""},
		{"step=week", 422, []string{"step"}, "second, minute, hour or day"},
		{"from=yesterday&to=1", 422, []string{"from", "to"}, "RFC 3339"},
		{"from=2026-11-23T09:00:00+01:00", 422, []string{"from"}, "%2B"},
		{"from=1969-12-31T23:59:59Z", 422, []string{"from"}, "1970"},
		{"to=9999-12-31T23:59:59Z&step=day", 422, []string{"to"}, "9999"},
		{"to=9999-12-31T23:59:59-23:00", 422, []string{"to"}, "9999"},
		{"from=2026-11-23T09:00:00Z&to=2026-11-23T09:00:00Z", 422, []string{"to"}, "after from"},
		{"from=2027-11-23T09:00:00Z", 422, []string{"from"}, "before now"},
		{"from=2026-11-01T00:00:00Z&to=2026-11-08T00:00:00Z&step=minute", 422, []string{"step"}, "use the step hour"},
		{"from=2026-11-21T00:00:00Z&to=2026-11-21T01:23:21Z&step=second", 422, []string{"step"}, "use the step minute"},
		{"from=1970-01-01T00:00:00Z", 422, []string{"step"}, "at most 5000 days"},
		{"format=xml", 422, []string{"format"}, "json or csv"},
		{"from=&from=", 422, []string{"from"}, "repeated"},
		{"form=2026-11-23T09:00:00Z", 422, []string{"form"}, "not a parameter"},
		{"by=colour&step=week&rule=A&from=x&to=y&format=z", 422,
			[]string{"by", "format", "from", "rule", "step", "to"}, ""},
		{"rule=%zz", 400, nil, ""},
	} {
		a := f.do(http.MethodGet, "/ratelimit/stats?"+c.query, "").want(c.status)
		if c.fields != nil && !slices.Equal(a.fields(), c.fields) || !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %s", c.query, a.body)
		}
	}
	f.do(http.MethodGet, "/ratelimit/stats?from=2026-11-21T00:00:00Z&to=2026-11-21T01:23:20Z&step=second", "").want(200)
	for err, want := range map[error]int{
		fmt.Errorf("rule: %w", rules.ErrNotFound): http.StatusNotFound, rules.ErrUnavailable: http.StatusServiceUnavailable,
	} {
		a := withStats(t, &told{err: err}).do(http.MethodGet, "/ratelimit/stats?rule=r", "").want(want)
		if want == http.StatusNotFound && !strings.Contains(a.body, "no figures") {
			t.Errorf("got %s", a.body)
		}
	}
}

func TestStats_WhatIsUnknownIsNull(t *testing.T) {
	var got statsReply
	newFixture(t, nil).do(http.MethodGet, "/ratelimit/stats?rule=r", "").want(http.StatusOK).decode(&got)
	if len(got.Series) != 1 || len(got.Series[0].Points) != 60 || got.CompleteUntil != nil || got.Top == nil {
		t.Fatalf("got %+v", got)
	}
	for _, p := range got.Series[0].Points {
		if p[0] == nil || slices.ContainsFunc(p[1:], func(n *int64) bool { return n != nil }) {
			t.Fatalf("got %v", p)
		}
	}
}

// Whatever the parameters, the answer is below 500 and as documented, with as many points as it says.
func TestStats_AnyParameters(t *testing.T) {
	f := withStats(t, history.Unknown{})
	rapid.Check(t, func(rt *rapid.T) {
		instant := rapid.OneOf(
			rapid.SampledFrom([]string{"", "now", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
				"0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-11-23T09:00:00.5Z", "2026-11-23T9:00:00Z"}),
			rapid.Custom(func(t *rapid.T) string {
				return time.Unix(rapid.Int64Range(-1<<36, 1<<38).Draw(t, "s"), rapid.Int64Range(0, 1e9).Draw(t, "ns")).
					UTC().Format(time.RFC3339Nano)
			}), rapid.String())
		word := rapid.OneOf(rapid.SampledFrom(append([]string{"", "second", "minute", "hour", "day", "json", "csv", "r"},
			history.Pivots...)), rapid.String())
		values := url.Values{}
		for name, value := range map[string]*rapid.Generator[string]{"rule": word, "by": word, "step": word,
			"format": word, "from": instant, "to": instant} {
			for _, v := range rapid.SliceOfN(value, 0, 2).Draw(rt, name) {
				values.Add(name, v)
			}
		}
		a := fuzzPost(t, f, http.MethodGet, "/ratelimit/stats?"+values.Encode(), "")
		if a.status != http.StatusOK || values.Get("format") == "csv" {
			return
		}
		var got statsReply
		a.decode(&got)
		for _, s := range got.Series {
			if n := int64(len(s.Points)); n > history.MaxPoints || n*got.StepMS != got.To.Sub(got.From).Milliseconds() {
				rt.Fatalf("%d points from %s to %s", n, got.From, got.To)
			}
		}
	})
}
