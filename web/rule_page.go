package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/view"
)

// How much of each list the page of a rule shows.
const (
	topDenied     = 10
	topHot        = 10
	shownRevision = 10
	fewOverrides  = 5
)

// spans of a rule's chart, the first one unless the URL names another.
var spans = []struct {
	name string
	span time.Duration
}{{"1h", time.Hour}, {"3h", 3 * time.Hour}, {"day", fleet.Day}, {"week", fleet.Week}}

// rulePage shows one rule: what it says, what it decides, whom it denies, its
// exceptions and its past. Figures that cannot be read are left out and said to
// be; the rest of the page stands without them.
func (s *Server) rulePage(v *visit) error {
	id, err := v.ruleID()
	if err != nil {
		return err
	}
	var r rules.Rule
	if err = rules.ErrUnavailable; !v.offline {
		r, err = s.deps.Writer.GetRule(v.ctx, id)
	}
	if errors.Is(err, rules.ErrUnavailable) {
		return s.ruleInForce(v, id)
	}
	if err != nil {
		return err
	}
	m := view.RulePage{Rule: r, Set: s.setNow(), Query: view.NewQuery(rulePath(id), v.QueryParams(), "span")}
	before, _ := strconv.ParseInt(v.QueryParam("before"), 10, 64)
	if m.History, err = s.deps.History.RuleHistory(v.ctx, id, shownRevision, max(0, before)); err != nil {
		return err
	}
	m.Older = before > 0
	list, err := s.deps.Live.Overrides.ListOverrides(v.ctx, rules.OverrideQuery{RuleID: id, PageSize: fewOverrides})
	if err != nil {
		return err
	}
	m.Overrides, m.MoreOverrides = list.Overrides, list.More
	s.logFigures(&m.Rule, s.ruleFigures(v, &m, s.trialBegun))
	return v.page(http.StatusOK, view.RulePageOf(v.frame(r.Name, pathRules), m))
}

// ruleInForce is rulePage from the set in force, while the database is unreachable.
func (s *Server) ruleInForce(v *visit, id int64) error {
	v.away = true
	set := s.setNow()
	if set == nil || set.Get(id) == nil {
		return errAway // it may be one that is off
	}
	m := view.RulePage{
		Rule: set.Get(id).Rule, Set: set, Query: view.NewQuery(rulePath(id), v.QueryParams(), "span"), StoredAway: true,
	}
	s.logFigures(&m.Rule, s.ruleFigures(v, &m, s.trialBegun))
	return v.page(http.StatusOK, view.RulePageOf(v.frame(m.Rule.Name, pathRules), m))
}

// ruleFigures fills in what the fleet and this node tell about a rule. With an error
// some figures are missing, and m says which.
func (s *Server) ruleFigures(v *visit, m *view.RulePage, begun beginning) error {
	span := spans[0]
	for _, sp := range spans {
		if sp.name == v.QueryParam("span") {
			span = sp
		}
	}
	m.Traffic = view.Traffic{Span: span.name, Trial: m.Rule.OnTrial()}
	for _, sp := range spans {
		m.Traffic.Spans = append(m.Traffic.Spans, sp.name)
	}
	var err, trialErr error
	m.Traffic.Points, err = s.deps.Live.Figures.Rule(v.ctx, m.Rule.Name, span.span)
	m.Traffic.Unread = unread(err)
	if !unread(err) {
		m.Denied, err = s.deps.Live.Figures.TopDenied(v.ctx, m.Rule.Name, topDenied)
	}
	if m.Rule.OnTrial() {
		m.Trial, trialErr = s.trialOf(v, &m.Rule, begun)
	}
	m.NoFigures = unread(err)
	m.Live = s.deps.Fleet.Live(v.ctx)
	for i := range m.Live.Rules {
		if m.Live.Rules[i].Name == m.Rule.Name {
			m.Minute = m.Live.Rules[i].Minute
		}
	}
	m.Watching = s.deps.Live.Watching
	for _, k := range m.Live.Hot {
		if k.RuleID == m.Rule.ID && len(m.Hot) < topHot {
			m.Hot = append(m.Hot, hotLine(s.setNow(), &k))
		}
	}
	if !m.NoFigures {
		err = nil // of this node alone, which m.Live says
	}
	return errors.Join(err, trialErr)
}

// setNow is the set in force, nil before the first.
func (s *Server) setNow() *rules.Set { return s.deps.Sets.Load() }

// ruleID reads the rule's id from the path. What cannot be one is not found.
func (v *visit) ruleID() (int64, error) { return v.idOf("id") }

func (v *visit) idOf(param string) (int64, error) {
	id, err := strconv.ParseInt(v.Param(param), 10, 64)
	if err != nil || id < 1 {
		return 0, rules.ErrNotFound
	}
	return id, nil
}

// rulePath is where a rule's page is.
func rulePath(id int64) string { return pathRules + "/" + strconv.FormatInt(id, 10) }

// version reads the version that the page showed, -1 if it names none, which no row has.
func version(form url.Values) int64 {
	n, err := strconv.ParseInt(form.Get("version"), 10, 64)
	if err != nil || n < 1 {
		return -1
	}
	return n
}
