package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/audit"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/quantity"
)

const (
	// auditPage is the number of audit entries in one read, auditPages the largest number of reads: a large import of
	// overrides must not hide earlier changes of rules.
	auditPage, auditPages = 500, 4
	// maxMarkFields is how many changed fields a mark names with their values.
	maxMarkFields = 3
	// maxMarkValue is the longest value that a mark shows, in characters.
	maxMarkValue = 40
)

// changeLog is where the marks of rule changes come from.
type changeLog interface {
	ListAudit(ctx context.Context, q audit.Query) ([]audit.Entry, error)
	GetRuleByName(ctx context.Context, name string) (rules.Rule, error)
}

// marks finds what happened in a time, for charts. It is safe for concurrent use.
type marks struct {
	changes   changeLog
	events    incident.Store
	incidents incident.Source
}

// Marks implements history.MarkSource.
func (m *marks) Marks(ctx context.Context, rule string, from, to time.Time) ([]history.Mark, error) {
	out, err := m.ofChanges(ctx, rule, from, to)
	incidents, err2 := m.incidents.Incidents(ctx, incident.Query{From: from, To: to})
	for i := range incidents {
		out = append(out, incidentMarks(&incidents[i])...)
	}
	kinds := []string{incident.EventNodeStarted, incident.EventNodeStopped}
	nodes, err3 := m.events.Events(ctx, kinds, from, to, history.MaxMarks)
	for _, e := range nodes {
		out = append(out, history.Mark{At: e.At, Kind: history.MarkNode, Node: e.Node,
			Text: "node " + e.Node + " " + strings.TrimPrefix(e.Kind, "node_")})
	}
	out = slices.DeleteFunc(out, func(mark history.Mark) bool { return !mark.Overlaps(from, to) })
	slices.SortStableFunc(out, func(a, b history.Mark) int { return a.At.Compare(b.At) })
	return newest(out, from), errors.Join(err, err2, err3)
}

// newest are the newest MaxMarks of marks, oldest first, and incidents that began before the time from.
func newest(all []history.Mark, from time.Time) []history.Mark {
	early := slices.IndexFunc(all, func(mark history.Mark) bool { return !mark.At.Before(from) })
	if more := len(all) - history.MaxMarks; more > 0 && early >= 0 {
		all = slices.Delete(all, early, min(early+more, len(all)))
	}
	return all[max(0, len(all)-history.MaxMarks):]
}

// incidentMarks returns the marks of the begin and the end of an incident.
func incidentMarks(i *incident.Incident) []history.Mark {
	begin := history.Mark{At: i.Begin, Kind: history.MarkBreaker, Node: i.Node, Incident: true, Until: i.End}
	if i.Lost {
		begin.Until = i.Updated
	}
	end := history.Mark{At: i.End, Kind: history.MarkBreaker, Node: i.Node}
	switch i.Kind {
	case incident.Breaker:
		begin.Text, end.Text = "breaker of "+i.Server+" opened", "breaker of "+i.Server+" closed"
	case incident.Database:
		begin.Text, end.Text = "rules database unavailable", "rules database available"
	case incident.Regions:
		begin.Text, end.Text = "cut off from "+i.Server, "heard from "+i.Server+" again"
	case incident.Starved:
		begin.Text, end.Text = "node "+i.Node+" lacked CPU", "node "+i.Node+" had enough CPU again"
	default:
		begin.Text, end.Text = "fail modes decide some requests", "fail modes decide no requests any more"
	}
	if i.Cause != "" {
		begin.Text += ": " + i.Cause
	}
	if n := len(i.Nodes); n > 1 {
		begin.Text += fmt.Sprintf(" (%s nodes)", quantity.Amount(int64(n)))
	}
	if i.End.IsZero() || i.Stopped { // the node's own mark says so
		return []history.Mark{begin}
	}
	return []history.Mark{begin, end}
}

// ofChanges are the marks of changes of a rule, or of all rules, newest first.
func (m *marks) ofChanges(ctx context.Context, rule string, from, to time.Time) (out []history.Mark, err error) {
	q := audit.Query{SubjectKind: "rule", Since: from, Until: to, Limit: auditPage}
	if rule != "" {
		switch r, err := m.changes.GetRuleByName(ctx, rule); {
		case err == nil:
			q.SubjectID = r.ID // changes under an earlier name count
		case errors.Is(err, rules.ErrNotFound):
			q.Subject = rule
		default:
			return nil, err
		}
	}
	for range auditPages {
		page, err := m.changes.ListAudit(ctx, q)
		if err != nil {
			return out, err
		}
		for i := range page {
			e := &page[i]
			if q.Subject != "" && !isNamed(e, rule) || e.OfOverride() || e.Action == "reset" || e.Action == "drop" {
				continue
			}
			mark := changeMark(e)
			if e.SubjectKind == audit.SubjectBulk {
				ofBulk(&mark, e, rule, q.SubjectID)
			}
			out = append(out, mark)
		}
		if len(page) < auditPage || len(out) >= history.MaxMarks {
			break
		}
		q.BeforeID = page[len(page)-1].ID
	}
	return out, m.unlinkDeleted(ctx, out)
}

// unlinkDeleted takes the id from marks of rules that are deleted by now: they have no page.
func (m *marks) unlinkDeleted(ctx context.Context, out []history.Mark) error {
	if len(out) == 0 {
		return nil
	}
	q := audit.Query{SubjectKind: "rule", Action: "delete", Since: out[len(out)-1].At, Limit: auditPage}
	for range auditPages {
		page, err := m.changes.ListAudit(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			for j := range out {
				if out[j].RuleID == page[i].SubjectID {
					out[j].RuleID = 0
				}
			}
		}
		if len(page) < auditPage {
			break
		}
		q.BeforeID = page[len(page)-1].ID
	}
	return nil
}

// changeMark is the mark of a change of a rule.
func changeMark(e *audit.Entry) history.Mark {
	mark := history.Mark{At: e.At, Kind: history.MarkChange, Rule: e.SubjectName, RuleID: e.SubjectID,
		Version: e.Version(), Who: e.Actor.Name, Why: e.Reason()} // entries about several rows have no version
	changes := e.Changes()
	i := slices.IndexFunc(changes, func(c field.Change) bool { return c.Field == "fail_mode" })
	if i >= 0 && e.Action != "create" && e.Action != "delete" {
		mark.Kind = history.MarkFailMode
		changes = append([]field.Change{changes[i]}, slices.Delete(slices.Clone(changes), i, i+1)...)
	}
	mark.Text = changeText(e.Action, changes)
	if mark.Version > 0 {
		mark.Text = fmt.Sprintf("version %d: %s", mark.Version, mark.Text)
	}
	return mark
}

// isNamed reports whether an entry is about a rule of a name, or lists one.
func isNamed(e *audit.Entry, rule string) bool {
	return e.SubjectName == rule ||
		slices.ContainsFunc(e.Bulk().Listed, func(r audit.BulkRule) bool { return r.Name == rule })
}

// ofBulk completes the mark of a bulk edit. On the chart of one rule it is a mark of that rule. It has the version that
// the edit made, if the entry lists the rule. On the chart of all rules it leads to no rule.
func ofBulk(mark *history.Mark, e *audit.Entry, rule string, id int64) {
	mark.RuleID = id
	if rule == "" {
		mark.Text = "bulk edit: " + mark.Text
		return
	}
	mark.Rule, mark.Text = rule, fmt.Sprintf("bulk edit of %s: %s", e.SubjectName, mark.Text)
	listed := e.Bulk().Listed
	if i := slices.IndexFunc(listed, func(r audit.BulkRule) bool { return r.ID == id }); i >= 0 {
		mark.Version = listed[i].Version
		mark.Text = fmt.Sprintf("version %d: %s", mark.Version, mark.Text)
	}
}

// changeText says in a line what a change did.
func changeText(action string, changes []field.Change) string {
	switch action {
	case "create":
		return "created"
	case "delete":
		return "deleted"
	}
	var parts []string
	for i, c := range changes {
		if i == maxMarkFields {
			parts = append(parts, fmt.Sprintf("%d more", len(changes)-i))
			break
		}
		parts = append(parts, strings.ReplaceAll(c.Field, "_", " ")+" "+valueText(c.Old)+" to "+valueText(c.New))
	}
	text := strings.Join(parts, ", ")
	switch {
	case action == "update" && text != "":
		return text
	case text == "":
		return strings.ReplaceAll(action, "_", " ")
	}
	return strings.ReplaceAll(action, "_", " ") + ": " + text
}

func valueText(v any) string {
	text := field.JSONText(v)
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		text = v
	}
	if all := []rune(text); len(all) > maxMarkValue {
		return string(all[:maxMarkValue]) + "…"
	}
	return text
}

var _ history.MarkSource = (*marks)(nil)
