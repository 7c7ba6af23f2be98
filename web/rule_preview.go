package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/rules/words"
	"sluice/web/view"
)

// previewedDenials is how many recent denials a rule is tried on.
const previewedDenials = 500

// previewRule shows what a draft would do, and carries it from the form to YAML
// and back. Nothing is saved. Scripts get the preview alone.
func (s *Server) previewRule(v *visit) error {
	d, err := draftOf(v)
	if err != nil {
		return err
	}
	if v.htmx() {
		return v.page(http.StatusOK, view.PreviewAnswer(s.preview(v, d), !d.asYAML()))
	}
	switch d.form.Get("do") {
	case "tier":
		d.extra = "tiers"
	case "window":
		d.extra = "schedule.windows"
	case "yaml":
		return s.toYAML(v, d)
	case "form":
		return s.toForm(v, d)
	}
	return s.editor(v, http.StatusOK, d)
}

// toYAML carries a form over to the text. What cannot be read stays a form.
func (s *Server) toYAML(v *visit, d *draft) error {
	if d.asYAML() {
		return s.editor(v, http.StatusOK, d)
	}
	r, errs := ruleOf(d.form)
	if slices.ContainsFunc(errs, func(e rules.FieldError) bool { return d.form.Get(e.Field) != "" }) {
		d.errs = placed(d.form, errs)
		return s.editor(v, http.StatusUnprocessableEntity, d)
	}
	d.form.Set("yaml", string(rulefile.FormatDraft(&r)))
	d.form.Set("as", "yaml")
	return s.editor(v, http.StatusOK, d)
}

// toForm carries the text over to a form. What cannot be read stays text.
func (s *Server) toForm(v *visit, d *draft) error {
	if !d.asYAML() {
		return s.editor(v, http.StatusOK, d)
	}
	r := d.fromYAML()
	if r == nil {
		return s.editor(v, http.StatusUnprocessableEntity, d)
	}
	d.form = d.keep(valuesOf(r))
	return s.editor(v, http.StatusOK, d)
}

// preview works out what a draft would do, as far as it can be read.
func (s *Server) preview(v *visit, d *draft) view.RulePreview {
	var m view.RulePreview
	var r rules.Rule
	if d.asYAML() {
		f, err := rulefile.Parse([]byte(d.form.Get("yaml")))
		if err != nil || len(f.Rules) != 1 {
			return m
		}
		r = f.Rules[0]
		m.Warnings = rules.Warnings(&r)
	} else {
		var errs []rules.FieldError
		r, errs = ruleOf(d.form)
		if m.Warnings = rules.Warnings(&r); slices.ContainsFunc(errs, func(e rules.FieldError) bool { return e.Field == "limit" || e.Field == "window_ms" }) {
			return m
		}
	}
	l, spare, err := previewLimit(&r, s.deps.Now())
	if err != nil || r.Scope == "" {
		return m
	}
	m.Summary = words.Summary(&r)
	load, err := strconv.ParseInt(d.form.Get("preview.load"), 10, 64)
	if err != nil || load < 1 || load > maxLoad {
		load = defaultLoad
	}
	shape := oneOf(d.form.Get("preview.shape"), shapeSteady, shapeBurst, shapeBoundary)
	name := r.Name
	if !plainName(name) {
		name = "rule"
	}
	headers := s.deps.Headers
	if m.Silent = r.Mode == rules.ModeShadow; m.Silent {
		headers = nil
	}
	if r.RetryJitterMS != nil {
		m.Jitter = *r.RetryJitterMS
	}
	p := simulate(l, spare, shape, load, s.deps.Now().UnixMilli(), headers, name)
	m.Limit = &p
	s.tryOnDenials(v, &r, &m)
	return m
}

// maxLoad is the most traffic of a preview, in percent of the limit.
const maxLoad = 1000

// plainName: headers carry names of rules as they are.
func plainName(name string) bool {
	return name != "" && len(name) <= rules.MaxName && !strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// placeholder stands for an API key, which is not kept with denials.
const placeholder = "not-kept"

// tryOnDenials finds the recent denials to which a rule would apply.
func (s *Server) tryOnDenials(v *visit, r *rules.Rule, m *view.RulePreview) {
	set := alone(r)
	if set == nil {
		m.Unmatched = "They are looked up when the form has no errors."
		return
	}
	if r.When != nil && (strings.Contains(*r.When, "fields") || strings.Contains(*r.When, "api_key")) {
		m.Unmatched = "The condition asks for what is not kept with denials."
		return
	}
	if rules.SizePatterns(r.When).Largest > rules.MaxPattern {
		m.Unmatched = "The condition has a pattern that is too large to try it here."
		return
	}
	all, err := s.deps.Denials.Denials(v.ctx, fleet.Filter{}, previewedDenials)
	if err != nil {
		m.DenialsAway = true
		return
	}
	m.Looked = len(all)
	for i := range all {
		d := &all[i]
		of := rules.Descriptor{Method: d.Method, Route: d.Route, User: d.User, APIKey: placeholder, Tier: d.Tier, Attributes: d.Attributes}
		of.IP, _ = netip.ParseAddr(d.IP) // a request without an address has none
		matches, err := set.MatchContext(v.ctx, &of, d.Weight, time.UnixMilli(d.At), nil)
		if err != nil {
			return // nobody waits for it any more
		}
		if len(matches) > 0 {
			m.Denials = append(m.Denials, *d)
		}
	}
}

// alone compiles a set of one rule that tells to which requests it applies,
// whatever it counts, after some changes; nil if it is not valid.
func alone(r *rules.Rule, changes ...func(*rules.Rule)) *rules.Set {
	c := r.Clone()
	for _, change := range changes {
		change(&c)
	}
	c.ID, c.IsActive = 1, true
	c.Pool, c.Priority, c.Throttle, c.SoftPercent, c.ElasticPercent = nil, nil, rules.ThrottleHard, nil, nil
	c.WeightField, c.Tiers = nil, nil
	if !plainName(c.Name) {
		c.Name = "draft"
	}
	set, err := rules.Compile([]rules.Rule{c}, 1, rules.Options{})
	if err != nil {
		return nil
	}
	return set
}
