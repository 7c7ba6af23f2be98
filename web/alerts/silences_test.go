package alerts_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/web/webtest"
)

const silences = "/console/alerts/silences"

func TestSilences_AnActiveAlertIsSilencedAndTheSilenceEdited(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Get(path)
	if !page.Has("Alerts: 3 active", silences+"/new?alert=event-8", silences+"/new?acknowledges=event-9") {
		t.Fatalf("%d\n%s", page.Code, page.Body)
	}
	page = b.Get(silences + "/new?alert=event-8")
	if !page.Has(`<option value="rule_denials" selected>`, `value="charges-per-user"`, `value="50%,0/s"`,
		`<option value="4h" selected>`) {
		t.Errorf("the form: %d\n%s", page.Code, page.Body)
	}
	form := url.Values{"kind": {"rule_denials"}, "rule": {"charges-per-user"}, "key": {""}, "level": {""},
		"reason": {" The <b>sale</b>. "}, "lasts": {"1d"}}
	if page = b.Post(silences, form); page.Code != http.StatusSeeOther || page.Header.Get("Location") != silences {
		t.Fatalf("saved: %d\n%s", page.Code, page.Body)
	}
	s := w.Silences.List[0]
	if s.By != "edda" || s.Acknowledges != "" || s.Rule != "charges-per-user" || s.Reason != "The <b>sale</b>." ||
		!s.EndsAt.Equal(webtest.Now.Add(24*time.Hour)) {
		t.Errorf("stored %+v", s)
	}
	page = b.Get(path)
	if !page.Has("Alerts: 2 active, besides 1 acknowledged or silenced", "by edda until", "The &lt;b&gt;sale&lt;/b&gt;.",
		">silenced</span>", silences+"/new?acknowledges=event-8") || page.Has(silences+"/new?alert=event-8") ||
		page.Has("<b>sale") {
		t.Errorf("silenced: %d\n%s", page.Code, page.Body)
	}
	page = b.Get(silences + "/1/edit")
	if !page.Has("High denials, rule charges-per-user", "Keep the end", `name="version" value="1"`) {
		t.Errorf("edit: %d\n%s", page.Code, page.Body)
	}
	edit := url.Values{"reason": {"Longer."}, "lasts": {"31d"}, "version": {"1"}}
	if page = b.Post(silences+"/1", edit); page.Code != http.StatusUnprocessableEntity ||
		w.Silences.List[0].Version != 1 || !page.Has("must be one of the offered lengths") {
		t.Errorf("edited with a length that is none: %d\n%s", page.Code, page.Body)
	}
	edit.Set("lasts", "")
	if page = b.Post(silences+"/1", edit); page.Code != http.StatusSeeOther {
		t.Errorf("edited: %d\n%s", page.Code, page.Body)
	}
	edit.Set("reason", "Mine.")
	if page = b.Post(silences+"/1", edit); page.Code != http.StatusConflict || !page.Has("Their reason is: Longer.",
		`value="Mine."`, `name="version" value="2"`) {
		t.Errorf("edited an old version: %d\n%s", page.Code, page.Body)
	}
	if s = w.Silences.List[0]; s.Reason != "Longer." || s.Version != 2 ||
		!s.EndsAt.Equal(webtest.Now.Add(24*time.Hour)) || s.Rule != "charges-per-user" {
		t.Errorf("stored %+v", s)
	}
	if page = b.Post(silences+"/1/end", url.Values{"version": {"1"}}); page.Code != http.StatusConflict {
		t.Errorf("ended an old version: %d", page.Code)
	}
	if page = b.Post(silences+"/1/end", url.Values{"version": {"2"}}); page.Code != http.StatusSeeOther {
		t.Errorf("ended: %d\n%s", page.Code, page.Body)
	}
	if page = b.Get(path); !page.Has("Alerts: 3 active", "Silence ended.") || page.Has("besides") {
		t.Errorf("after the end: %d\n%s", page.Code, page.Body)
	}
}

func TestSilences_AnActiveAlertIsAcknowledged(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Get(silences + "/new?acknowledges=event-9")
	if !page.Has("Acknowledge an alert", "The key user:42 reached 80%", `name="acknowledges" value="event-9"`) ||
		page.Has(`name="kind"`) {
		t.Errorf("the form: %d\n%s", page.Code, page.Body)
	}
	form := url.Values{"acknowledges": {"event-9"}, "kind": {"key_hot"}, "reason": {"The customer knows."},
		"lasts": {"1h"}}
	if page = b.Post(silences, form); page.Code != http.StatusSeeOther || page.Header.Get("Location") != path {
		t.Fatalf("acknowledged: %d\n%s", page.Code, page.Body)
	}
	if s := w.Silences.List[0]; s.Acknowledges != "event-9" || s.Kind != "key_usage" || s.Key != "user:42" {
		t.Errorf("stored %+v", s)
	}
	if page = b.Get(path); !page.Has("Alerts: 2 active, besides 1", ">acknowledged</span>", "The customer knows.") ||
		page.Has("acknowledges=event-9") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	w.Alerts.Change(func(f *webtest.Alerts) { f.On = f.On[1:] })
	for _, page := range []webtest.Page{b.Get(silences + "/new?acknowledges=event-9"), b.Post(silences, form)} {
		if !page.Has("This alert is no longer active, so nothing was saved.") || page.Has("<select") {
			t.Errorf("after its end: %d\n%s", page.Code, page.Body)
		}
	}
	if len(w.Silences.List) != 1 {
		t.Errorf("stored %+v", w.Silences.List)
	}
}

func TestSilences_BadInputIsNamed(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	good := func() url.Values {
		return url.Values{"kind": {"rule_denials"}, "reason": {"why"}, "lasts": {"30d"}}
	}
	for name, value := range map[string]string{"kind": "failmode_ended", "rule": "A b", "reason": "  ", "lasts": "31d"} {
		form := good()
		form.Set(name, value)
		page := b.Post(silences, form)
		if page.Code != http.StatusUnprocessableEntity || strings.Count(page.Body, `class="error"`) != 1 ||
			!page.Has(`id="f-`+name+`-hint"`) {
			t.Errorf("%s %q: %d\n%s", name, value, page.Code, page.Body)
		}
	}
	w.Silences.List = make([]alerts.Silence, alerts.MaxSilences)
	if page := b.Post(silences, good()); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("there are already 1000 silences; end one") {
		t.Errorf("one more: %d\n%s", page.Code, page.Body)
	}
	w.Silences.List, w.Silences.Err = nil, rules.ErrUnavailable
	if page := b.Post(silences, good()); page.Code != http.StatusServiceUnavailable || !page.Has(`value="why"`) {
		t.Errorf("unavailable: %d\n%s", page.Code, page.Body)
	}
	w.Silences.Err = nil
	if page := b.Post(silences, good()); page.Code != http.StatusSeeOther {
		t.Errorf("good: %d\n%s", page.Code, page.Body)
	}
}

func TestSilences_ViewersSeeThem(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	webtest.Handle(w)
	b := w.As(access.RoleViewer)
	page := b.Get(silences)
	if !page.Has("The sale doubles", "acknowledgement", "2026-11-23 04:00:00 UTC", ">ended</span>", "user:7") ||
		page.Has("/edit") || page.Has("/end") || page.Has("New silence") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Get(path)
	if !page.Has(">silenced</span>", ">acknowledged</span>", "not sent at that time: silenced",
		"Alerts: 1 active, besides 2 acknowledged or silenced") || page.Has(silences+"/new") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

// A silence that has ended cannot keep its end, though the form offers that first. The answer says so.
func TestSilences_AnEndedOneNeedsAnotherEnd(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Silences.List = []alerts.Silence{{ID: 7, Kind: string(alerts.KindRuleIdle), Reason: "Old.", By: "edda", Version: 1,
		EndsAt: new(webtest.Now.Add(-time.Hour))}}
	b := w.As(access.RoleEditor)
	edit := url.Values{"reason": {"New."}, "lasts": {""}, "version": {"1"}}
	page := b.Post(silences+"/7", edit)
	if page.Code != http.StatusUnprocessableEntity || !page.Has("a silence that has ended cannot keep its end") {
		t.Errorf("kept the end: %d\n%s", page.Code, page.Body)
	}
	edit.Set("lasts", "1h")
	if page = b.Post(silences+"/7", edit); page.Code != http.StatusSeeOther || w.Silences.List[0].Reason != "New." {
		t.Errorf("another end: %d\n%s", page.Code, page.Body)
	}
}
