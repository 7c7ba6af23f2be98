package people_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/web/webtest"
)

func TestAudit_IsFilteredPagedAndDownloaded(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	page := b.Get("/console/audit?actor=edda&action=import&kind=rule&from=2026-11-01&to=2026-11-21&subject=search")
	want := audit.Query{
		Actor: "edda", Action: "import", SubjectKind: "rule", Subject: "search", Limit: 51,
		Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC),
	}
	if page.Code != http.StatusOK || w.Log.Last != want {
		t.Errorf("asked for %+v", w.Log.Last)
	}
	if page = b.Get("/console/audit"); !page.Has("before=71", "2 fields: limit, fail_mode", "<del>100</del>",
		"<ins>120</ins>") {
		t.Error("the newest page lacks a diff, or the way to older ones")
	}
	if page = b.Get("/console/audit?before=71&action=nonsense&from=nonsense"); w.Log.Last.BeforeID != 71 ||
		w.Log.Last.Action != "" || !page.Has("Older changes") {
		t.Errorf("older: asked for %+v", w.Log.Last)
	}
	w.Log.List[0].SubjectName, w.Log.List[0].Actor.Name = "=cmd()", "<script>x</script>"
	if page = b.Get("/console/audit"); page.Has("<script>x") {
		t.Error("a name is not escaped")
	}
	file := b.Get("/console/audit/download?format=csv")
	lines, err := csv.NewReader(strings.NewReader(file.Body)).ReadAll()
	if err != nil || len(lines) != 121 || lines[1][7] != "'=cmd()" ||
		!strings.HasPrefix(file.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("csv: %d lines, %v", len(lines), err)
	}
	if file = b.Get("/console/audit/download?format=json"); strings.Count(file.Body, "\n") != 120 {
		t.Errorf("json: %d lines", strings.Count(file.Body, "\n"))
	}
}

// A change of an override is told field by field, as an edit of a rule is. The file keeps what is stored.
func TestAudit_OverridesAreToldInWords(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	stored := `{"was":{"id":4,"key":"user:a<b","limit":100,"reason":"trial"},"is":{"id":4,"key":"user:a<b","limit":10000,` +
		`"reason":"trial","expires_at":"2027-01-20T12:00:00Z"}}`
	w.Log.List = []audit.Entry{
		{ID: 3, Action: "override_update", SubjectKind: "rule", SubjectID: 1, SubjectName: "charges-per-user",
			Details: []byte(stored)},
		{ID: 2, Action: "override_delete", SubjectKind: "rule", SubjectID: 1, SubjectName: "charges-per-user",
			Details: []byte(`{"was":{"id":3,"key":"user:7","blocked":true},"is":null}`)},
		{ID: 1, Action: "override_import", SubjectKind: "rule", SubjectID: 1, SubjectName: "charges-per-user",
			Details: []byte(`{"created":12,"updated":0,"unchanged":3,"deleted":1}`)},
	}
	b := w.As(access.RoleAdmin)
	page := b.Get("/console/audit")
	if !page.Has("2 fields: limit, expires_at", "<code>user:a&lt;b</code>", "<del>100</del>", "<ins>10,000</ins>",
		`datetime="2027-01-20T12:00:00Z"`, "1 field: blocked", "<del>yes</del>", "<code>user:7</code>", "created 12",
		"deleted 1") {
		t.Errorf("the page lacks a field:\n%s", page.Body)
	}
	if page.Has("rule_id") || page.Has("{&#34;") || page.Has(`{"`) {
		t.Error("the page has JSON")
	}
	rows, err := csv.NewReader(strings.NewReader(b.Get("/console/audit/download?format=csv").Body)).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][8] != stored {
		t.Errorf("the file has %q (%v)", rows, err)
	}
}

func TestAudit_DaysAreOfTheZoneThatIsNamed(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/audit?from=2026-10-25&to=2026-10-25&zone=Europe%2FBerlin")
	if q := w.Log.Last; q.Since.UTC().Format(time.RFC3339) != "2026-10-24T22:00:00Z" ||
		q.Until.UTC().Format(time.RFC3339) != "2026-10-25T23:00:00Z" {
		t.Errorf("from %s until %s: not the 25 hours of that day", q.Since, q.Until)
	}
	if !page.Has(`name="zone" value="Europe/Berlin"`) {
		t.Error("the page does not say which zone it means")
	}
	page = b.Get("/console/audit?from=2026-10-25&zone=Mars%2FOlympus")
	if q := w.Log.Last; !q.Since.Equal(time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)) ||
		!page.Has(`name="zone" value="UTC"`) {
		t.Errorf("a zone that is not: since %s", q.Since)
	}
}
