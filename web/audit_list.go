package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/internal/audit"
	"sluice/web/view"
)

// entriesPerPage is how many changes a page of the audit log has.
const entriesPerPage = 50

// listAudit shows who changed what, filtered by what the URL says. What it says
// wrongly is ignored.
func (s *Server) listAudit(v *visit) error {
	q := v.QueryParams()
	want := auditQuery(q)
	want.Limit = entriesPerPage + 1 // one more tells whether there are older ones
	want.BeforeID, _ = strconv.ParseInt(q.Get("before"), 10, 64)
	list, err := s.deps.Admin.Log.ListAudit(v.ctx, want)
	if err != nil {
		return err
	}
	m := view.AuditList{Query: view.NewQuery(pathAudit, q, "actor", "action", "kind", "subject", "from", "to", "zone"), Zone: auditZone(q).String(), Newest: want.BeforeID == 0}
	if len(list) > entriesPerPage {
		list = list[:entriesPerPage]
		m.Older = list[entriesPerPage-1].ID
	}
	m.Entries = list
	return v.page(http.StatusOK, view.AuditPage(v.frame("Audit log", pathAudit), m))
}

// auditQuery reads the filters. Days are of the zone that they name, else of UTC,
// and the last one counts too.
func auditQuery(q url.Values) audit.Query {
	want := audit.Query{
		Actor: strings.TrimSpace(q.Get("actor")), Subject: strings.TrimSpace(q.Get("subject")),
		Action: oneOf(q.Get("action"), audit.Actions()...), SubjectKind: oneOf(q.Get("kind"), audit.Subjects()...),
	}
	zone := auditZone(q)
	if day, err := time.ParseInLocation(time.DateOnly, q.Get("from"), zone); err == nil {
		want.Since = day
	}
	if day, err := time.ParseInLocation(time.DateOnly, q.Get("to"), zone); err == nil {
		want.Until = day.AddDate(0, 0, 1)
	}
	return want
}

// auditZone is the zone whose days the filters mean.
func auditZone(q url.Values) *time.Location {
	zone, err := zoneNamed(q.Get("zone"))
	if err != nil {
		return time.UTC
	}
	return zone
}
