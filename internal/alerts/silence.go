package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/rules/field"
)

// Bounds of silences.
const (
	// MaxSilences is the largest number of stored silences.
	MaxSilences = 1000
	// MaxSilence is the longest time that a silence lasts from the moment at which its end is set.
	MaxSilence = 30 * 24 * time.Hour
	// KeptSilence is how long an ended silence stays in the lists.
	KeptSilence = 30 * 24 * time.Hour
	// maxSilenceReason is the longest reason, in characters. maxName is the longest rule, key or level, in bytes.
	maxSilenceReason, maxName = 200, 512
)

// Silence keeps the beginnings of alerts from being sent until it ends. The ends of these alerts are sent. A Silence
// with Acknowledges is about one active alert, and is over when that alert ends. It says that a person has seen it.
type Silence struct {
	// ID is assigned by the database; 0 before that.
	ID int64 `json:"id"`
	// Acknowledges is the UID of an active alert, "" for none.
	Acknowledges string `json:"acknowledges"`
	// Kind is the kind of the alerts. Rule, Key and Level select by their subjects; "" means any.
	Kind  string `json:"kind"`
	Rule  string `json:"rule"`
	Key   string `json:"key"`
	Level string `json:"level"`
	// Reason has 1 to 200 characters.
	Reason string `json:"reason"`
	// EndsAt is at most MaxSilence in the future when it is set. It is nil only before validation.
	EndsAt *time.Time `json:"ends_at"`
	// By is the name of the person or token that created it.
	By string `json:"by"`
	// Version starts at 1 and grows by 1 with every edit; it is the ETag.
	Version   int64     `json:"version"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

var silenceFields = []field.Field[Silence]{
	{Name: "acknowledges", At: func(s *Silence) any { return &s.Acknowledges }, Bytes: maxName},
	{Name: "kind", At: func(s *Silence) any { return &s.Kind }, Required: true,
		Waived: func(s *Silence) bool { return s.Acknowledges != "" }},
	{Name: "rule", At: func(s *Silence) any { return &s.Rule }, Bytes: maxName},
	{Name: "key", At: func(s *Silence) any { return &s.Key }, Bytes: maxName},
	{Name: "level", At: func(s *Silence) any { return &s.Level }, Bytes: maxName},
	{Name: "reason", At: func(s *Silence) any { return &s.Reason }, Required: true, Characters: maxSilenceReason},
	{Name: "ends_at", At: func(s *Silence) any { return &s.EndsAt }, Required: true},
}

// SilenceFields returns the fields that people write.
func SilenceFields() []field.Field[Silence] { return silenceFields }

// SilenceKinds returns the kinds of alerts that can be silenced.
func SilenceKinds() []string {
	return slices.DeleteFunc(Kinds(), func(k string) bool { return k == string(KindFailModeEnded) })
}

// Normalize trims the texts and shortens the end to whole milliseconds.
func (s *Silence) Normalize() { field.Normalize(silenceFields, s) }

// Validate reports every problem of a normalised silence whose end is set now. The error is a *field.ValidationError.
func (s *Silence) Validate(now time.Time) error {
	var bad field.Problems
	if !slices.Contains(SilenceKinds(), s.Kind) && (s.Kind != "" || s.Acknowledges == "") {
		bad.Add("kind", "must be one of %s", strings.Join(SilenceKinds(), ", "))
	}
	if s.Rule != "" && !field.ValidName(s.Rule) {
		bad.Add("rule", "must be the name of a rule, or empty for any")
	}
	if s.Reason == "" {
		bad.Add("reason", "must have 1 to %d characters: say why", maxSilenceReason)
	}
	switch {
	case s.EndsAt == nil:
		bad.Add("ends_at", "must be an instant, at most 30 days from now")
	case !s.EndsAt.After(now):
		bad.Add("ends_at", "must be in the future")
	case s.EndsAt.Sub(now) > MaxSilence:
		bad.Add("ends_at", "must be at most 30 days from now")
	}
	return field.Check(silenceFields, s, bad)
}

// Ended reports whether the silence has ended at an instant.
func (s *Silence) Ended(now time.Time) bool { return s.EndsAt == nil || !s.EndsAt.After(now) }

// Covers reports whether the silence is about an alert at an instant. uid is the UID of its beginning.
func (s *Silence) Covers(of *Subject, uid string, now time.Time) bool {
	switch {
	case s.Ended(now):
		return false
	case s.Acknowledges != "":
		return s.Acknowledges == uid
	}
	fits := func(want, is string) bool { return want == "" || want == is }
	return s.Kind == string(of.Kind) && fits(s.Rule, of.Rule) && fits(s.Key, of.Key) && fits(s.Level, of.Level)
}

// Of makes the silence acknowledge an active alert.
func (s *Silence) Of(e *Event) {
	s.Acknowledges, s.Kind = e.UID, string(e.Subject.Kind)
	s.Rule, s.Key, s.Level = e.Subject.Rule, e.Subject.Key, e.Subject.Level
}

// Title names what is silenced, for the audit log: "rule_denials charges-per-user".
func (s *Silence) Title() string {
	return oneLine(strings.Join([]string{s.Kind, s.Rule, s.Level, s.Key}, " "), maxTitle)
}

// maxTitle is the longest Title, in characters.
const maxTitle = 120

// SameAlerts reports whether two silences are about the same alerts.
func (s *Silence) SameAlerts(o *Silence) bool {
	return s.Acknowledges == o.Acknowledges && s.Kind == o.Kind && s.Rule == o.Rule && s.Key == o.Key && s.Level == o.Level
}

// DiffSilences lists the differences between two silences for the audit log. A nil silence has null in all fields.
func DiffSilences(was, is *Silence) []field.Change { return field.Diff(silenceFields, was, is) }

// Mark notes in an active alert the first silence and the first acknowledgement that cover it at an instant.
func (e *Event) Mark(list []Silence, now time.Time) {
	e.SilencedBy, e.AcknowledgedBy = nil, nil
	for i := range list {
		s := &list[i]
		at := &e.SilencedBy
		if s.Acknowledges != "" {
			at = &e.AcknowledgedBy
		}
		if *at == nil && s.Covers(&e.Subject, e.UID, now) {
			*at = s
		}
	}
}

// Handled reports whether somebody acknowledged or silenced an active alert.
func (e *Event) Handled() bool { return e.SilencedBy != nil || e.AcknowledgedBy != nil }

// ErrTooManySilences refuses a silence beyond MaxSilences.
var ErrTooManySilences error = &field.ValidationError{Fields: []field.Problem{{Field: "kind",
	Message: fmt.Sprintf("cannot be silenced: there are already %d silences; end one", MaxSilences)}}}
