package kit

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"sluice/rules"
	"sluice/rules/field"
)

// RuleStore stores rules. ifVersion is the version that the page showed, 0 for any.
// Errors wrap rules.ErrNotFound, ErrNameTaken, ErrStale or ErrUnavailable, or are a
// *field.ValidationError.
type RuleStore interface {
	BrowseRules(ctx context.Context, b rules.Browse) (rules.Listing, error)
	GetRule(ctx context.Context, id int64) (rules.Rule, error)
	CreateRule(ctx context.Context, actor rules.Actor, r rules.Rule) (rules.Rule, error)
	UpdateRule(ctx context.Context, actor rules.Actor, r rules.Rule, ifVersion int64) (rules.Rule, error)
	DeleteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) error
	// EditRules edits many rules. It skips rules that have changed since they were seen.
	EditRules(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion,
		edit func(*rules.Rule)) (rules.BulkResult, error)
	// UndoBulk reverts an edit of many rules, except for rules that have changed since. PlanUndo returns what it would do
	// now, with a sample of up to most rules.
	UndoBulk(ctx context.Context, actor rules.Actor, bulk int64) (rules.BulkResult, error)
	PlanUndo(ctx context.Context, bulk int64, most int) (rules.UndoPlan, error)
	// DeleteRules deletes many rules. It skips rules that have changed since they were seen.
	DeleteRules(ctx context.Context, actor rules.Actor, seen []rules.SeenVersion) (rules.BulkResult, error)
	// RuleHistory returns the versions of a rule before a version (0 for all), newest first.
	RuleHistory(ctx context.Context, id int64, limit int, before int64) ([]rules.Revision, error)
	// RollbackRule makes an earlier version of a rule the current one. PromoteRule enforces its candidate or, for a
	// shadow rule, the rule itself.
	RollbackRule(ctx context.Context, actor rules.Actor, id, toVersion, ifVersion int64) (rules.Rule, error)
	PromoteRule(ctx context.Context, actor rules.Actor, id, ifVersion int64) (rules.Rule, error)
}

// PathRule is the page of a rule, in the notation of Echo.
const PathRule = PathRules + "/:id"

// Rule is the rule of the path.
func (v *Visit) Rule() (rules.Rule, error) {
	id, err := v.ID("id")
	if err != nil {
		return rules.Rule{}, err
	}
	return v.kit.Rules.GetRule(v.Ctx, id)
}

// WithRule wraps an action that needs the rule in the path.
func WithRule(act func(*Visit, rules.Rule) error) func(*Visit) error {
	return func(v *Visit) error {
		r, err := v.Rule()
		if err != nil {
			return err
		}
		return act(v, r)
	}
}

// OnRule wraps an action that needs the rule's ID and the posted form.
func OnRule(act func(v *Visit, id int64, form url.Values) error) func(*Visit) error {
	return func(v *Visit) error {
		id, err := v.ID("id")
		if err != nil {
			return err
		}
		return Posted(func(v *Visit, form url.Values) error { return act(v, id, form) })(v)
	}
}

// AfterChange answers after an action on a rule that returned err: it redirects to a page with a message, or shows what
// someone else changed in the meantime.
func (v *Visit) AfterChange(id int64, form url.Values, err error, page, done string, args ...any) error {
	if errors.Is(err, rules.ErrStale) {
		return v.ruleConflict(id, form)
	}
	if err != nil {
		return err
	}
	v.WaitInForce(v.kit.Changed)
	v.Flash(done, args...)
	return v.SeeOther(page)
}

// ruleConflict shows what someone else changed in a rule after the page was loaded, and offers the action again.
// Nothing was changed.
func (v *Visit) ruleConflict(id int64, form url.Values) error {
	now, err := v.kit.Rules.GetRule(v.Ctx, id)
	if err != nil {
		return err
	}
	m := ruleConflict{Rule: now, Action: v.Request().URL.Path, Form: url.Values{}}
	for name, values := range form {
		m.Form[name] = values
	}
	m.Form.Del("version")
	past, err := v.kit.Rules.RuleHistory(v.Ctx, id, 1, 0)
	if err != nil {
		return err
	}
	if len(past) > 0 {
		m.By, m.At = past[0].Actor.Name, past[0].At
	}
	if seen := Version(form); seen > 0 {
		if then, err := v.Revision(id, seen); err == nil {
			m.Changes = rules.Diff(&then.Rule, &now)
		}
	}
	return v.Page(http.StatusConflict, ruleConflictPage(v.Frame("Changed in the meantime", PathRules), m))
}

// Revision returns a version of a rule.
func (v *Visit) Revision(id, version int64) (rules.Revision, error) {
	past, err := v.kit.Rules.RuleHistory(v.Ctx, id, 1, version+1)
	if err != nil {
		return rules.Revision{}, err
	}
	if len(past) == 0 || past[0].Version != version {
		return rules.Revision{}, rules.ErrNotFound
	}
	return past[0], nil
}

// ruleConflict is an action on a rule that someone else changed in the meantime.
type ruleConflict struct {
	Rule rules.Rule
	By   string
	At   time.Time
	// Changes are the changes since the page was loaded.
	Changes []field.Change
	// Action and Form are the requested action.
	Action string
	Form   url.Values
}
