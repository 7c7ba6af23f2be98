package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/region"
	"sluice/internal/region/home"
	"sluice/internal/region/share"
	"sluice/internal/region/updates"
	"sluice/limiter"
)

// elsewhere is an exchange between regions that a test makes up.
type elsewhere struct {
	err   error
	shown region.Overview
}

func (e *elsewhere) Receive(_ context.Context, kind string, body []byte) (any, error) {
	switch kind {
	case updates.RecallType:
		return body, e.err
	case home.MediaType:
		return append([]byte("to "), body...), e.err
	case share.MediaType:
		return &share.Answer{From: "eu"}, e.err
	}
	return &updates.Answer{From: "eu", At: epoch, Set: 7, Fate: region.Fate{Applied: 2}}, e.err
}

func (e *elsewhere) Overview() region.Overview {
	o := e.shown
	o.Shares.Rules = []region.RuleShares{}
	return o
}

func withRegions(e *elsewhere) func(*decide.CheckerOptions, *Deps) {
	return func(_ *decide.CheckerOptions, d *Deps) { d.Regions = e }
}

func TestRegions_AMessageIsAppliedOrRefusedWithAReason(t *testing.T) {
	e := &elsewhere{}
	f := newFixture(t, nil, withRegions(e))
	for _, tt := range []struct {
		err    error
		status int
		says   string
	}{
		{nil, http.StatusOK, `"applied":2`},
		{fmt.Errorf("%w: version 9, this node reads 1", region.ErrMessage), http.StatusBadRequest, "version 9"},
		{&region.RefusedError{Field: "to", Message: `is "us"`}, http.StatusUnprocessableEntity, `"field":"to"`},
		{region.ErrBusy, http.StatusServiceUnavailable, "Send the message again"},
		{&limiter.StoreError{Cause: limiter.CauseTimeout}, http.StatusServiceUnavailable, "(timeout)"},
	} {
		e.err = tt.err
		r := f.do(http.MethodPost, region.Path, "\x01…", "Content-Type", updates.MediaType)
		if r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%v: %d %s", tt.err, r.status, r.body)
		}
	}
	ask := func() *answered {
		return f.do(http.MethodPost, region.Path, "what a region asks", "Content-Type", updates.RecallType)
	}
	if r := ask(); r.status != http.StatusServiceUnavailable {
		t.Errorf("a region that has lost its data is answered %d %s", r.status, r.body)
	}
	e.err = nil
	if r := ask(); r.status != http.StatusOK || r.body != "what a region asks" ||
		r.header.Get("Content-Type") != updates.RecallType {
		t.Errorf("a region that has lost its data is answered %d %v %s", r.status, r.header, r.body)
	}
	f.do(http.MethodPost, region.Path, "{}", "Content-Type", mediaJSON).want(http.StatusUnsupportedMediaType)
	large := strings.Repeat("x", region.MaxMessage+1)
	f.do(http.MethodPost, region.Path, large, "Content-Type", updates.MediaType).want(http.StatusRequestEntityTooLarge)
}

func TestRegions_AreShownAsThisNodeSeesThem(t *testing.T) {
	e := &elsewhere{shown: region.Overview{
		Self: "eu", Interval: 200 * time.Millisecond, Exported: 9,
		Rules: []region.Estimate{{Rule: "r", OverPercent: 1.5, MaxOverPercent: 2}},
		Peers: []region.Status{
			{Name: "us", Lags: 3, LagNow: 300 * time.Millisecond, LagP99: 410 * time.Millisecond, SkewKnown: true,
				Skew: -3 * time.Second, LastUpdate: time.UnixMilli(epoch), Set: 7, Here: region.Fate{Applied: 4, Shrunk: 1}},
			{Name: "asia", CutOff: true, CutFor: time.Minute, Failure: "no route", FailingSince: time.UnixMilli(epoch),
				Calls: region.Calls{Decided: 8, Failed: 2, Failing: "timeout", Since: time.UnixMilli(epoch)}},
		},
	}}
	f := newFixture(t, nil, withRegions(e))
	got := f.do(http.MethodGet, "/ratelimit/regions", "").want(http.StatusOK).body
	for _, want := range []string{
		`"enabled":true,"region":"eu","interval_ms":200,"cut_off":true`, `"lag_ms":300,"lag_p99_ms":410,"clock_ahead_ms":-3000`,
		`"clocks_apart":true`, `"applied":4`, `"name":"asia","cut_off":true,"cut_off_ms":60000`, `"failure":"no route","failing_since":"20`,
		`"calls":{"decided":8,"failed":2,"failing":"timeout","since":"20`,
		`"last_news":null`, `{"rule":"r","over_percent":1.5,"max_over_percent":2}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	f.do(http.MethodGet, "/ratelimit/regions?x=1", "").want(http.StatusUnprocessableEntity)
	alone := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Regions = nil })
	if got := alone.do(http.MethodGet, "/ratelimit/regions", "").want(http.StatusOK).body; !strings.HasPrefix(got,
		`{"enabled":false,"region":null`) {
		t.Errorf("without regions: %s", got)
	}
}

func TestRegions_SharesAreAnsweredOrRefusedWithAReason(t *testing.T) {
	d := &elsewhere{}
	f := newFixture(t, nil, withRegions(d))
	for _, tt := range []struct {
		err    error
		status int
		says   string
	}{
		{nil, http.StatusOK, `"from":"eu"`},
		{fmt.Errorf("%w: truncated", region.ErrMessage), http.StatusBadRequest, "truncated"},
		{&region.RefusedError{Field: "regions", Message: "are others"}, http.StatusUnprocessableEntity, `"field":"regions"`},
		{region.ErrBusy, http.StatusServiceUnavailable, "Nothing was carried out"},
		{&limiter.StoreError{Cause: limiter.CauseTimeout}, http.StatusServiceUnavailable, "timeout"},
	} {
		d.err = tt.err
		// The media type says of which kind a message is, in whatever case.
		r := f.do(http.MethodPost, region.Path, "{}", "Content-Type", "Application/VND.sluice.regions.shares")
		if r.want(tt.status); !strings.Contains(r.body, tt.says) {
			t.Errorf("%v: %s lacks %s", tt.err, r.body, tt.says)
		}
	}
}

func TestRegions_AsksAreAnsweredOrRefusedWithAReason(t *testing.T) {
	a := &elsewhere{}
	f := newFixture(t, nil, withRegions(a))
	for _, tt := range []struct {
		err    error
		status int
		says   string
	}{
		{nil, http.StatusOK, "to ask"},
		{fmt.Errorf("%w: version 9, this node reads 1", region.ErrMessage), http.StatusBadRequest, "version 9"},
		{&region.RefusedError{Field: "prefix", Message: `is "x"`}, http.StatusUnprocessableEntity, `"field":"prefix"`},
		{region.ErrBusy, http.StatusServiceUnavailable, "Nothing was carried out"},
	} {
		a.err = tt.err
		r := f.do(http.MethodPost, region.Path, "ask", "Content-Type", home.MediaType)
		if r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%v: %d %s", tt.err, r.status, r.body)
		}
	}
	large := strings.Repeat("x", region.MaxMessage+1)
	f.do(http.MethodPost, region.Path, large, "Content-Type", home.MediaType).want(http.StatusRequestEntityTooLarge)
	server := httptest.NewServer(f.echo)
	defer server.Close()
	url := server.URL + region.Path
	reply, err := region.Post(t.Context(), server.Client(), url, home.MediaType, "", []byte("ask"), 1<<20)
	if err != nil || reply.Status == http.StatusOK || !reply.Own {
		t.Errorf("another region does not know the answer %d %s as Sluice's own: %v", reply.Status, reply.Body, err)
	}
}
