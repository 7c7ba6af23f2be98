package rulelist

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/kit"
)

// bulkAct is an action for several rules at once.
type bulkAct struct {
	name string
	// done is the state of a rule afterwards, ask the question with a place for the rules.
	done, ask string
	// edit changes a rule; nil for deletions.
	edit func(*rules.Rule)
	// with are the form's values that belong to the action.
	with url.Values
}

// The actions that are not edits.
const (
	actDelete = "delete"
	actExport = "export"
)

// plainActs are the actions that need no values.
var plainActs = []bulkAct{
	{name: "on", done: "enabled", ask: "Enable %s", edit: func(r *rules.Rule) { r.IsActive = true }},
	{name: "off", done: "disabled", ask: "Disable %s", edit: func(r *rules.Rule) { r.IsActive = false }},
	{name: "enforce", done: "enforced", ask: "Enforce %s", edit: func(r *rules.Rule) { r.Mode = rules.ModeEnforce }},
	{name: "shadow", done: "in shadow mode", ask: "Switch %s to shadow mode",
		edit: func(r *rules.Rule) { r.Mode = rules.ModeShadow }},
	{name: actDelete, done: "deleted", ask: "Delete %s"},
}

// bulkActOf is the action that a form asks for, nil for none. The error is a *kit.Problem that names an invalid field.
func bulkActOf(form url.Values) (*bulkAct, error) {
	name := form.Get("act")
	if i := slices.IndexFunc(plainActs, func(a bulkAct) bool { return a.name == name }); i >= 0 {
		return &plainActs[i], nil
	}
	switch name {
	case "fail_mode":
		mode := form.Get("to_fail_mode")
		if f := rules.FieldNamed("fail_mode"); !slices.Contains(f.OneOf, mode) {
			return nil, invalidBulk("Fail mode", "choose one of "+strings.Join(f.OneOf, ", ")+".")
		}
		return &bulkAct{name: name, done: "in fail mode " + mode, ask: "Set the fail mode of %s to " + mode,
			edit: func(r *rules.Rule) { r.FailMode = mode }, with: url.Values{"to_fail_mode": {mode}}}, nil
	case "owner":
		return ownerAct(strings.TrimSpace(form.Get("to_owner")))
	}
	return nil, nil //nolint:nilnil // no action is no error: the list says that nothing was selected
}

// ownerAct gives rules an owner, or none.
func ownerAct(owner string) (*bulkAct, error) {
	act := &bulkAct{name: "owner", done: "without an owner", ask: "Remove the owner of %s",
		edit: func(r *rules.Rule) { r.Owner = nil }, with: url.Values{"to_owner": {owner}}}
	if owner == "" {
		return act, nil
	}
	sample := rules.Rule{Owner: &owner}
	var invalid *field.ValidationError
	if errors.As(rules.Validate(&sample), &invalid) {
		for _, f := range invalid.Fields {
			if f.Field == "owner" {
				return nil, invalidBulk("Owner", f.Message+".")
			}
		}
	}
	act.done, act.ask = "owned by "+owner, "Set the owner of %s to "+strings.ReplaceAll(owner, "%", "%%")
	act.edit = func(r *rules.Rule) { r.Owner = new(owner) }
	return act, nil
}

func invalidBulk(field, message string) error {
	return &kit.Problem{Status: http.StatusUnprocessableEntity, Title: "Nothing was changed",
		Detail: fmt.Sprintf("%s: %s Go back in the browser to correct it.", field, message)}
}
