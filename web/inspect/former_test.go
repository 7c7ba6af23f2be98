package inspect_test

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/webtest"
)

// The page of a key counts what was spent before an edit of the algorithm and says so, and a reset ends that too.
func TestKey_CountsWhatWasSpentUnderTheFormerAlgorithm(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	if err := w.Spend(&match.Descriptor{Method: "POST", Route: "/v1/charges", User: "43",
		IP: netip.MustParseAddr("203.0.113.7")}, 60); err != nil {
		t.Fatal(err)
	}
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Name == "charges-per-user" {
			was := r.Clone()
			r.Algorithm = "sliding_window_log"
			r.Former = rules.FormerAfter(&was, r, w.Clock.Now())
		}
	}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	b := w.As(access.RoleEditor)
	until := w.Clock.Now().Add(time.Minute).UTC().Format("2006-01-02 15:04:05 UTC")
	if page := b.Get(key43); !page.Has("40 of 100", until, "this includes what was spent under sliding_window_counter.") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page := b.Post("/console/keys/reset", form43); page.Code != http.StatusSeeOther {
		t.Fatalf("the reset answers %d", page.Code)
	}
	if page := b.Get(key43); !page.Has("100 of 100") {
		t.Errorf("after the reset: %s", page.Body)
	}
}
