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
	// trialPage and maxTrialVersions bound how many versions are searched for the start of a trial.
	trialPage        = 50
	maxTrialVersions = 500
)

// confirmAction asks for confirmation before a rule is promoted, switched to shadow mode or disabled, and describes the
// effect.
func (p *Pages) confirmAction(v *kit.Visit, r rules.Rule) error {
	m := RuleConfirm{Rule: r, To: v.QueryParam("to"), After: r.Clone()}
	switch {
	case m.To == "off" && r.IsActive:
		m.After.IsActive = false
	case m.To == rules.ModeShadow && r.Mode == rules.ModeEnforce && r.Candidate == nil:
		m.After.Mode = rules.ModeShadow
	case m.To == "promote" && r.OnTrial():
		if err := m.After.Promote(); err != nil {
			return err
		}
		trial, err := p.trialOf(v, &r, p.findTrial)
		m.Trial = trial
		p.logFigures(&r, err)
	default:
		return v.SeeOther(view.RulePath(r.ID)) // nothing would change
	}
	return v.Page(http.StatusOK, ruleConfirmPage(v.Frame(m.Title(), kit.PathRules), m))
}

// trialOf returns how many requests the rule's trial would have denied since it started, and how many it saw. With an
// error the counts are marked as unknown.
func (p *Pages) trialOf(v *kit.Visit, r *rules.Rule, find trialFinder) (*Trial, error) {
	t, versions, err := find(v, r)
	if err == nil {
		t.Counts, err = p.Figures.Trial(v.Ctx, r.ID, versions)
	}
	t.Unknown = err != nil
	return &t, err
}

// trialFinder returns the start of a rule's trial and the versions that belong to it.
type trialFinder func(v *kit.Visit, r *rules.Rule) (Trial, []int64, error)

// findTrial searches the history for the version that started the rule's trial.
func (p *Pages) findTrial(v *kit.Visit, r *rules.Rule) (Trial, []int64, error) {
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

// logFigures logs that some metrics of a rule's page could not be read.
func (p *Pages) logFigures(r *rules.Rule, err error) {
	if err != nil {
		p.Logger.Warn("could not read the figures of a rule", "rule", r.Name, "error", err)
	}
}

// Trial counts the requests that a shadow rule or a candidate would have denied.
type Trial struct {
	// Version of the rule started the trial, at the time At.
	Version int64
	At      time.Time
	// Counts are the requests since then. Unknown means that they cannot be read.
	Counts  fleet.TrialCounts
	Unknown bool
}

// figure is the number of requests that would have been denied.
func (t *Trial) figure() string {
	if t.Unknown {
		return "–"
	}
	return view.Count(t.Counts.Denied)
}

// share describes the total, as in "of 7,399 requests, 1.3%".
func (t *Trial) share() string {
	switch {
	case t.Unknown:
		return "unknown: the counts could not be loaded"
	case t.Counts.Seen == 0:
		return "no request seen yet"
	}
	return "of " + view.Plural(t.Counts.Seen, "request") + ", " + view.Percent(t.Counts.Denied, t.Counts.Seen)
}

// RuleConfirm is the page that asks whether to promote a rule, switch it to shadow mode or disable it.
type RuleConfirm struct {
	Rule, After rules.Rule
	// To is promote, shadow or off.
	To string
	// Trial is set for promoting, nil for the others.
	Trial *Trial
}

// Title is the question.
func (m *RuleConfirm) Title() string {
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

// effect describes the consequences.
func (m *RuleConfirm) effect() string {
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

func (m *RuleConfirm) path() string {
	if m.To == "promote" {
		return "/promote"
	}
	return "/state"
}

func (m *RuleConfirm) button() (icon, label string) {
	switch m.To {
	case "promote":
		return "circle-check", "Promote"
	case "off":
		return "pause", "Disable"
	}
	return "eye", "Switch to shadow"
}
