package ruleedit

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/rulefile"
	"sluice/rules/when"
	"sluice/rules/words"
	"sluice/web/kit"
	"sluice/web/view"
)

// previewedDenials is how many recent denials a rule is tested on.
const previewedDenials = 500

// previewRule shows what a draft would do, and converts it between form and YAML. Nothing is saved. Scripts get only
// the preview.
func (p *Pages) previewRule(v *kit.Visit) error {
	d, err := draftOf(v)
	if err != nil {
		return err
	}
	if v.HTMX() {
		var clients *Clients
		if !d.asYAML() {
			clients = p.clients(v, d)
		}
		return v.Page(http.StatusOK, previewAnswer(p.preview(v, d), clients))
	}
	switch d.form.Get("do") {
	case "tier":
		d.extra = "tiers"
	case "window":
		d.extra = "schedule.windows"
	case "yaml":
		return p.toYAML(v, d)
	case "form":
		return p.toForm(v, d)
	}
	return p.editor(v, http.StatusOK, d)
}

// toYAML converts the form to YAML. A form with errors stays a form.
func (p *Pages) toYAML(v *kit.Visit, d *draft) error {
	if d.asYAML() {
		return p.editor(v, http.StatusOK, d)
	}
	r, errs := ruleOf(d.form)
	if slices.ContainsFunc(errs, func(e field.Problem) bool { return d.form.Get(e.Field) != "" }) {
		d.errs = toFormNames(d.form, errs)
		return p.editor(v, http.StatusUnprocessableEntity, d)
	}
	d.form.Set("yaml", string(rulefile.FormatDraft(&r)))
	d.form.Set("as", "yaml")
	return p.editor(v, http.StatusOK, d)
}

// toForm converts YAML to the form. Invalid YAML stays text.
func (p *Pages) toForm(v *kit.Visit, d *draft) error {
	if !d.asYAML() {
		return p.editor(v, http.StatusOK, d)
	}
	r := d.fromYAML()
	if r == nil {
		return p.editor(v, http.StatusUnprocessableEntity, d)
	}
	d.form = d.keep(valuesOf(r))
	return p.editor(v, http.StatusOK, d)
}

// preview computes what a draft would do, as far as it is valid.
func (p *Pages) preview(v *kit.Visit, d *draft) RulePreview {
	var m RulePreview
	var r rules.Rule
	var errs []field.Problem
	if d.asYAML() {
		f, err := rulefile.Parse([]byte(d.form.Get("yaml")))
		if err != nil || len(f.Rules) != 1 {
			return m
		}
		r = f.Rules[0]
		m.Warnings = rules.Warnings(&r)
	} else {
		r, errs = ruleOf(d.form)
		if m.Warnings = rules.Warnings(&r); slices.ContainsFunc(errs, ofLimit) {
			return m
		}
	}
	var was *rules.Rule
	if live := p.Sets.Load(); live != nil && live.Get(d.id) != nil {
		was = &live.Get(d.id).Rule
		m.Warnings = append(m.Warnings, rules.EditWarnings(was, &r)...)
	}
	m.Warnings = append(m.Warnings, p.FailDefaults.OpenWrites(&r)...)
	l, spare, err := previewLimit(&r, p.Now())
	if err != nil || r.Scope == "" && r.Descriptor == nil {
		return m
	}
	if d.id == 0 {
		p.FailDefaults.Fill(&r)
	}
	set := compileAlone(match.Options{NAT64: p.Options().NAT64, FoldRoute: p.Options().FoldRoute}, &r)
	errs = append(errs, kit.FieldsOf(rules.CheckPatterns(was, &r))...) // compiling bears what older versions stored
	m.Invalid = set == nil || slices.ContainsFunc(errs,
		func(e field.Problem) bool { return d.form.Get(e.Field) != "" })
	if !m.Invalid {
		m.Summary = words.Summary(&r)
		if shed := view.Shedding(&r, p.Sets.Load()); shed != "" {
			m.Summary += " " + shed
		}
	}
	if r.Unlimited {
		m.Unmatched = "The rule denies nothing."
		return m
	}
	load, err := strconv.ParseInt(d.form.Get("preview.load"), 10, 64)
	if err != nil || load < 1 || load > maxLoad {
		load = defaultLoad
	}
	shape := kit.OneOf(d.form.Get("preview.shape"), shapeSteady, shapeBurst, shapeBoundary)
	named := r
	if !plainName(r.Name) {
		named.Name = "rule"
	}
	headers := p.Headers
	if m.Silent = r.Mode == rules.ModeShadow; m.Silent {
		headers = nil
	}
	if r.RetryJitterMS != nil {
		m.Jitter = *r.RetryJitterMS
	}
	var ban *limiter.Limit
	if set != nil && set.Len() == 1 {
		ban = set.At(0).Ban
	}
	tried := simulate(l, ban, spare, shape, load, p.Now().UnixMilli(), headers, &named)
	m.Limit = &tried
	if !m.Invalid {
		p.tryOnDenials(v, &r, set, &m)
	}
	return m
}

// maxLoad is the most traffic of a preview, in percent of the limit.
const maxLoad = 1000

// plainName reports whether a name can be in a header unescaped.
func plainName(name string) bool {
	return name != "" && len(name) <= rules.MaxName && !strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// placeholder replaces the API key, which is not stored with denials.
const placeholder = "not-kept"

// tryOnDenials finds the recent denials that a rule matches. set is compileAlone of the rule.
func (p *Pages) tryOnDenials(v *kit.Visit, r *rules.Rule, set *match.Set, m *RulePreview) {
	if r.Descriptor != nil {
		m.Unmatched = "Recent denials do not contain the descriptors that Envoy sent."
		return
	}
	if r.When != nil && (strings.Contains(*r.When, "fields") || strings.Contains(*r.When, "api_key")) {
		m.Unmatched = "The condition uses values that are not stored with denials."
		return
	}
	if when.SizePatterns(r.When).Largest > when.MaxPattern {
		m.Unmatched = "The condition has a pattern that is too large to test here."
		return
	}
	all, err := p.Denials.Denials(v.Ctx, history.Filter{}, previewedDenials)
	if err != nil {
		m.DenialsUnavailable = true
		return
	}
	m.Looked = len(all)
	for i := range all {
		d := &all[i]
		of := match.Descriptor{Method: d.Method, Route: d.Route, Host: d.Host, User: d.User, APIKey: placeholder,
			Tier: d.Tier, Attributes: d.Attributes}
		of.IP, _ = netip.ParseAddr(d.IP) // the address may be missing
		matches, err := set.MatchContext(v.Ctx, &of, d.Weight, time.UnixMilli(d.At), nil)
		if err != nil {
			return // the request was cancelled
		}
		if len(matches) > 0 {
			m.Denials = append(m.Denials, *d)
		}
	}
}

// compileAlone compiles a set of one rule, after some changes, to find the requests that it matches; nil if the rule is
// invalid.
func compileAlone(opt match.Options, r *rules.Rule, changes ...func(*rules.Rule)) *match.Set {
	c := r.Clone()
	for _, change := range changes {
		change(&c)
	}
	c.ID, c.IsActive = 1, true
	c.Pool, c.Priority, c.Throttle, c.SoftPercent, c.ElasticPercent = nil, nil, rules.ThrottleHard, nil, nil
	c.WeightField, c.LimitField, c.Tiers = nil, nil, nil
	if !plainName(c.Name) {
		c.Name = "draft"
	}
	set, err := match.Compile([]rules.Rule{c}, 1, opt)
	if err != nil {
		return nil
	}
	return set
}

// RulePreview shows what a rule would do.
type RulePreview struct {
	// Warnings are likely mistakes that do not prevent saving.
	Warnings []field.Problem
	// Summary describes the rule in words. It is "" while the form has no limit or no scope, or is Invalid.
	Summary string
	Invalid bool
	// Limit is a simulation of the limit, nil while it is invalid.
	Limit *Preview
	// Silent means that the rule is in shadow mode and sends no headers. Jitter is the largest random addition to
	// Retry-After, in ms.
	Silent bool
	Jitter int64
	// Denials are the recent denials that the rule matches, out of Looked.
	Denials []history.Request
	Looked  int
	// DenialsUnavailable means that they cannot be read. Unmatched is the reason why none were tested.
	DenialsUnavailable bool
	Unmatched          string
}

// shownDenials is how many denials the preview shows.
const shownDenials = 5

func firstDenials(all []history.Request) []history.Request { return all[:min(len(all), shownDenials)] }

func listIntro(n int) string {
	if n > shownDenials {
		return ", the latest five:"
	}
	return ":"
}

// denialWords describes the request and the rule of a denial.
func denialWords(d *history.Request) string {
	s := d.Route
	if d.Method != "" {
		s = d.Method + " " + s
	}
	return chars.Shown(s + " by " + d.Rule + ",")
}
