package view

import (
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
)

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
	return Count(t.Counts.Denied)
}

// share says of how many requests.
func (t *Trial) share() string {
	switch {
	case t.Unknown:
		return "unknown: the counts could not be read"
	case t.Counts.Seen == 0:
		return "the trial has seen no request yet"
	}
	return "of " + Plural(t.Counts.Seen, "request") + ", " + Percent(t.Counts.Denied, t.Counts.Seen)
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
		return "Promote the trial of " + m.Rule.Name + "?"
	case "off":
		return "Turn off " + m.Rule.Name + "?"
	}
	return "Switch " + m.Rule.Name + " to shadow mode?"
}

// effect says what happens then.
func (m *RuleTurn) effect() string {
	switch {
	case m.To == "off":
		return "The rule limits nothing until it is turned on again. Its counters are kept."
	case m.To == rules.ModeShadow:
		return "The rule counts what it would deny and denies nothing. Its counters are kept."
	case m.Rule.Candidate != nil:
		return "The candidate becomes the limit in force, and requests over it are denied. Counters are kept."
	}
	return "The rule is enforced: requests over the limit are denied. Its counters are kept."
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
		return "pause", "Turn off"
	}
	return "eye", "Switch to shadow"
}
