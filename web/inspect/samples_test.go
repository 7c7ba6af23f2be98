package inspect_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web/view"
	"sluice/web/webtest"
)

func TestSamples_AreFilteredByWhatTheAddressSays(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleViewer)
	tests := []struct {
		query string
		has   []string
		not   string
	}{
		{"", []string{"charges-per-user", "ip:203.0.113.66", "/console/explain?denial=s0", "retry never", "weight 52",
			"503, fail mode closed"}, ""},
		{"?rule=logins-per-address", []string{"ip:203.0.113.66"}, "charges-per-user</a>"},
		{"?key=user%3Aada", []string{"uploads-in-bytes</a>"}, "exports-at-a-time</a>"},
		{"?route=/v1/exp", []string{"exports-at-a-time</a>"}, "charges-per-user</a>"},
		{"?outcome=shadow", []string{"tighter-charges</a>", "badge info"}, "badge bad"},
		{"?since=1m", []string{"charges-per-user</a>"}, "gone-rule"},
		{"?outcome=would_deny", []string{"tighter-charges</a>"}, "charges-per-user</a>"},
		{"?outcome=degraded", []string{"signups-in-all</a>", "fail mode closed"}, "charges-per-user</a>"},
		{"?tenant=acme", []string{"uploads-in-bytes</a>", "All tenants"}, "logins-per-address</a>"},
		{"?node=elsewhere", []string{"No matching denials"}, "charges-per-user</a>"},
		{"?to=2026-11-21T00:00:00Z", []string{"No matching denials", "Show all denials", "All times", "Newest"},
			"charges-per-user</a>"},
		{"?key=%3Cscript%3E", []string{"&lt;script&gt;"}, "<script>alert"},
	}
	for _, tt := range tests {
		page := b.Get("/console/denials" + tt.query)
		if page.Code != http.StatusOK || !page.Has(tt.has...) {
			t.Errorf("%q: %d lacks one of %q", tt.query, page.Code, tt.has)
		}
		if tt.not != "" && strings.Contains(page.Body, tt.not) {
			t.Errorf("%q: shows %q", tt.query, tt.not)
		}
	}
}

func TestSamples_OfAllowedRequestsAreOnAPageOfTheirOwn(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleViewer)
	const requests, denials = "/console/requests", "/console/denials"
	if page := b.Get(denials); page.Has("/v1/search") || page.Has("Allowed") {
		t.Error("an allowed request is among the denials")
	}
	page := b.Get(requests)
	for _, want := range []string{"GET /v1/search", "12 left", "also counted by charges-per-user", "no rule", "/healthz",
		"200, fail mode local", "429", "of=requests"} {
		if !page.Has(want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if page := b.Get(requests + "?outcome=allowed&rule=charges-per-user"); !page.Has("GET /v1/search") ||
		page.Has("badge bad") {
		t.Error("the allowed requests that a rule counted")
	}
	at := webtest.Now.Add(-3 * time.Second)
	moment := b.Get(requests + "?from=" + view.Stamp(at) + "&to=" + view.Stamp(at.Add(2*time.Second)))
	if !moment.Has("GET /v1/search") || moment.Has("healthz") || !moment.Has("All times") {
		t.Error("the requests of a moment")
	}
}

func TestSamples_SayWhatIsWrongWithTheAddress(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleViewer)
	for query, want := range map[string]string{
		"from=yesterday":      "from: must be a date and time",
		"to=%3Cb%3E":          "to: must be a date and time",
		"outcome=nonsense":    "outcome: does not exist",
		"outcome=allowed&x=1": "outcome: does not exist", // of denials
		"from=2026-11-21T12:00&to=2026-11-21T12:00": "to: must be after the start",
	} {
		page := b.Get("/console/denials?key=kept&" + query)
		if page.Code != http.StatusUnprocessableEntity || !page.Has(want, `value="kept"`) {
			t.Errorf("%s: %d, lacks %q or the key", query, page.Code, want)
		}
	}
}

func TestDenials_SayWhyWithinTheLimit(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Fleet.Denied[0].Status, w.Fleet.Denied[0].Shed = http.StatusServiceUnavailable, "fleet"
	w.Fleet.Denied[1].Banned, w.Fleet.Denied[1].Host = true, "api.example.com"
	w.Fleet.Denied[2].Status, w.Fleet.Denied[2].Overloaded = http.StatusServiceUnavailable, true
	page := w.As(access.RoleViewer).Get("/console/denials")
	for _, want := range []string{"503, shed", "The pool fleet had no room.", "429, banned", "host api.example.com",
		"503, overloaded", `title="More requests arrive than the counter store can decide`} {
		if !page.Has(want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestDenials_ShowWhatCallersSentAsText(t *testing.T) {
	page := webtest.Start(t, webtest.Full).As(access.RoleViewer).Get("/console/denials")
	if page.Has("<script>alert") || page.Has("<img") || !page.Has("&lt;script&gt;alert(1)") {
		t.Error("what a caller sent is markup")
	}
	if page.Has("sk_live") {
		t.Error("a credential is shown")
	}
}

func TestDenials_LeadFromPageToPage(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	sample := w.Fleet.Denied[0]
	for i := range 250 {
		sample.ID, sample.At = "m"+string(rune('a'+i%26)), webtest.Now.UnixMilli()-int64(i)*1000
		w.Fleet.Denied = append(w.Fleet.Denied, sample)
	}
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/denials?rule=charges-per-user"); !page.Has(`rel="next"`, "before=",
		"100 denials shown") {
		t.Error("the first page does not lead on")
	}
}

func TestDenials_SayThatTheCountersAreAway(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Fleet.Err = errors.New("no route to host 10.0.0.7")
	page := w.As(access.RoleViewer).Get("/console/denials")
	if page.Code != http.StatusServiceUnavailable || !page.Has("Redis is unreachable") || page.Has("10.0.0.7") {
		t.Errorf("%d", page.Code)
	}
}
