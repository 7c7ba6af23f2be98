package rulepage

import (
	"strings"
	"time"

	"sluice/internal/doctor"
	"sluice/internal/history"
	"sluice/web/kit"
	"sluice/web/view"
)

// examine is the doctor's report about a rule in force, nil if it is not in force or if the report cannot be made.
func (p *Pages) examine(v *kit.Visit, m *Page) *doctor.Report {
	if m.Set == nil || m.Set.Get(m.Rule.ID) == nil {
		return nil
	}
	d := doctor.Doctor{Stats: p.Stats, Overrides: p.Overrides, Past: p.Rules, Set: m.Set, Now: p.Now()}
	found, err := d.Rule(v.Ctx, &m.Rule)
	if p.logFigures(&m.Rule, err); err != nil {
		return nil
	}
	return &found
}

// linkWords is what the link of a finding leads to, "" if it leads to the page itself, or to one that only editors may
// see.
func linkWords(f *doctor.Finding, canEdit bool) string {
	path, _, _ := strings.Cut(f.Link, "?")
	switch {
	case strings.HasPrefix(path, kit.PathTraffic):
		return "Traffic by key"
	case strings.HasSuffix(path, "/overrides"):
		return "Overrides"
	case strings.HasSuffix(path, "/edit") && canEdit:
		return "Edit"
	case strings.HasSuffix(path, "/rollback") && canEdit:
		return "Roll back"
	case strings.HasSuffix(path, "/turn") && canEdit:
		return "Promote"
	}
	return ""
}

// calmWords say what was examined of a rule about which there is no finding.
func calmWords(r *doctor.Report, now time.Time) string {
	if now.Sub(r.Same) > history.Day {
		return "Nothing remarkable. "
	}
	seen := view.Count(r.Seen.Denied) + " of " + view.Plural(r.Seen.Requests, "request") + " denied in whole minutes"
	if r.Seen.Requests == 0 {
		seen = "no request"
	}
	if r.Seen.Requests < doctor.Enough {
		return "Little is known since the last edit that changes decisions: " + seen + ". "
	}
	return "Nothing remarkable since the last edit that changes decisions: " + seen + ". "
}
