package people

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/web/kit"
	"sluice/web/view"
)

// entriesPerPage is how many changes a page of the audit log has.
const entriesPerPage = 50

// listAudit shows who changed what, filtered by the URL. Invalid filters are ignored.
func (p *Pages) listAudit(v *kit.Visit) error {
	q := v.QueryParams()
	want := auditQuery(q)
	want.Limit = entriesPerPage + 1 // one more, to know whether there are older ones
	want.BeforeID, _ = strconv.ParseInt(q.Get("before"), 10, 64)
	list, err := p.Audit.ListAudit(v.Ctx, want)
	if err != nil {
		return err
	}
	m := AuditList{Query: view.NewQuery(kit.PathAudit, q, "actor", "action", "kind", "subject", "from", "to", "zone"),
		Zone: auditZone(q).String(), Newest: want.BeforeID == 0}
	if len(list) > entriesPerPage {
		list = list[:entriesPerPage]
		m.Older = list[entriesPerPage-1].ID
	}
	m.Entries = list
	return v.Page(http.StatusOK, auditPage(v.Frame("Audit log", kit.PathAudit), m))
}

// auditQuery reads the filters. Days are in the zone of the filters, in UTC by default, and include the last day.
func auditQuery(q url.Values) audit.Query {
	want := audit.Query{
		Actor: strings.TrimSpace(q.Get("actor")), Subject: strings.TrimSpace(q.Get("subject")),
		Action: kit.OneOf(q.Get("action"), audit.Actions()...), SubjectKind: kit.OneOf(q.Get("kind"), audit.Subjects()...),
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

// auditZone is the time zone of the filters.
func auditZone(q url.Values) *time.Location {
	if zone, err := rules.Zone(strings.TrimSpace(q.Get("zone"))); err == nil {
		return zone
	}
	return time.UTC
}

// AuditList is the page of the audit log.
type AuditList struct {
	Entries []audit.Entry
	Query   view.Query
	// Older is the ID before which the next page starts, 0 if there is none.
	Older int64
	// Zone is the time zone of the filters.
	Zone string
	// Newest means that the page starts with the newest change.
	Newest bool
}

func auditChoices(first string, names []string) []view.Choice {
	out := []view.Choice{{"", first}}
	for _, n := range names {
		out = append(out, view.Choice{n, strings.ReplaceAll(n, "_", " ")})
	}
	return out
}

func actionKind(action string) string {
	switch action {
	case "delete", "revoke", "disable", "drop", "override_delete":
		return "bad"
	}
	return "plain"
}

// subjectLink is the address of an entry's resource, "" if it has no page.
func subjectLink(e *audit.Entry) string {
	switch {
	case e.SubjectID == 0: // several rows at once, changed in the database by hand
		return ""
	case e.SubjectKind == "user":
		return personPath(e.SubjectID)
	case e.SubjectKind == "rule" && e.Action != "delete":
		return view.RulePath(e.SubjectID)
	case e.SubjectKind == "profile" && e.Action != "delete":
		return kit.PathProfiles + "/" + url.PathEscape(e.SubjectName)
	case e.SubjectKind == "webhook" && e.Action != "delete":
		return kit.PathAlerts + "/webhooks/" + url.PathEscape(e.SubjectName)
	case e.SubjectKind == "silence" && e.Action != "delete":
		return kit.PathAlerts + "/silences"
	case e.SubjectKind == "token":
		return "/console/tokens"
	}
	return ""
}

// detail is a detail of an entry without field changes.
type detail struct {
	Name  string
	Value any
}

// detailsOf are the details of an entry besides field changes, sorted by name.
func detailsOf(e *audit.Entry) []detail {
	var d map[string]any
	if json.Unmarshal(e.Details, &d) != nil {
		return nil
	}
	var out []detail
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if name == "changes" || name == "undoes" || d[name] == nil {
			continue
		}
		value := d[name]
		if list, ok := value.([]any); ok {
			parts := make([]string, len(list))
			for i := range list {
				parts[i] = view.DiffText(list[i])
			}
			value = strings.Join(parts, ", ")
		}
		out = append(out, detail{strings.ReplaceAll(name, "_", " "), value})
	}
	return out
}

// download is the address of the filtered entries as a file.
func (m AuditList) download(format string) string {
	q := m.Query.With("format", format)
	return strings.Replace(q, m.Query.Path(), m.Query.Path()+"/download", 1)
}

const (
	// maxNames is how many fields a line lists.
	maxNames = 4
	// maxBulkRules is how many rules of a bulk edit an entry names.
	maxBulkRules = 10
)

// changeWords names the changed fields: "2 fields: limit, burst".
func changeWords(e *audit.Entry, changes []field.Change) string {
	var names []string
	for _, c := range changes { // those of a bulk edit name a field for each former value
		if !slices.Contains(names, c.Field) {
			names = append(names, c.Field)
		}
	}
	count := view.Plural(len(names), "field")
	if e.SubjectKind == audit.SubjectBulk {
		count += " of " + view.Plural(e.Bulk().Rules, "rule")
	}
	if len(names) > maxNames {
		names = append(names[:maxNames], "…")
	}
	return count + ": " + strings.Join(names, ", ")
}

// entryLink leads to an entry, with the earlier ones below it.
func entryLink(id int64) string { return kit.PathAudit + "?before=" + view.Digits(id+1) }

// undoAllPath is the page that undoes a bulk edit.
func undoAllPath(e *audit.Entry) string { return kit.PathAudit + "/" + view.Digits(e.ID) + "/undo" }

const (
	// downloadBatch is how many changes are read at a time.
	downloadBatch = 500
	// batchTime is how long writing a batch may take; the server's own limit is
	// for pages.
	batchTime = 30 * time.Second
)

// downloadAudit sends all changes that the filters select, as CSV or JSON lines.
// The first batch is read before the first byte, so that an unreachable database gives an error page. If the database
// becomes unreachable later, the download ends early.
func (p *Pages) downloadAudit(v *kit.Visit) error {
	want := auditQuery(v.QueryParams())
	want.Limit = downloadBatch
	list, err := p.Audit.ListAudit(v.Ctx, want)
	if err != nil {
		return err
	}
	if err := v.Save(); err != nil {
		return err
	}
	kind, name := "application/x-ndjson", "audit-log.jsonl"
	write := writeJSONLines
	if v.QueryParam("format") != "json" {
		kind, name, write = "text/csv; charset=utf-8", "audit-log.csv", writeCSV
	}
	w, control := v.Response(), http.NewResponseController(v.Response())
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	p.Logger.Info("the audit log was downloaded", "by", v.User.Name)
	for first := true; ; first = false {
		_ = control.SetWriteDeadline(time.Now().Add(batchTime)) //nolint:forbidigo // sockets go by the machine's clock
		if err := write(w, list, first); err != nil {
			return nil // the browser has gone
		}
		if len(list) < downloadBatch {
			return nil
		}
		want.BeforeID = list[len(list)-1].ID
		if list, err = p.Audit.ListAudit(v.Ctx, want); err != nil {
			if !errors.Is(err, context.Canceled) { // then the browser has left
				p.Logger.Error("a download of the audit log ended early", "error", err)
			}
			panic(http.ErrAbortHandler) // so that the browser knows that the file is incomplete
		}
	}
}

func writeJSONLines(w io.Writer, list []audit.Entry, _ bool) error {
	e := json.NewEncoder(w)
	for i := range list {
		if err := e.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeCSV(w io.Writer, list []audit.Entry, first bool) error {
	c := csv.NewWriter(w)
	if first {
		if err := c.Write([]string{"id", "at", "actor_kind", "actor", "action", "subject_kind", "subject_id", "subject",
			"details"}); err != nil {
			return err
		}
	}
	for i := range list {
		e := &list[i]
		err := c.Write([]string{
			view.Digits(e.ID), e.At.UTC().Format(time.RFC3339Nano), chars.Cell(e.Actor.Kind),
			chars.Cell(e.Actor.Name), chars.Cell(e.Action),
			chars.Cell(e.SubjectKind), view.Digits(e.SubjectID), chars.Cell(e.SubjectName),
			chars.Cell(string(e.Details)),
		})
		if err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
