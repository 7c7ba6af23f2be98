package web_test

import (
	"testing"

	"sluice/internal/access"
	"sluice/internal/records"
	"sluice/web/webtest"
)

// The overview says whether decisions are recorded, and what became of the events.
func TestOverview_SaysWhatBecameOfTheDecisionLog(t *testing.T) {
	b := world(t, webtest.Full).As(access.RoleViewer)
	for _, from := range []string{"/console", "/console/events?once=1"} {
		if page := b.Get(from); !page.Has("120,400 events", "120,388 delivered, 12 buffered, 0 dropped, 0 doubtful",
			">not taken<", "The oldest has waited for 40s", "118,000 delivered, 1,900 buffered, 380 dropped, 120 doubtful",
			"Dropped: client full 250, too old 130") || page.Has("ring full") {
			t.Errorf("%s: %d\n%s", from, page.Code, page.Body)
		}
	}
	w := world(t, webtest.Full)
	w.Logs["kafka"] = records.Totals{Produced: 10, Delivered: 7, Dropped: map[string]int64{"too_old": 3}}
	if page := w.As(access.RoleViewer).Get("/console"); !page.Has(">lost events<") || page.Has("not taken") {
		t.Errorf("after an outage: %s", page.Body)
	}
	page := world(t, webtest.Empty).As(access.RoleViewer).Get("/console")
	if !page.Has("off: decisions are not recorded") {
		t.Errorf("off: %d\n%s", page.Code, page.Body)
	}
}
