package replay_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/backtest"
	"sluice/web/webtest"
)

func TestReplay_SaysWhatTheEditWouldChange(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	path := b.Try("60")
	w.Replays.Wait()
	page := b.Get(path)
	if page.Code != http.StatusOK || !page.Has("Try charges-per-user on recent traffic", "would be newly denied",
		"user:47", "user:44", "First differences",
		"Of 5,538 checks, the log has those of 10% of the users: each counts as 10.",
		"denials of entities that the sampling did not draw", "decisions.jsonl, line 1583", `class="demand-over"`) {
		t.Fatalf("%d: %s", page.Code, page.Body)
	}
	if label := regexp.MustCompile(`role="img" aria-label="charges-per-user: the busiest key asked for up to 130 units`); !label.
		MatchString(page.Body) {
		t.Error("the picture has no text")
	}
	if r := w.Rules.Named("charges-per-user"); r.Limit != 100 || w.Changes > 0 ||
		w.Sets.Load().Named(r.Name).Rule.Limit != 100 {
		t.Errorf("the rule was changed: %d, %d changes", r.Limit, w.Changes)
	}
	other := w.As(access.RoleEditor).Get(path)
	if !other.Has("This result does not exist on this node") || other.Has("user:47") {
		t.Error("another session sees the result")
	}
	// The way back to the editor keeps what was typed.
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(page.Body, -1) {
		form.Add(m[1], m[2])
	}
	form.Set("do", "preview")
	if back := b.Post("/console/rules/preview", form); !back.Has(`value="60"`, `<option value="hour" selected>`) {
		t.Error("the editor has lost the draft")
	}
}

// A new rule is tried as well; a disabled one changes nothing but by its absence.
func TestReplay_OfANewRuleAndOfADisabledOne(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := url.Values{"name": {"new-one"}, "scope": {"user"}, "limit": {"5"}, "window_ms": {"1"},
		"window_ms.unit": {"minute"}, "is_active": {"on"}, "replay.range": {"all"}, "fail_mode": {"open"}}
	page := b.Post("/console/rules/replay", form)
	w.Replays.Wait()
	if page = b.Get(page.Header.Get("Location")); !page.Has("Try new-one on recent traffic", "<code>new-one</code>") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
	off := url.Values{"id": {"1"}, "name": {"charges-per-user"}, "method": {"POST"}, "route": {"/v1/charges"},
		"scope": {"user"}, "limit": {"100"}, "window_ms": {"1"}, "window_ms.unit": {"minute"},
		"replay.range": {"day"}, "fail_mode": {"open"}}
	page = b.Post("/console/rules/replay", off)
	w.Replays.Wait()
	if page = b.Get(page.Header.Get("Location")); !page.Has("0 would be newly denied and 7,290 newly allowed",
		"charges-per-user applied to no request") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
}

// Of a rule that the log says too little about, the page does not say that nothing would change.
func TestReplay_OfARuleThatCannotBeJudged(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Post("/console/rules/replay", url.Values{"name": {"all-users"}, "scope": {"global"}, "limit": {"1"},
		"window_ms": {"1"}, "window_ms.unit": {"minute"}, "is_active": {"on"}, "replay.range": {"all"},
		"fail_mode": {"open"}})
	w.Replays.Wait()
	if page = b.Get(page.Header.Get("Location")); !page.Has("No change was found, but all-users could not be tried on ",
		"all-users counts several entities together") || page.Has("Nothing would change") ||
		page.Has("applied to no request") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
}

func TestReplay_RefusesWhatItCannotTry(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	good := url.Values{"id": {"1"}, "version": {"1"}, "name": {"charges-per-user"}, "scope": {"user"}, "limit": {"60"},
		"window_ms": {"1"}, "window_ms.unit": {"minute"}, "is_active": {"on"}, "replay.range": {"hour"},
		"fail_mode": {"open"}}
	for _, tt := range []struct{ field, value, want string }{
		{"limit", "many", "must be"}, {"replay.range", "year", "must be hour, day or all"}, {"pool", "nowhere", "pool"},
		{"name", "search-per-user", "search-per-user"},
	} {
		form := url.Values{}
		for name, values := range good {
			form[name] = values
		}
		form.Set(tt.field, tt.value)
		if page := b.Post("/console/rules/replay", form); page.Code != http.StatusUnprocessableEntity || !page.Has(tt.want,
			`id="editor"`) {
			t.Errorf("%s %s: %d", tt.field, tt.value, page.Code)
		}
	}
	// Two others read the log.
	w.OpenLog = func(ctx context.Context, _ int64) (*backtest.Log, func(), error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	w.As(access.RoleEditor).Try("60")
	admin := w.As(access.RoleAdmin)
	last := admin.Suggest()
	if page := b.Post("/console/rules/replay", good); page.Code != http.StatusConflict || !page.Has("for 2 other people",
		`value="60"`) {
		t.Errorf("a third: %d", page.Code)
	}
	if page := admin.Post("/console/rules/replay/cancel",
		url.Values{"job": {last[strings.Index(last, "=")+1:]}}); page.Header.Get("Location") != last {
		t.Errorf("after cancelling: %d to %s", page.Code, page.Header.Get("Location"))
	}
	if page := admin.Get(last); !page.Has("Cancelled after 0 events", "Suggest limits") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
	webtest.NoLog(w)
	b = w.As(access.RoleEditor)
	if page := b.Post("/console/rules/replay", good); page.Code != http.StatusConflict ||
		!page.Has("SLUICE_DECISION_LOG=file") {
		t.Errorf("without a log: %d", page.Code)
	}
	if page := b.Get("/console/rules/1/suggest"); page.Code != http.StatusOK || !page.Has("SLUICE_DECISION_LOG=file") {
		t.Errorf("without a log: %d", page.Code)
	}
}

// Scripts get the progress, and are led to the result.
func TestReplay_ShowsItsProgress(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	answer := make(chan struct{})
	w.OpenLog = func(ctx context.Context, _ int64) (*backtest.Log, func(), error) {
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return nil, nil, errors.Join(ctx.Err(), errors.New("the disk is <gone>"))
	}
	b := w.As(access.RoleEditor)
	path := b.Try("60")
	if page := b.Get(path); !page.Has(`hx-trigger="every 1s"`, "0 events read", "Cancel", "the files in") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
	b.Header.Set("HX-Request", "true")
	if page := b.Get(path); page.Has("<html") || !page.Has("<progress", "0 events read") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
	close(answer)
	w.Replays.Wait()
	if page := b.Get(path); page.Header.Get("HX-Redirect") != path {
		t.Errorf("%d: %v", page.Code, page.Header)
	}
	b.Header.Del("HX-Request")
	if page := b.Get(path); !page.Has("The log could not be read: the disk is &lt;gone&gt;.") {
		t.Errorf("%d: %s", page.Code, page.Body)
	}
}

func TestSuggest_MakesACandidate(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	path := b.Suggest()
	w.Replays.Wait()
	page := b.Get(path)
	if !page.Has("55,380 requests of 100 keys", "Limits per 10 seconds", "Limits per minute", "95% of the keys",
		"Make candidate", "% of the requests, of ") {
		t.Fatalf("%d: %s", page.Code, page.Body)
	}
	version := w.Rules.Named("charges-per-user").Version
	candidate := func(version, limit, window string) webtest.Page {
		return b.Post("/console/rules/1/candidate", url.Values{"version": {version}, "limit": {limit}, "window_ms": {window}})
	}
	if page := candidate("1", "156", "60000"); page.Code != http.StatusSeeOther ||
		page.Header.Get("Location") != "/console/rules/1" {
		t.Fatalf("%d: %s", page.Code, page.Body)
	}
	r := w.Rules.Named("charges-per-user")
	if r.Limit != 100 || r.Candidate == nil || *r.Candidate.Limit != 156 || r.Candidate.WindowMS != nil ||
		r.Version != version+1 || w.Changes != 1 {
		t.Errorf("stored %+v, candidate %+v", r, r.Candidate)
	}
	if got := w.Rules.Revisions[1][0]; got.Actor.Name != webtest.Names[access.RoleEditor] ||
		got.Reason != "Suggested from recorded traffic" {
		t.Errorf("audited as %+v", got)
	}
	if page := candidate("1", "27", "10000"); page.Code != http.StatusConflict {
		t.Errorf("a stale page: %d", page.Code)
	}
	if page := candidate("2", "27", "10000"); page.Code != http.StatusSeeOther {
		t.Errorf("another window: %d", page.Code)
	}
	if r := w.Rules.Named("charges-per-user"); *r.Candidate.Limit != 27 || *r.Candidate.WindowMS != 10_000 {
		t.Errorf("candidate %+v", r.Candidate)
	}
	for _, form := range [][2]string{{"0", "1000"}, {"many", "1000"}, {"5", ""}, {"5", "-1"},
		{"99999999999999999", "1000"}} {
		if page := candidate("3", form[0], form[1]); page.Code != http.StatusUnprocessableEntity ||
			!page.Has("Nothing was saved") {
			t.Errorf("%v: %d", form, page.Code)
		}
	}
	if page := b.Post("/console/rules/999/candidate", url.Values{"version": {"1"}, "limit": {"5"},
		"window_ms": {"1000"}}); page.Code != http.StatusNotFound {
		t.Errorf("an unknown rule: %d", page.Code)
	}
}

// What the person typed comes back with the error beside the field.
func TestSuggest_ChecksItsForm(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for _, tt := range []struct{ windows, headroom, span, want string }{
		{"soon", "1.2", "day", "&#34;soon&#34; is not a duration"}, {"", "1.2", "day", "1 to 8 durations"},
		{"1s,2s,3s,4s,5s,6s,7s,8s,9s", "1.2", "day", "1 to 8 durations"}, {"1ns", "1.2", "day", "must be between 1ms and"},
		{"1s", "0.9", "day", "between 1 and 100"}, {"1s", "NaN", "day", "between 1 and 100"},
		{"1s", "1.2", "week", "must be hour, day or all"},
	} {
		page := b.Post("/console/rules/1/suggest", url.Values{"windows": {tt.windows}, "headroom": {tt.headroom},
			"replay.range": {tt.span}})
		if page.Code != http.StatusUnprocessableEntity || !page.Has(tt.want) {
			t.Errorf("%+v: %d", tt, page.Code)
		}
	}
}

// Rules that cannot have a candidate say why, and offer none.
func TestSuggest_WhereThereCanBeNoCandidate(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for id, want := range map[string]string{"7": "it is a trial itself", "5": "counts requests at a time"} {
		path := b.Post("/console/rules/"+id+"/suggest", url.Values{"windows": {"1m"}, "headroom": {"1"},
			"replay.range": {"all"}}).Header.Get("Location")
		w.Replays.Wait()
		if page := b.Get(path); !page.Has(want) || page.Has("Make candidate") {
			t.Errorf("rule %s: %d, %s", id, page.Code, page.Body)
		}
	}
}
