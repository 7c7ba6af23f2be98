package rulepage

import (
	"net/http"

	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// confirmAction asks for confirmation before a rule is promoted, switched to shadow mode or disabled, and describes the
// effect.
func (p *Pages) confirmAction(v *kit.Visit, r rules.Rule) error {
	return p.confirm(v, http.StatusOK, r, v.QueryParam("to"), view.Form{})
}

// confirm is confirmAction with what was typed into its form.
func (p *Pages) confirm(v *kit.Visit, status int, r rules.Rule, to string, form view.Form) error {
	m := Confirm{Rule: r, To: to, After: r.Clone(), Form: form}
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
	return v.Page(status, confirmPage(v.Frame(m.Title(), kit.PathRules), m))
}

// Confirm is the page that asks for confirmation before a rule is promoted, switched to shadow mode or disabled.
type Confirm struct {
	Rule, After rules.Rule
	// To is promote, shadow or off.
	To string
	// Trial is set for a promotion, nil otherwise.
	Trial *Trial
	// Form is what was typed.
	Form view.Form
}

// Title is the question.
func (m *Confirm) Title() string {
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
func (m *Confirm) effect() string {
	switch {
	case m.To == "off":
		return "The rule limits nothing until it is enabled again. Its counters are kept."
	case m.To == rules.ModeShadow:
		return "The rule counts but does not deny. Its counters are kept."
	case m.Rule.Candidate != nil:
		if m.kept() != countersKept {
			return "The candidate becomes the rule's limit, and requests over it are denied."
		}
		return "The candidate becomes the rule's limit, and requests over it are denied. " + countersKept
	}
	return "The rule is enforced, and requests over the limit are denied. Its counters are kept."
}

// kept says whether what was counted is kept.
func (m *Confirm) kept() string { return keptWords(&m.Rule, &m.After) }

func (m *Confirm) path() string {
	if m.To == "promote" {
		return "/promote"
	}
	return "/state"
}

func (m *Confirm) button() (icon, label string) {
	switch m.To {
	case "promote":
		return "circle-check", "Promote"
	case "off":
		return "pause", "Disable"
	}
	return "eye", "Switch to shadow"
}
