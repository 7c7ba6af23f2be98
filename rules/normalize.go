package rules

import (
	"cmp"
	"slices"
	"strings"

	"sluice/rules/field"
	"sluice/rules/host"
)

// Normalize converts a rule as people write it to the form that is stored and compared. It fills
// in defaults (algorithm, throttle, mode, fail mode and so on), puts the method in upper case (*
// means every method, like none), trims names, rounds times to milliseconds, and sets "" in an
// optional field to nil. A host becomes its normal form, and * every host. It never makes an invalid rule
// valid by changing its meaning. It replaces what it changes, because the caller may share what a rule points to.
func (r *Rule) Normalize() {
	if strings.TrimSpace(r.FailMode) == "" {
		r.FailFrom = FailLeftOut
	}
	field.Normalize(ruleFields, r)
	r.Scope = normalizeScope(r.Scope)
	if r.Method != nil {
		if m := strings.ToUpper(*r.Method); m == "*" {
			r.Method = nil
		} else if m != *r.Method {
			r.Method = &m
		}
	}
	if r.Host != nil {
		if h := host.Normal(*r.Host); h == "*" {
			r.Host = nil
		} else if h != *r.Host {
			r.Host = &h
		}
	}
	if len(r.Tiers) == 0 {
		r.Tiers = nil
	}
	if len(r.Replaces) == 0 {
		r.Replaces = nil
	}
	if len(r.NotifyPercent) == 0 {
		r.NotifyPercent = nil
	}
	if len(r.Metadata) == 0 {
		r.Metadata = nil
	}
	if r.Unlimited && r.Descriptor != nil && r.WindowMS == 0 {
		r.WindowMS = nominalSecond
	}
	if r.Schedule != nil {
		r.Schedule = r.Schedule.normalized()
	}
	if r.Calendar != nil {
		r.Calendar = r.Calendar.normalized()
		if p := r.Calendar.Period(); p != nil && r.WindowMS == 0 {
			r.WindowMS = p.nominal
		}
	}
	if r.OverLimit == OverLimitDefer {
		r.Defer = r.Defer.normalized()
	}
	if r.Ban != nil {
		r.Ban = r.Ban.normalized()
	}
	if r.Denial != nil {
		r.Denial = r.Denial.normalized()
	}
	if r.Delay != nil {
		r.Delay = r.Delay.normalized()
	}
	if r.Candidate != nil {
		c := *r.Candidate
		field.Normalize(candidateFields, &c)
		r.Candidate = &c
	}
}

// Clone returns a copy of a rule that shares nothing with the original.
func (r *Rule) Clone() Rule { return field.Clone(r) }

// MarshalPolicies encodes the policies of a rule as a JSON object, without defaults. Equal
// policies give equal text.
func (r *Rule) MarshalPolicies() ([]byte, error) { return field.MarshalPolicies(ruleFields, r) }

// UnmarshalPolicies sets the policies of a rule from the output of MarshalPolicies. Text that was damaged by hand is an
// error; every unreadable member then gets a value that validation refuses, so that the rule is listed but never takes
// effect without that policy. A member that this version does not know becomes Rule.Unknown, which validation refuses
// too.
func (r *Rule) UnmarshalPolicies(text []byte) error {
	unknown, err := field.UnmarshalPolicies(ruleFields, r, text)
	r.Unknown = unknown
	if err != nil && r.Hidden {
		r.Message = new("{") // because validation refuses neither value of a damaged flag
	}
	if err != nil && r.Descriptor != nil {
		r.Descriptor = &RuleDescriptor{} // for the same reason
	}
	return err
}

func orDefault(s, def string) string {
	if s = strings.TrimSpace(s); s == "" {
		return def
	}
	return s
}

// normalizeScope trims the parts of a scope.
func normalizeScope(s string) string {
	if !strings.ContainsAny(s, " \t\r\n") {
		return s
	}
	parts := strings.Split(s, "+")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, "+")
}

var weekdays = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

func (s *Schedule) normalized() *Schedule {
	out := Schedule{Zone: s.Zone, Windows: slices.Clone(s.Windows)}
	field.Normalize(scheduleFields, &out)
	for i := range out.Windows {
		w := &out.Windows[i]
		field.Normalize(windowFields, w)
		w.Days = normalDays(w.Days)
	}
	return &out
}

// normalDays sorts the days of the week, Monday first, and returns nil for all seven. It leaves a
// list with an invalid or repeated day unchanged, for Validate to refuse.
func normalDays(days []string) []string {
	if len(days) == 0 {
		return nil
	}
	out := make([]string, 0, len(days))
	for _, name := range weekdays {
		for _, d := range days {
			if strings.ToLower(strings.TrimSpace(d)) == name {
				out = append(out, name)
			}
		}
	}
	if len(out) != len(days) {
		return slices.Clone(days)
	}
	if slices.Equal(out, weekdays) {
		return nil
	}
	return out
}

func (c *Calendar) normalized() *Calendar {
	out := *c
	field.Normalize(calendarFields, &out)
	if p := out.Period(); p != nil && p.lastDay > 0 {
		out.AnchorDay = cmp.Or(out.AnchorDay, 1)
	}
	if p := out.Period(); p != nil && p.months > 1 {
		out.AnchorMonth = cmp.Or(out.AnchorMonth, 1)
	}
	if out.At == midnight {
		out.At = ""
	}
	return &out
}

func (d *Defer) normalized() *Defer {
	out := Defer{MaxItems: DefaultDeferItems, MaxAgeMS: DefaultDeferAge}
	if d != nil && d.MaxItems != 0 {
		out.MaxItems = d.MaxItems
	}
	if d != nil && d.MaxAgeMS != 0 {
		out.MaxAgeMS = d.MaxAgeMS
	}
	return &out
}
