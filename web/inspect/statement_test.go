package inspect_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/web/webtest"
)

const keptKey = "/console/keys?rule=charges-per-user&key=user%3A43"

// charge charges units to user 43 at the rule charges-per-user, also above the limit.
func charge(t *testing.T, w *webtest.World, units int64) {
	t.Helper()
	b, err := w.Sets.Load().FindBucket(w.Sets.Load().Named("charges-per-user"), "user:43", w.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	req := limiter.Request{Op: limiter.OpCharge, Asks: []limiter.Ask{{Key: b.Key, Limit: b.Limit, Weight: units}}}
	if err := w.Guard.Do(context.Background(), &req, &limiter.Result{}); err != nil {
		t.Fatal(err)
	}
}

func TestKey_ShowsWhatItSpentInItsPeriods(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	webtest.Keep(w, false)
	b := w.As(access.RoleViewer)
	charge(t, w, 99_000)
	if page := b.Get(keptKey); !page.Has("Spent in this period", "99,000 tokens", "99%", "Last period", "90,500 tokens") ||
		page.Has("over the limit") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	charge(t, w, 3500)
	if page := b.Get(keptKey); !page.Has("102,500 tokens", "2,500 tokens over the limit") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	w.Statements.Err = rules.ErrUnavailable
	if page := b.Get(keptKey); page.Code != http.StatusOK || page.Has("90,500 tokens") || !page.Has("102,500 tokens") {
		t.Errorf("a statement that cannot be read: %d\n%s", page.Code, page.Body)
	}
}

// The number by which stores count for a meter is not shown as its limit.
func TestKeys_ShowThatAMeterHasNoLimit(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	webtest.Keep(w, true)
	b := w.As(access.RoleEditor)
	charge(t, w, 4200)
	for what, page := range map[string]webtest.Page{
		"key": b.Get(keptKey),
		"explain": b.Post("/console/explain", url.Values{"method": {"POST"}, "route": {"/v1/charges"}, "user": {"43"},
			"weight": {"1"}}),
	} {
		if page.Code != http.StatusOK || !page.Has("no limit", "4,200") ||
			page.HasAny("9007199254", "9,007,199", "18,014", "18014",
				"for an hour, user:43 at charges-per-user") {
			t.Errorf("%s: %d\n%s", what, page.Code, page.Body)
		}
	}
}
