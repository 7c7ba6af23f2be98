package rulepage

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/scope"
	"sluice/web/bind"
	"sluice/web/kit"
	"sluice/web/view"
)

// overridesPerPage is how many rows a page of overrides has.
const overridesPerPage = 50

// listOverrides shows the overrides of a rule; the URL has the search and the page.
func (p *Pages) listOverrides(v *kit.Visit, r rules.Rule) error {
	m, err := p.overrideTable(v, rules.OverrideQuery{RuleID: r.ID}, view.RulePath(r.ID)+"/overrides")
	if err != nil {
		return err
	}
	m.Rule = r
	return v.Page(http.StatusOK, overridesPage(v.Frame("Overrides of "+r.Name, kit.PathRules), m))
}

// listAllOverrides shows the overrides of all rules.
func (p *Pages) listAllOverrides(v *kit.Visit) error {
	m, err := p.overrideTable(v, rules.OverrideQuery{AllRules: true}, kit.PathOverrides)
	if err != nil {
		return err
	}
	m.Rules = map[int64]string{}
	for i := range m.Overrides {
		id := m.Overrides[i].RuleID
		if m.Rules[id] != "" {
			continue
		}
		r, err := p.Rules.GetRule(v.Ctx, id)
		if m.Rules[id] = r.Name; errors.Is(err, rules.ErrNotFound) {
			m.Rules[id] = "rule " + view.Digits(id) // deleted a moment ago
		} else if err != nil {
			return err
		}
	}
	return v.Page(http.StatusOK, allOverridesPage(v.Frame("Overrides", kit.PathOverrides), m))
}

// overrideTable returns the overrides that a query and the URL select.
func (p *Pages) overrideTable(v *kit.Visit, q rules.OverrideQuery, path string) (OverrideTable, error) {
	after, _ := strconv.ParseInt(v.QueryParam("after"), 10, 64)
	q.Text, q.IncludeExpired = v.QueryParam("q"), v.QueryParam("ended") == "1"
	q.Around, q.PageSize, q.AfterID = p.Options().NetworksAround(q.Text), overridesPerPage, max(0, after)
	found, err := p.Overrides.ListOverrides(v.Ctx, q)
	return OverrideTable{
		Overrides: found.Overrides, More: found.More, First: after <= 0, Now: p.Now(),
		Query: view.NewQuery(path, v.QueryParams(), "q", "ended"),
	}, err
}

// overrideWords is the limit that an override sets.
func overrideWords(o *rules.Override) string {
	switch {
	case o.Blocked:
		return "blocked"
	case o.Unlimited:
		return "unlimited"
	case o.Limit == nil:
		return calendarWords(o, "")
	}
	s := view.Count(*o.Limit)
	if o.Burst != nil && *o.Burst != *o.Limit {
		s += ", bursts of " + view.Count(*o.Burst)
	}
	return s + calendarWords(o, ", ")
}

// calendarWords says what an override replaces of the rule's calendar, after a separator; "" for nothing.
func calendarWords(o *rules.Override, after string) string {
	if o.Calendar == nil {
		return ""
	}
	return after + "calendar " + o.Calendar.String()
}

// OverrideTable is the page of the overrides of a rule, or of all rules.
type OverrideTable struct {
	// Rule is the rule of all overrides. If they are of several rules, Rules has their names by ID.
	Rule      rules.Rule
	Rules     map[int64]string
	Overrides []rules.Override
	// More means that there are later ones, First that there are no earlier ones.
	More, First bool
	Now         time.Time
	Query       view.Query
}

// newOverride shows the form for a new override. The URL may supply values: the key, the kind, the limit, and how long
// the override lasts, as in 1h. If the key already has an override, newOverride shows the filled form of that override.
func (p *Pages) newOverride(v *kit.Visit, r rules.Rule) error {
	m, err := p.ofSameKey(v, &r, v.QueryParam("key"))
	if err != nil {
		return err
	}
	form := url.Values{"kind": {cmp.Or(v.QueryParam("kind"), "limit")}, "key": {v.QueryParam("key")},
		"limit": {v.QueryParam("limit")}}
	if m.Theirs != nil {
		form.Set("key", m.Theirs.Key)
		form.Set("version", strconv.FormatInt(m.Theirs.Version, 10))
		form.Set("reason", m.Theirs.Reason)
	}
	if length, err := time.ParseDuration(v.QueryParam("for")); err == nil && length > 0 {
		end := p.Now().Add(length).Truncate(time.Second)
		bind.PutInstant(form, "expires_at", &end)
	}
	m.Form = view.NewForm(form, nil)
	return p.overrideForm(v, http.StatusOK, m)
}

// ofSameKey returns the form of the override of a key. It returns the form of a new override if there is none, or if
// key is "".
func (p *Pages) ofSameKey(v *kit.Visit, r *rules.Rule, key string) (OverrideForm, error) {
	m := OverrideForm{Rule: *r}
	asked, err := match.ReadOverrideKey(r, p.Options(), key)
	if key == "" || err != nil {
		return m, nil //nolint:nilerr // saving says what is wrong with the key
	}
	found, err := p.Overrides.ListOverrides(v.Ctx, rules.OverrideQuery{RuleID: r.ID, Match: asked.Match,
		Prefix: asked.Prefix, IncludeExpired: true, PageSize: 1})
	if err != nil {
		return m, err
	}
	if len(found.Overrides) > 0 {
		m.Theirs, m.Replaces = &found.Overrides[0], true
		m.ID = m.Theirs.ID
	}
	return m, nil
}

// editOverride is the form of an existing override.
func (p *Pages) editOverride(v *kit.Visit) error {
	r, o, err := p.overrideOf(v)
	if err != nil {
		return err
	}
	form := url.Values{"kind": {"limit"}, "key": {o.Key}, "reason": {o.Reason},
		"version": {view.Digits(o.Version)}}
	if o.Limit != nil {
		form.Set("limit", view.Digits(*o.Limit))
	}
	if o.Burst != nil {
		form.Set("burst", view.Digits(*o.Burst))
	}
	if c := o.Calendar; c != nil {
		putCalendar(form, c)
		if o.Limit == nil {
			form.Set("kind", "calendar")
		}
	}
	if o.Unlimited {
		form.Set("kind", "unlimited")
	}
	if o.Blocked {
		form.Set("kind", "blocked")
	}
	bind.PutInstant(form, "expires_at", o.ExpiresAt)
	return p.overrideForm(v, http.StatusOK, OverrideForm{Rule: r, ID: o.ID, Form: view.NewForm(form, nil)})
}

func (p *Pages) overrideForm(v *kit.Visit, status int, m OverrideForm) error {
	return v.Page(status, overridePage(v.Frame("Override of "+m.Rule.Name, kit.PathRules), m))
}

// saveOverride creates or updates an override.
func (p *Pages) saveOverride(v *kit.Visit, r rules.Rule) error {
	form, err := v.Form()
	if err != nil {
		return err
	}
	m := OverrideForm{Rule: r}
	if v.Param("oid") != "" {
		if m.ID, err = v.ID("oid"); err != nil {
			return err
		}
	}
	o, fields := readOverride(form)
	o.RuleID, o.ID = r.ID, m.ID
	if len(fields) == 0 {
		if m.ID == 0 {
			o, err = p.Overrides.CreateOverride(v.Ctx, v.Actor(), o, p.Options())
		} else {
			o, err = p.Overrides.UpdateOverride(v.Ctx, v.Actor(), o, kit.Version(form), p.Options())
		}
	}
	status := http.StatusUnprocessableEntity
	switch {
	case len(fields) > 0:
	case kit.FieldsOf(err) != nil:
		fields = kit.FieldsOf(err)
	case errors.Is(err, rules.ErrOverrideExists):
		fields, status = []field.Problem{{Field: "key", Message: "already has an override; edit that one"}},
			http.StatusConflict
	case errors.Is(err, rules.ErrStale):
		status = http.StatusConflict
		if m.Theirs, err = p.staleOverride(v, r.ID, m.ID, form); errors.Is(err, rules.ErrNotFound) {
			m.ID, m.Problem = 0, kit.DeletedMeanwhile
		} else if err != nil {
			return err
		}
	case errors.Is(err, rules.ErrNotFound) && m.ID != 0:
		m.ID, m.Problem, status = 0, kit.DeletedMeanwhile, http.StatusConflict
	case errors.Is(err, rules.ErrUnavailable):
		m.Problem, status = kit.NotSaved(err), http.StatusServiceUnavailable
	case err != nil:
		return err
	default:
		v.WaitInForce(p.Changed)
		if m.ID == 0 || o.Version > kit.Version(form) { // else nothing differed
			v.OfferUndo(kit.UndoOfOverride(&o))
		}
		v.Flash("Override for %s saved.", o.Key)
		return v.SeeOther(view.RulePath(r.ID) + "/overrides")
	}
	m.Form = view.NewForm(form, fields)
	return p.overrideForm(v, status, m)
}

// staleOverride returns the override as someone else changed it in the meantime, and puts its version into the form.
func (p *Pages) staleOverride(v *kit.Visit, rule, id int64, form url.Values) (*rules.Override, error) {
	theirs, err := p.Overrides.GetOverride(v.Ctx, rule, id)
	if err != nil {
		return nil, err
	}
	form.Set("version", view.Digits(theirs.Version))
	return &theirs, nil
}

// readOverride reads the form.
func readOverride(form url.Values) (rules.Override, []field.Problem) {
	rd := &bind.Reader{Form: form}
	o := rules.Override{Key: rd.Text("key"), Reason: rd.Text("reason")}
	switch form.Get("kind") {
	case "unlimited":
		o.Unlimited, rd.Errs = true, kit.MustBeEmpty(form, "limit", "burst")
	case "blocked":
		o.Blocked, rd.Errs = true, kit.MustBeEmpty(form, "limit", "burst")
	case "calendar":
		rd.Errs = kit.MustBeEmpty(form, "limit", "burst")
	default:
		if o.Limit, o.Burst = rd.Whole("limit"), rd.Whole("burst"); o.Limit == nil {
			rd.Wrong("limit", "is required")
		}
	}
	o.Calendar = readCalendar(rd)
	o.ExpiresAt = rd.Instant("expires_at", "expires_at.zone")
	return o, rd.Errs
}

// putCalendar fills in the inputs of a calendar.
func putCalendar(form url.Values, c *rules.OverrideCalendar) {
	for _, f := range rules.OverrideCalendarFields() {
		if v := f.Value(c); v != "" && v != int64(0) {
			form.Set("calendar."+f.Name, fmt.Sprint(v))
		}
	}
}

// readCalendar reads the inputs of a calendar, nil if all are empty.
func readCalendar(rd *bind.Reader) *rules.OverrideCalendar {
	var c rules.OverrideCalendar
	for _, f := range rules.OverrideCalendarFields() {
		switch p := f.At(&c).(type) {
		case *string:
			*p = rd.Text("calendar." + f.Name)
		case *int64:
			if n := rd.Whole("calendar." + f.Name); n != nil {
				if *p = *n; *n == 0 {
					rd.Wrong("calendar."+f.Name, "must not be 0; leave it empty for the rule's")
				}
			}
		}
	}
	if c == (rules.OverrideCalendar{}) {
		return nil
	}
	return &c
}

// hasCalendar reports whether an override of the rule can have a separate calendar, or the form already contains one.
func (m *OverrideForm) hasCalendar() bool {
	if m.Rule.Calendar != nil {
		return true
	}
	for _, f := range rules.OverrideCalendarFields() {
		if m.Form.Get("calendar."+f.Name) != "" {
			return true
		}
	}
	return false
}

// overrideKinds are the choices of the form.
func (m *OverrideForm) overrideKinds() []view.Choice {
	kinds := []view.Choice{{"limit", "Custom limit"}, {"unlimited", "Unlimited"},
		{"blocked", "Blocked: all requests are denied"}}
	if m.hasCalendar() {
		kinds = append(kinds, view.Choice{"calendar", "The rule's limit, with periods of its own"})
	}
	return kinds
}

// overrideOf is the rule and the override of the path.
func (p *Pages) overrideOf(v *kit.Visit) (rules.Rule, rules.Override, error) {
	r, err := v.Rule()
	if err != nil {
		return r, rules.Override{}, err
	}
	id, err := v.ID("oid")
	if err != nil {
		return r, rules.Override{}, err
	}
	o, err := p.Overrides.GetOverride(v.Ctx, r.ID, id)
	return r, o, err
}

// deletesOverride names the act of deleteOverride.
func (p *Pages) deletesOverride(v *kit.Visit, _ url.Values) (string, error) {
	r, o, err := p.overrideOf(v)
	return "delete the override for " + o.Key + " of the rule " + r.Name, err
}

// deleteOverride deletes an override.
func (p *Pages) deleteOverride(v *kit.Visit, form url.Values) error {
	r, o, err := p.overrideOf(v)
	if err != nil {
		return err
	}
	if err := p.Overrides.DeleteOverride(v.Ctx, v.Actor(), r.ID, o.ID, kit.Version(form)); err != nil {
		return err
	}
	v.WaitInForce(p.Changed)
	v.OfferUndo(kit.UndoOfDeleted(&o))
	v.Flash("Override for %s deleted. The rule's own limit applies.", o.Key)
	return v.SeeOther(view.RulePath(r.ID) + "/overrides")
}

// OverrideForm is the form of an override.
type OverrideForm struct {
	Rule rules.Rule
	// ID is 0 for a new one.
	ID      int64
	Form    view.Form
	Problem string
	// Theirs is the version that someone else saved in the meantime, nil for none. With Replaces it is the present
	// override of the key, which the form replaces.
	Theirs   *rules.Override
	Replaces bool
}

// theirsWords say what the override is that saving replaces.
func (m *OverrideForm) theirsWords() string {
	is := overrideWords(m.Theirs)
	if m.Theirs.Reason != "" {
		is += " (" + chars.Shown(m.Theirs.Reason) + ")"
	}
	if m.Replaces {
		return "This key has an override: " + is + ". Saving replaces it."
	}
	return "Someone else changed this override in the meantime, so nothing was saved. It is now: " + is +
		". Saving again replaces it with yours."
}

// keySample is an example of a key of a rule.
func keySample(r *rules.Rule) string {
	switch scopeText := r.Scope; {
	case r.Descriptor != nil:
		return match.KeyForm(r)
	case strings.HasPrefix(scopeText, "ip"):
		return "ip:203.0.113.7 or ip:10.0.0.0/8"
	case strings.HasPrefix(scopeText, "apikey"):
		return "the API key, which is hashed before it is stored"
	case strings.HasPrefix(scopeText, "attr:"):
		name, _, _ := strings.Cut(strings.TrimPrefix(scopeText, "attr:"), "+")
		return name + ":acme"
	case scopeText == scope.Global:
		return "global"
	}
	return "user:42 or user:acme-*"
}
