package web

import (
	"net/http"

	"sluice/rules"
	"sluice/web/view"
)

const (
	// trialPage and maxTrialVersions bound the versions in which the beginning of
	// a trial is looked for.
	trialPage        = 50
	maxTrialVersions = 500
)

// askTurn asks before a rule is promoted, put in shadow mode or turned off, and
// says what that does.
func (s *Server) askTurn(v *visit) error {
	id, err := v.ruleID()
	if err != nil {
		return err
	}
	r, err := s.deps.Writer.GetRule(v.ctx, id)
	if err != nil {
		return err
	}
	m := view.RuleTurn{Rule: r, To: v.QueryParam("to"), After: r.Clone()}
	switch {
	case m.To == "off" && r.IsActive:
		m.After.IsActive = false
	case m.To == rules.ModeShadow && r.Mode == rules.ModeEnforce && r.Candidate == nil:
		m.After.Mode = rules.ModeShadow
	case m.To == "promote" && r.OnTrial():
		if err := m.After.Promote(); err != nil {
			return err
		}
		m.Trial, err = s.trialOf(v, &r, s.trialBegun)
		s.logFigures(&r, err)
	default:
		return v.redirect(rulePath(id)) // it is so already
	}
	return v.page(http.StatusOK, view.RuleTurnPage(v.frame(m.Title(), pathRules), m))
}

// trialOf tells what the rule's trial would have denied since it began, and of
// how many requests. begun is trialBegun or what remembers its answer. With an error
// the counts are unknown, and said to be.
func (s *Server) trialOf(v *visit, r *rules.Rule, begun beginning) (*view.Trial, error) {
	t, versions, err := begun(v, r)
	if err == nil {
		t.Counts, err = s.deps.Live.Figures.Trial(v.ctx, r.ID, versions)
	}
	t.Unknown = err != nil
	return &t, err
}

// beginning says since when a trial counts, and in which versions of the rule.
type beginning func(v *visit, r *rules.Rule) (view.Trial, []int64, error)

// trialBegun looks in the history for the version that began the rule's trial.
func (s *Server) trialBegun(v *visit, r *rules.Rule) (view.Trial, []int64, error) {
	t := view.Trial{Version: r.Version, At: r.UpdatedAt}
	versions := []int64{r.Version}
	for before, more := r.Version, true; more && len(versions) < maxTrialVersions; before = t.Version {
		page, err := s.deps.History.RuleHistory(v.ctx, r.ID, trialPage, before)
		if err != nil {
			return t, nil, err
		}
		more = len(page) > 0
		for i := range page {
			if !rules.SameTrial(&page[i].Rule, r) {
				more = false
				break
			}
			t.Version, t.At = page[i].Version, page[i].At
			versions = append(versions, t.Version)
		}
	}
	return t, versions, nil
}

// logFigures logs that some figures of a rule's page could not be read.
func (s *Server) logFigures(r *rules.Rule, err error) {
	if err != nil {
		s.log.Warn("could not read the figures of a rule", "rule", r.Name, "error", err)
	}
}
