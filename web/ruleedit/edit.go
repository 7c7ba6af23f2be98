package ruleedit

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"sluice/deploy"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/rulefile"
	"sluice/web/bind"
	"sluice/web/kit"
	"sluice/web/view"
)

// newRule shows the editor with the defaults of a new rule, or with those of a template.
func (p *Pages) newRule(v *kit.Visit) error {
	form := url.Values{
		kindField: {kindFacts}, "is_active": {"on"}, "window_ms": {"1"}, "window_ms" + bind.UnitSuffix: {"minute"},
		"algorithm":  {"sliding_window_counter"},
		"over_limit": {rules.OverLimitDeny}, "mode": {rules.ModeEnforce}, "fail_mode": {rules.FailOpen},
	}
	if len(p.FailDefaults) > 0 {
		form.Del("fail_mode")
	}
	if name := v.QueryParam("template"); name != "" {
		r, err := template(name)
		if err != nil {
			return err
		}
		form.Del("window_ms") // a rule with a calendar has none
		for field, values := range valuesOf(&r) {
			if len(values) > 0 && values[0] != "" {
				form[field] = values
			}
		}
	}
	return p.editor(v, http.StatusOK, &draft{form: form})
}

// template is the rule of a view.Template, without the pool that its recipe may have.
func template(name string) (rules.Rule, error) {
	i := slices.IndexFunc(view.Templates, func(t view.Template) bool { return t.Rule == name })
	if i < 0 {
		return rules.Rule{}, kit.ErrMissing
	}
	text, err := deploy.Recipes.ReadFile("recipes/" + view.Templates[i].File)
	if err != nil {
		return rules.Rule{}, err
	}
	file, err := rulefile.Parse(text)
	if err != nil {
		return rules.Rule{}, err
	}
	for i := range file.Rules {
		if r := &file.Rules[i]; r.Name == name {
			return *r, nil
		}
	}
	return rules.Rule{}, fmt.Errorf("the recipe has no rule %s", name)
}

// editRule shows the editor with a stored rule.
func (p *Pages) editRule(v *kit.Visit, r rules.Rule) error {
	return p.editor(v, http.StatusOK, &draft{form: valuesOf(&r), id: r.ID, version: r.Version, name: r.Name})
}

// draft is a rule in the editor.
type draft struct {
	form url.Values
	// id and version are of the edited rule, 0 for a new one; name is its stored name, "" if it was not read.
	id, version int64
	name        string
	errs        []field.Problem
	problem     string
	// extra is the list of the form that gets more empty rows.
	extra string
}

// draftOf reads the posted form, without empty rows of its lists.
func draftOf(v *kit.Visit) (*draft, error) {
	form, err := v.Form()
	if err != nil {
		return nil, err
	}
	d := &draft{form: compact(form)}
	d.id, _ = strconv.ParseInt(form.Get("id"), 10, 64)           // 0 is a new rule
	d.version, _ = strconv.ParseInt(form.Get("version"), 10, 64) // 0 is stale
	return d, nil
}

// keep copies the fields that are not part of the rule to another form.
func (d *draft) keep(form url.Values) url.Values {
	for _, name := range []string{"preview.shape", "preview.load", clientsField, "replay.range", "reason"} {
		bind.PutText(form, name, d.form.Get(name))
	}
	return form
}

func (d *draft) asYAML() bool { return d.form.Get("as") == "yaml" }

// rule reads the rule from the form; nil if it has errors, which are then in d.
func (d *draft) rule() *rules.Rule {
	if d.asYAML() {
		return d.fromYAML()
	}
	r, errs := ruleOf(d.form)
	known := map[string]bool{}
	for _, e := range errs {
		known[e.Field] = true
	}
	bad := kit.FieldsOf(rules.Validate(&r))
	if d.id == 0 { // a stored rule is checked where it is saved
		bad = append(bad, kit.FieldsOf(rules.CheckPatterns(nil, &r))...)
	}
	for _, e := range bad {
		if !known[e.Field] {
			errs = append(errs, e)
		}
	}
	if d.errs = toFormNames(d.form, errs); len(errs) > 0 {
		return nil
	}
	return &r
}

// fromYAML reads the text of the YAML tab.
func (d *draft) fromYAML() *rules.Rule {
	f, err := rulefile.Parse([]byte(d.form.Get("yaml")))
	switch {
	case err != nil:
		d.errs = kit.FieldsOf(err)
	case len(f.Rules) != 1 || len(f.Pools) > 0:
		d.errs = []field.Problem{{Field: "yaml", Message: "must contain exactly one rule and nothing else"}}
	default:
		return &f.Rules[0]
	}
	for i := range d.errs {
		d.errs[i].Message = trimLine(d.errs[i].Field) + d.errs[i].Message
		d.errs[i].Field = "yaml"
	}
	return nil
}

// editor answers with the editor page.
func (p *Pages) editor(v *kit.Visit, status int, d *draft) error {
	title := "New rule"
	if d.id != 0 {
		title = "Edit " + d.form.Get("name")
		if d.name != "" {
			title = "Edit " + d.name
		} else if d.asYAML() {
			title = "Edit a rule"
		}
	}
	form := view.NewForm(d.form, d.errs)
	m := Editor{
		Form: form, ID: d.id, Version: d.version, Name: d.name, YAML: d.asYAML(),
		Problem: d.problem, Problems: d.errs, CanEdit: v.User.Role.Includes(access.RoleEditor),
		TierRows: rows(d, "tiers", rules.MaxTiers), WindowRows: rows(d, "schedule.windows", rules.MaxScheduleWindows),
		Preview: p.preview(v, d), Replay: p.Replay.Card(form),
	}
	if !m.YAML {
		m.Clients = p.clients(v, d)
	}
	m.FailDefault = d.id == 0 && len(p.FailDefaults) > 0
	if m.Name == "" {
		m.Name = "this rule"
	}
	if set := p.Sets.Load(); set != nil {
		for _, pool := range set.Pools() {
			m.Pools = append(m.Pools, pool.Pool.Name)
		}
	}
	return v.Page(status, editorPage(v.Frame(title, kit.PathRules), m))
}

// spareRows is how many empty rows a list gets on request.
const spareRows = 2

func rows(d *draft, list string, most int) int {
	n := rowCount(d.form, list, most) + 1
	if d.extra == list {
		n += spareRows
	}
	return min(n, most)
}

// Editor is the editor page.
type Editor struct {
	Form view.Form
	// ID and Version are of the edited rule, 0 for a new one. Name is its stored name.
	ID, Version int64
	Name        string
	// YAML means that the rule is edited as text, which is in the field yaml of the form.
	YAML bool
	// Problem is an error of the form as a whole, Problems are errors of fields.
	Problem  string
	Problems []field.Problem
	// FailDefault means that the rule is new and this node has fail modes for such rules.
	FailDefault bool
	// Pools are the suggested names of pools.
	Pools []string
	// TierRows and WindowRows are how many rows the lists have.
	TierRows, WindowRows int
	Preview              RulePreview
	// Clients compare the limit with the traffic; nil for YAML.
	Clients *Clients
	// Replay is the card that starts a replay.
	Replay templ.Component
	// CanEdit means that the viewer may save the form.
	CanEdit bool
}

func (m *Editor) failModes() []view.Choice {
	choices := []view.Choice{{"open", "Open: all requests pass"}, {"closed", "Closed: all requests are denied"},
		{"local", "Local: each node enforces its share"}}
	if m.FailDefault {
		choices = slices.Insert(choices, 0, view.Choice{"", "By method and route, as this server is set up"})
	}
	return choices
}

// row is the name of a field in a row of a list.
func row(list string, i int, field string) string { return element(list, i) + "." + field }

func number(n int64) string { return view.Digits(n) }

// action is the address that the form is sent to.
func (m *Editor) action() string {
	if m.ID == 0 {
		return "/console/rules"
	}
	return view.RulePath(m.ID)
}

// algorithmChoices are the options of the field for the algorithm, starting with the default.
func algorithmChoices() []view.Choice {
	choices := []view.Choice{{limiter.DefaultAlgorithm.String(), limiter.DefaultAlgorithm.Traits().Title + " (default)"}}
	for _, a := range limiter.Algorithms() {
		if a != limiter.DefaultAlgorithm {
			choices = append(choices, view.Choice{a.String(), a.Traits().Title})
		}
	}
	return choices
}

// candidateAlgorithms are the options for a candidate, which cannot have all algorithms.
func candidateAlgorithms() []view.Choice {
	choices := []view.Choice{{"", "Same as the rule"}}
	for _, c := range algorithmChoices() {
		if a, _ := limiter.ParseAlgorithm(c.Value()); !a.Traits().Slots {
			choices = append(choices, c)
		}
	}
	return choices
}

var dayChoices = []view.Choice{{"mon", "Mon"}, {"tue", "Tue"}, {"wed", "Wed"}, {"thu", "Thu"}, {"fri", "Fri"},
	{"sat", "Sat"}, {"sun", "Sun"}}

var alignChoices = []view.Choice{{"", "Default"}, {"calendar", "By the calendar"},
	{"first_hit", "With the first request"}}
