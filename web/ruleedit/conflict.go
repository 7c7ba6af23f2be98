package ruleedit

import (
	"encoding/json"
	"net/http"
	"reflect"

	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/kit"
	"sluice/web/view"
)

// conflict shows the fields in which the stored rule and the edited one differ, to choose from. Nothing is overwritten.
func (p *Pages) conflict(v *kit.Visit, d *draft, ours *rules.Rule) error {
	theirs, err := p.Rules.GetRule(v.Ctx, d.id)
	if err != nil {
		return p.notSaved(v, d, err)
	}
	text, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	m := Conflict{ID: d.id, Theirs: &theirs, Ours: string(text), Reason: d.form.Get("reason"),
		YAML: string(rulefile.FormatDraft(ours))}
	base := p.versionOf(v, &theirs, d.version, &m.By)
	for _, c := range rules.Diff(&theirs, ours) {
		f := ConflictField{Field: c.Field, Theirs: c.Old, Ours: c.New}
		if base != nil {
			f.OnlyOurs, f.OnlyTheirs = !differ(base, &theirs, c.Field), !differ(base, ours, c.Field)
		}
		m.Fields = append(m.Fields, f)
	}
	return v.Page(http.StatusConflict, conflictPage(v.Frame("Changed in the meantime", kit.PathRules), m))
}

// versionOf returns the version that an edit started from, nil if it cannot be read, and sets by to the editor of the
// current one.
func (p *Pages) versionOf(v *kit.Visit, theirs *rules.Rule, version int64, by *rules.Actor) *rules.Rule {
	if last, err := p.Rules.RuleHistory(v.Ctx, theirs.ID, 1, 0); err == nil && len(last) == 1 {
		*by = last[0].Actor
	}
	if version < 1 {
		return nil
	}
	was, err := v.Revision(theirs.ID, version)
	if err != nil {
		return nil
	}
	return &was.Rule
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

// mergeRule saves the values chosen after a conflict, unless the rule has changed again since.
func (p *Pages) mergeRule(v *kit.Visit, d *draft) error {
	var ours rules.Rule
	if err := json.Unmarshal([]byte(d.form.Get("ours")), &ours); err != nil {
		return &kit.Problem{Status: http.StatusBadRequest, Title: "Invalid form",
			Detail: "The form does not match the page. Open the rule and edit it again."}
	}
	ours.Normalize()
	theirs, err := p.Rules.GetRule(v.Ctx, d.id)
	if err != nil {
		d.form = d.keep(valuesOf(&ours))
		return p.notSaved(v, d, err)
	}
	if theirs.Version != d.version {
		return p.conflict(v, d, &ours)
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
	if d.errs = toFormNames(d.form, kit.FieldsOf(rules.Validate(&merged))); len(d.errs) > 0 {
		d.problem = "The chosen values do not fit together. Correct them here; the form is based on the newest version."
		return p.editor(v, http.StatusUnprocessableEntity, d)
	}
	if len(rules.Diff(&theirs, &merged)) == 0 {
		v.Flash("Rule %q was not changed.", theirs.Name)
		return v.SeeOther(view.RulePath(theirs.ID))
	}
	return p.store(v, d, &merged)
}

// Conflict is the page of two people's edits of a rule.
type Conflict struct {
	ID int64
	// Theirs is the stored version, By its editor if known.
	Theirs *rules.Rule
	By     rules.Actor
	Fields []ConflictField
	// Ours is the edited rule as JSON, in a hidden field.
	Ours string
	// YAML is the edited rule for people, Reason the reason for the edit.
	YAML    string
	Reason  string
	Problem string
}

// ConflictField is a field that differs. OnlyOurs means that only we changed it, OnlyTheirs that only they did. If both
// are false, both changed it, or it is unknown, and the person has to choose.
type ConflictField struct {
	Field                string
	Theirs, Ours         any
	OnlyOurs, OnlyTheirs bool
}

// whose is a side of a conflict as people read it.
func whose(side string) string {
	if side == "ours" {
		return "yours"
	}
	return side
}

// jsonWords writes a value of a field: simple values like view.DiffText, others as JSON.
func jsonWords(v any) string {
	switch v.(type) {
	case string, bool, int64, float64:
		return view.DiffText(v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return view.DiffText(v)
	}
	return string(text)
}
