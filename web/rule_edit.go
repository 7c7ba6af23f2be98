package web

import (
	"net/http"
	"net/url"
	"strconv"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/view"
)

// newRule shows the editor with the defaults of a new rule; with sample=1 it is
// one that works.
func (s *Server) newRule(v *visit) error {
	form := url.Values{
		"is_active": {"on"}, "window_ms": {"1"}, "window_ms" + unitSuffix: {"minute"}, "algorithm": {"sliding_window_counter"},
		"over_limit": {rules.OverLimitDeny}, "mode": {rules.ModeEnforce}, "fail_mode": {rules.FailOpen},
	}
	if v.QueryParam("sample") == "1" {
		for name, value := range map[string]string{"name": "charges-per-user", "scope": "user", "method": "POST", "route": "/v1/charges", "limit": "100"} {
			form.Set(name, value)
		}
	}
	return s.editor(v, http.StatusOK, &draft{form: form})
}

// editRule shows the editor with a rule as it is stored.
func (s *Server) editRule(v *visit) error {
	r, err := s.ruleNamed(v)
	if err != nil {
		return err
	}
	return s.editor(v, http.StatusOK, &draft{form: valuesOf(&r), id: r.ID, version: r.Version, name: r.Name})
}

// ruleNamed reads the rule of the path.
func (s *Server) ruleNamed(v *visit) (rules.Rule, error) {
	id, err := ruleID(v)
	if err != nil {
		return rules.Rule{}, err
	}
	return s.deps.Writer.GetRule(v.ctx, id)
}

// ruleID is the id of the path; what is no number is not there.
func ruleID(v *visit) (int64, error) {
	id, err := strconv.ParseInt(v.Param("id"), 10, 64)
	if err != nil || id < 1 {
		return 0, errMissing
	}
	return id, nil
}

// draft is a rule while someone writes it.
type draft struct {
	form url.Values
	// id and version are of the rule that is edited, 0 for a new one; name is how
	// it is called, "" if nobody has looked.
	id, version int64
	name        string
	errs        []rules.FieldError
	problem     string
	// extra is a list of the form that gets more empty rows.
	extra string
}

// draftOf is what was posted, its lists without empty rows.
func draftOf(v *visit) (*draft, error) {
	form, err := v.form()
	if err != nil {
		return nil, err
	}
	d := &draft{form: compact(form)}
	d.id, _ = strconv.ParseInt(form.Get("id"), 10, 64)           // what is no number is a new rule
	d.version, _ = strconv.ParseInt(form.Get("version"), 10, 64) // and no version, which is stale
	return d, nil
}

// keep carries over to another form what is not about the rule itself.
func (d *draft) keep(form url.Values) url.Values {
	for _, name := range []string{"preview.shape", "preview.load", "reason"} {
		put(form, name, d.form.Get(name))
	}
	return form
}

func (d *draft) asYAML() bool { return d.form.Get("as") == "yaml" }

// rule reads what was typed; nil if that has errors, which are then in d.
func (d *draft) rule() *rules.Rule {
	if d.asYAML() {
		return d.fromYAML()
	}
	r, errs := ruleOf(d.form)
	known := map[string]bool{}
	for _, e := range errs {
		known[e.Field] = true
	}
	bad := fieldsOf(rules.Validate(&r))
	if d.id == 0 { // that of a stored rule is known where it is saved
		bad = append(bad, fieldsOf(rules.CheckPatterns(nil, &r))...)
	}
	for _, e := range bad {
		if !known[e.Field] {
			errs = append(errs, e)
		}
	}
	if d.errs = placed(d.form, errs); len(errs) > 0 {
		return nil
	}
	return &r
}

// fromYAML reads the text of the YAML tab.
func (d *draft) fromYAML() *rules.Rule {
	f, err := rulefile.Parse([]byte(d.form.Get("yaml")))
	switch {
	case err != nil:
		d.errs = fieldsOf(err)
	case len(f.Rules) != 1 || len(f.Pools) > 0:
		d.errs = []rules.FieldError{{Field: "yaml", Message: "must hold one rule and nothing else"}}
	default:
		return &f.Rules[0]
	}
	for i := range d.errs {
		d.errs[i].Message = trimLine(d.errs[i].Field) + d.errs[i].Message
		d.errs[i].Field = "yaml"
	}
	return nil
}

// editor answers with the page on which a draft is written.
func (s *Server) editor(v *visit, status int, d *draft) error {
	title := "New rule"
	if d.id != 0 {
		title = "Edit " + d.form.Get("name")
		if d.name != "" {
			title = "Edit " + d.name
		} else if d.asYAML() {
			title = "Edit a rule"
		}
	}
	m := view.Editor{
		Form: view.NewForm(d.form, d.errs), ID: d.id, Version: d.version, Name: d.name, YAML: d.asYAML(),
		Problem: d.problem, Problems: d.errs, CanEdit: v.user.Role.Includes(access.RoleEditor),
		TierRows: rows(d, "tiers", rules.MaxTiers), WindowRows: rows(d, "schedule.windows", rules.MaxScheduleWindows),
		Preview: s.preview(v, d),
	}
	if m.Name == "" {
		m.Name = "this rule"
	}
	if set := s.deps.Sets.Load(); set != nil {
		for _, p := range set.Pools() {
			m.Pools = append(m.Pools, p.Pool.Name)
		}
	}
	return v.page(status, view.EditorPage(v.frame(title, pathRules), m))
}

// spareRows are how many empty rows a list shows, and gets more when asked.
const spareRows = 2

func rows(d *draft, list string, most int) int {
	n := rowCount(d.form, list, most) + 1
	if d.extra == list {
		n += spareRows
	}
	return min(n, most)
}
