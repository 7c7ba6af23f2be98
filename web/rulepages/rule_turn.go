package rulepages

import (
	"net/http"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/kit"
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
func (p *Pages) askTurn(v *kit.Visit, r rules.Rule) error {
	m := RuleTurn{Rule: r, To: v.QueryParam("to"), After: r.Clone()}
	switch {
	case m.To == "off" && r.IsActive:
		m.After.IsActive = false
	case m.To == rules.ModeShadow && r.Mode == rules.ModeEnforce && r.Candidate == nil:
		m.After.Mode = rules.ModeShadow
	case m.To == "promote" && r.OnTrial():
		if err := m.After.Promote(); err != nil {
			return err
		}
		trial, err := p.trialOf(v, &r, p.trialBegun)
		m.Trial = trial
		p.logFigures(&r, err)
	default:
		return v.SeeOther(view.RulePath(r.ID)) // it is so already
	}
	return v.Page(http.StatusOK, ruleTurnPage(v.Frame(m.Title(), kit.PathRules), m))
}

// trialOf tells what the rule's trial would have denied since it began, and of
// how many requests. begun is trialBegun or what remembers its answer. With an error
// the counts are unknown, and said to be.
func (p *Pages) trialOf(v *kit.Visit, r *rules.Rule, begun beginning) (*Trial, error) {
	t, versions, err := begun(v, r)
	if err == nil {
		t.Counts, err = p.Figures.Trial(v.Ctx, r.ID, versions)
	}
	t.Unknown = err != nil
	return &t, err
}

// beginning says since when a trial counts, and in which versions of the rule.
type beginning func(v *kit.Visit, r *rules.Rule) (Trial, []int64, error)

// trialBegun looks in the history for the version that began the rule's trial.
func (p *Pages) trialBegun(v *kit.Visit, r *rules.Rule) (Trial, []int64, error) {
	t := Trial{Version: r.Version, At: r.UpdatedAt}
	versions := []int64{r.Version}
	for before, more := r.Version, true; more && len(versions) < maxTrialVersions; before = t.Version {
		page, err := p.Store.RuleHistory(v.Ctx, r.ID, trialPage, before)
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
func (p *Pages) logFigures(r *rules.Rule, err error) {
	if err != nil {
		p.Logger.Warn("could not read the figures of a rule", "rule", r.Name, "error", err)
	}
}

// Trial is what a limit on trial would have denied.
type Trial struct {
	// Version of the rule began the trial, At says when.
	Version int64
	At      time.Time
	// Counts are the requests that the trial saw since. Unknown: they cannot be
	// read.
	Counts  fleet.TrialCounts
	Unknown bool
}

// figure is the number that would have been denied.
func (t *Trial) figure() string {
	if t.Unknown {
		return "–"
	}
	return view.Count(t.Counts.Denied)
}

// share says of how many requests.
func (t *Trial) share() string {
	switch {
	case t.Unknown:
		return "unknown: the counts could not be loaded"
	case t.Counts.Seen == 0:
		return "no request seen yet"
	}
	return "of " + view.Plural(t.Counts.Seen, "request") + ", " + view.Percent(t.Counts.Denied, t.Counts.Seen)
}

// RuleTurn asks whether a rule is to be promoted, put in shadow mode or turned
// off.
type RuleTurn struct {
	Rule, After rules.Rule
	// To is promote, shadow or off.
	To string
	// Trial is what speaks for or against promoting, nil for the others.
	Trial *Trial
}

// Title is the question.
func (m *RuleTurn) Title() string {
	switch m.To {
	case "promote":
		if m.Rule.Candidate != nil {
			return "Promote the candidate of " + m.Rule.Name + "?"
		}
		return "Promote " + m.Rule.Name + "?"
	case "off":
		return "Disable " + m.Rule.Name + "?"
	}
	return "Switch " + m.Rule.Name + " to shadow mode?"
}

// effect says what happens then.
func (m *RuleTurn) effect() string {
	switch {
	case m.To == "off":
		return "The rule limits nothing until it is enabled again. Its counters are kept."
	case m.To == rules.ModeShadow:
		return "The rule counts but does not deny. Its counters are kept."
	case m.Rule.Candidate != nil:
		return "The candidate becomes the rule's limit, and requests over it are denied. Counters are kept."
	}
	return "The rule is enforced, and requests over the limit are denied. Its counters are kept."
}

func (m *RuleTurn) path() string {
	if m.To == "promote" {
		return "/promote"
	}
	return "/state"
}

func (m *RuleTurn) button() (icon, label string) {
	switch m.To {
	case "promote":
		return "circle-check", "Promote"
	case "off":
		return "pause", "Disable"
	}
	return "eye", "Switch to shadow"
}
