package inspect_test

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestDeferred_ShowsQueuesAndDropsWhatWasShown(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/deferred"); !page.Has("No rule defers requests") {
		t.Error("without queues")
	}
	w.Deferrals.List = webtest.SampleDeferrals()
	page := b.Get("/console/deferred")
	if page.Code != http.StatusOK || !page.Has(`href="/console/rules/6"`, "of 10,000", "1 min 35 s", "of 1 day",
		`<span class="badge warn">3</span>`,
		"no longer defers", "newsletters", "rule 78", "Drop 412 requests?") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
	if w.As(access.RoleViewer).Get("/console/deferred").Has("popovertarget=\"drop") {
		t.Error("a viewer is offered to drop")
	}
	until := strconv.FormatInt(webtest.Now.UnixMilli(), 10)
	for _, bad := range []string{"", "x", "0", "-1", "99999999999999999999"} {
		page := b.Post("/console/deferred/6/drop", url.Values{"until": {bad}})
		if page.Code != http.StatusUnprocessableEntity {
			t.Errorf("until %q: %d", bad, page.Code)
		}
	}
	page = b.Post("/console/deferred/6/drop", url.Values{"until": {until}})
	if page.Code != http.StatusSeeOther || len(w.Deferrals.Notes) != 1 || w.Deferrals.Notes[0] != "edda webhooks-paced" {
		t.Fatalf("%d, %v", page.Code, w.Deferrals.Notes)
	}
	if page := b.Get("/console/deferred"); !page.Has("412 deferred requests dropped.") || page.Has("Drop 412") {
		t.Error("it does not say what was dropped")
	}
	w.Deferrals.Err = errors.New("gone")
	if page := b.Get("/console/deferred"); page.Code != http.StatusOK || !page.Has("The queues are unreachable") {
		t.Errorf("without the queues: %d", page.Code)
	}
	page = b.Post("/console/deferred/6/drop", url.Values{"until": {until}})
	if page.Code != http.StatusServiceUnavailable || !page.Has("The queue is unreachable") {
		t.Errorf("without the queues: %d", page.Code)
	}
	w.Deferrals.Err = rules.ErrUnavailable
	page = b.Post("/console/deferred/6/drop", url.Values{"until": {until}})
	if page.Code != http.StatusServiceUnavailable || !page.Has("The rules database is unreachable") {
		t.Errorf("without the database: %d", page.Code)
	}
}
