package view

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/internal/audit"
	"sluice/rules"
)

// AuditList is the page of the audit log.
type AuditList struct {
	Entries []audit.Entry
	Query   Query
	// Older is the id before which the next page begins, 0 if there is none.
	Older int64
	// Zone is the time zone whose days the filters mean.
	Zone string
	// Newest: the page begins with the newest change.
	Newest bool
}

func auditChoices(first string, names []string) []Choice {
	out := []Choice{{"", first}}
	for _, n := range names {
		out = append(out, Choice{n, strings.ReplaceAll(n, "_", " ")})
	}
	return out
}

func actionKind(action string) string {
	switch action {
	case "delete", "revoke", "disable", "override_delete":
		return "bad"
	case "create", "enable", "override_create":
		return "good"
	case "rollback", "promote", "reset", "sign_out":
		return "warn"
	}
	return "info"
}

// subjectLink leads to what an entry is about, "" if that has no page.
func subjectLink(e *audit.Entry) string {
	switch {
	case e.SubjectID == 0: // several rows at once, changed in the database by hand
		return ""
	case e.SubjectKind == "user":
		return fmt.Sprintf("/console/people/%d", e.SubjectID)
	case e.SubjectKind == "rule" && e.Action != "delete":
		return fmt.Sprintf("/console/rules/%d", e.SubjectID)
	case e.SubjectKind == "token":
		return "/console/tokens"
	}
	return ""
}

// detail is one thing that an entry without field changes tells.
type detail struct {
	Name  string
	Value any
}

// detailsOf are what an entry tells beside field changes, in order of name.
func detailsOf(e *audit.Entry) []detail {
	var d map[string]any
	if json.Unmarshal(e.Details, &d) != nil {
		return nil
	}
	var out []detail
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if name == "changes" || d[name] == nil {
			continue
		}
		value := d[name]
		if list, ok := value.([]any); ok {
			value = strings.Trim(fmt.Sprint(list), "[]")
		}
		out = append(out, detail{strings.ReplaceAll(name, "_", " "), value})
	}
	return out
}

// download is where what the filters select is sent as a file.
func (m AuditList) download(format string) string {
	q := m.Query.With("format", format)
	return strings.Replace(q, m.Query.Path(), m.Query.Path()+"/download", 1)
}

// maxNames is how many fields a line names.
const maxNames = 4

func fieldNames(changes []rules.Change) string {
	var names []string
	for _, c := range changes[:min(len(changes), maxNames)] {
		names = append(names, c.Field)
	}
	if len(changes) > maxNames {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
