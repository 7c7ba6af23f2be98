package rulepage

import (
	"strings"

	"sluice/internal/doctor"
	"sluice/web/kit"
)

// examine is the doctor's report about a rule in force, nil if it is not in force or if the report cannot be made.
func (p *Pages) examine(v *kit.Visit, m *Page) *doctor.Report {
	if m.Set == nil || m.Set.Get(m.Rule.ID) == nil {
		return nil
	}
	d := doctor.Doctor{Stats: p.Stats, Overrides: p.Overrides, Set: m.Set, Now: p.Now()}
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
	case strings.HasSuffix(path, "/turn") && canEdit:
		return "Promote"
	}
	return ""
}
