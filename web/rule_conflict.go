package web

import (
	"encoding/json"
	"net/http"
	"reflect"

	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/view"
)

// conflict shows how the stored rule and what was to be saved differ, field by
// field, to choose from. Nothing is overwritten.
func (s *Server) conflict(v *visit, d *draft, ours *rules.Rule) error {
	theirs, err := s.deps.Writer.GetRule(v.ctx, d.id)
	if err != nil {
		return s.notSaved(v, d, err)
	}
	text, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	m := view.Conflict{ID: d.id, Theirs: &theirs, Ours: string(text), Reason: d.form.Get("reason"), YAML: string(rulefile.FormatDraft(ours))}
	base := s.versionOf(v, &theirs, d.version, &m.By)
	for _, c := range rules.Diff(&theirs, ours) {
		f := view.ConflictField{Field: c.Field, Theirs: c.Old, Ours: c.New}
		if base != nil {
			f.OnlyOurs, f.OnlyTheirs = !differ(base, &theirs, c.Field), !differ(base, ours, c.Field)
		}
		m.Fields = append(m.Fields, f)
	}
	return v.page(http.StatusConflict, view.ConflictPage(v.frame("Changed meanwhile", pathRules), m))
}

// versionOf finds the version from which an edit began, nil if it cannot be
// read, and who made the present one.
func (s *Server) versionOf(v *visit, theirs *rules.Rule, version int64, by *rules.Actor) *rules.Rule {
	if last, err := s.deps.History.RuleHistory(v.ctx, theirs.ID, 1, 0); err == nil && len(last) == 1 {
		*by = last[0].Actor
	}
	if version < 1 {
		return nil
	}
	was, err := s.deps.History.RuleHistory(v.ctx, theirs.ID, 1, version+1)
	if err != nil || len(was) == 0 || was[0].Version != version {
		return nil
	}
	return &was[0].Rule
}

// differ reports whether two rules differ in a field.
func differ(a, b *rules.Rule, field string) bool {
	for _, c := range rules.Diff(a, b) {
		if c.Field == field {
			return !reflect.DeepEqual(c.Old, c.New)
		}
	}
	return false
}

// mergeRule saves what was chosen after a conflict, over the version that the
// choice was made from.
func (s *Server) mergeRule(v *visit, d *draft) error {
	var ours rules.Rule
	if err := json.Unmarshal([]byte(d.form.Get("ours")), &ours); err != nil {
		return &problem{http.StatusBadRequest, "Not a form", "What was sent is not what the page had. Open the rule and edit it again."}
	}
	ours.Normalize()
	theirs, err := s.deps.Writer.GetRule(v.ctx, d.id)
	if err != nil {
		d.form = d.keep(valuesOf(&ours))
		return s.notSaved(v, d, err)
	}
	if theirs.Version != d.version {
		return s.conflict(v, d, &ours)
	}
	var taken []string
	for _, c := range rules.Diff(&theirs, &ours) {
		if d.form.Get("take."+c.Field) == "ours" {
			taken = append(taken, c.Field)
		}
	}
	merged, err := rules.Merge(&theirs, &ours, taken)
	if err != nil {
		return err
	}
	merged.Normalize()
	d.form, d.name = d.keep(valuesOf(&merged)), theirs.Name
	if d.errs = placed(d.form, fieldsOf(rules.Validate(&merged))); len(d.errs) > 0 {
		d.problem = "What was chosen does not go together. Put it right here; it is based on the newest version."
		return s.editor(v, http.StatusUnprocessableEntity, d)
	}
	if len(rules.Diff(&theirs, &merged)) == 0 {
		v.flash("%s stays as it is stored.", theirs.Name)
		return v.redirect(rulePath(theirs.ID))
	}
	return s.store(v, d, &merged)
}
