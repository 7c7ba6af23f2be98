package rulepage

import (
	"errors"
	"strconv"
	"time"

	"sluice/internal/attention"
	"sluice/internal/audit"
	"sluice/internal/doctor"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/profile"
	"sluice/web/kit"
	"sluice/web/view"
)

// How many entries of each list the page of a rule shows.
const (
	topDenied     = 10
	topHot        = 10
	shownRevision = 10
	fewOverrides  = 5
)

// show shows a rule: its limit, its decisions, its most denied keys, its overrides and its history. Metrics that
// cannot be read are missing, and the page says so.
func (p *Pages) show(v *kit.Visit) error {
	id, err := v.ID("id")
	if err != nil {
		return err
	}
	var r rules.Rule
	if err = rules.ErrUnavailable; !v.Offline {
		r, err = p.Rules.GetRule(v.Ctx, id)
	}
	if errors.Is(err, rules.ErrUnavailable) {
		return p.inForce(v, id)
	}
	if err != nil {
		return err
	}
	m := Page{Rule: r, Set: p.Sets.Load(),
		Query: view.NewQuery(view.RulePath(id), v.QueryParams(), view.RangeParams...)}
	before, _ := strconv.ParseInt(v.QueryParam("before"), 10, 64)
	if m.History, err = p.Rules.RuleHistory(v.Ctx, id, shownRevision, max(0, before)); err != nil {
		return err
	}
	m.Older = before > 0
	list, err := p.Overrides.ListOverrides(v.Ctx, rules.OverrideQuery{RuleID: id, PageSize: fewOverrides})
	if err != nil {
		return err
	}
	m.Overrides, m.MoreOverrides = list.Overrides, list.More
	if m.OverrideLog, err = p.overrideLog(v, id); err != nil {
		return err
	}
	p.logFigures(&m.Rule, p.figures(v, &m, p.findTrial))
	m.Doctor, m.Now = p.examine(v, &m), p.Now()
	m.Statement = p.StatementOf(v.Ctx, &m.Rule, "")
	return v.Page(m.Timeline.Range.Status(), rulePage(v.Frame(r.Name, kit.PathRules), m))
}

// inForce is show from the set in force, while the database is unreachable.
func (p *Pages) inForce(v *kit.Visit, id int64) error {
	v.DatabaseDown = true
	set := p.Sets.Load()
	if set == nil || set.Get(id) == nil {
		return kit.ErrUnavailable // it may be disabled
	}
	m := Page{
		Rule: set.Get(id).Rule, Set: set, Query: view.NewQuery(view.RulePath(id), v.QueryParams(), view.RangeParams...),
		StoredUnavailable: true,
	}
	p.logFigures(&m.Rule, p.figures(v, &m, p.findTrial))
	return v.Page(m.Timeline.Range.Status(), rulePage(v.Frame(m.Rule.Name, kit.PathRules), m))
}

// figures fills in the metrics of a rule. With an error some are missing, and m says which.
func (p *Pages) figures(v *kit.Visit, m *Page, find trialFinder) error {
	var err, trialErr error
	var answer history.Result
	m.Timeline, answer, err = v.Timeline(m.Rule.Name, history.ByKey, view.ParseRange(v.QueryParams(), p.Now(), "1h"),
		m.Query)
	m.Partial = answer.Partial
	for _, row := range answer.Top {
		if row.Denied > 0 && len(m.Denied) < topDenied {
			m.Denied = append(m.Denied, row)
		}
	}
	if m.Rule.OnTrial() {
		m.Trial, trialErr = p.trialOf(v, &m.Rule, find)
	}
	m.NoFigures = err != nil
	m.Live = p.Fleet.Live(v.Ctx)
	for i := range m.Live.Rules {
		if m.Live.Rules[i].Name == m.Rule.Name {
			m.Minute = m.Live.Rules[i].Minute
		}
	}
	m.Watching = p.Watching
	rise, err3 := p.Attention.Rise(v.Ctx, &m.Rule)
	if rise != nil {
		m.Risen = v.Remarks([]attention.Finding{{Denied: m.Minute.Denied, Rule: &m.Rule, Rise: rise}})
	}
	for _, k := range m.Live.Hot {
		if k.RuleID == m.Rule.ID && len(m.Hot) < topHot {
			m.Hot = append(m.Hot, view.HotLineOf(p.Sets.Load(), &k))
		}
	}
	return errors.Join(err, trialErr, err3)
}

// Page is the page of one rule.
type Page struct {
	Rule rules.Rule
	// Set is in force on this node.
	Set   *match.Set
	Query view.Query
	// Minute is the last complete minute, from Live.
	Minute history.Figures
	Live   history.Live
	// Risen is empty unless the rule denies more since an edit.
	Risen view.Remarks
	// Trial is nil unless the rule is in shadow mode or has a candidate.
	Trial    *Trial
	Timeline view.Timeline
	// Statement is nil for a rule without keep_periods, and if the database is unreachable.
	Statement *kit.Statement
	// Now is when the page was made.
	Now time.Time
	// Doctor is the report about the rule, nil if there is none.
	Doctor *doctor.Report
	// Partial says what is missing of the timeline, nil if nothing is.
	Partial error
	// Denied are the most denied keys of the range.
	Denied []history.Row
	// NoFigures means that some metrics could not be read.
	NoFigures bool
	// Changed means that the page shows an old version of the rule, or a deleted one.
	Changed bool
	// Watching means that this node detects hot keys.
	Watching      bool
	Hot           []view.HotLine
	Overrides     []rules.Override
	MoreOverrides bool
	History       []rules.Revision
	// Older means that History does not start with the newest version.
	Older bool
	// OverrideLog has the newest changes of its overrides.
	OverrideLog []audit.Entry
	// StoredUnavailable means that overrides and history could not be read.
	StoredUnavailable bool
}

// settings returns the fields that are set, except fields that the page shows elsewhere.
func (m *Page) settings() []field.Change {
	var out []field.Change
	for _, c := range rules.Diff(nil, &m.Rule) {
		switch c.Field {
		case "name", "description", "is_active":
			continue
		}
		if c.Field == "limit" && m.Rule.IsMeter() {
			continue
		}
		if c.New != nil {
			out = append(out, c)
		}
	}
	return out
}

// degradedNote describes the decisions of the fail mode in the last minute.
func (m *Page) degradedNote() string {
	s := "by fail mode, in the last minute"
	if m.Minute.Degraded > 0 {
		s += ": " + view.FailModeWords(&m.Minute)
	}
	return s
}

// stream is the address of the page's stream.
func (m *Page) stream() string {
	return m.Query.At("/console/events").Set(append(m.Timeline.Range.Params(), "rule", view.Digits(m.Rule.ID),
		"version", view.Digits(m.Rule.Version))...).URL()
}

// busy reports whether the list of denied keys will probably grow while the page is open.
func (m *Page) busy() bool { return len(m.Denied) > 0 || m.Minute.Total() > 0 }

// next is the version before which the next page of the history starts, 0 for none.
func (m *Page) next() int64 {
	if n := len(m.History); n > 0 && m.History[n-1].Version > 1 {
		return m.History[n-1].Version
	}
	return 0
}

// actionWords is an action on a rule for people.
func actionWords(action string) string {
	switch action {
	case "create":
		return "created"
	case "update":
		return "edited"
	case "delete":
		return "deleted"
	case "rollback":
		return "rolled back"
	case "promote":
		return "promoted"
	case "import":
		return "imported"
	}
	return action
}

// readerOf returns the profile that keeps a rule for descriptors from applying, nil if there is none.
func readerOf(r *rules.Rule, set *match.Set) *profile.Profile {
	if r.Descriptor == nil || set == nil {
		return nil
	}
	return set.ProfileOf(r.Descriptor.Domain)
}

// reachWords says how far a limit reaches, "" if each region counts separately.
func reachWords(span string) string {
	switch span {
	case rules.SpanGlobal:
		return "for all regions together"
	case rules.SpanShares:
		return "for all regions, each with its part"
	case rules.SpanGlobalExact:
		return "for all regions, each key decided in one of them"
	}
	return ""
}

// overloadWords say what becomes of the requests of a rule for which Redis has no turn.
func overloadWords(overload string) string {
	if overload == rules.OverloadDeny {
		return "are denied"
	}
	return "wait for a turn"
}
