package rules

import "strings"

// Normalize brings a rule as people write it into the form that is stored and
// compared: defaults filled in (algorithm, throttle, mode, fail mode and the like), method in
// upper case (* is every method, like none), blanks around names removed, and ""
// in an optional field turned into nil. It never makes an invalid rule valid by changing its meaning.
func (r *Rule) Normalize() {
	r.Name = strings.TrimSpace(r.Name)
	r.Description = strings.TrimSpace(r.Description)
	r.Scope = normalizeScope(r.Scope)
	r.Algorithm = orDefault(r.Algorithm, defaultAlgorithm)
	r.Throttle = orDefault(r.Throttle, ThrottleHard)
	r.Mode = orDefault(r.Mode, ModeEnforce)
	r.FailMode = orDefault(r.FailMode, FailOpen)
	r.normalizePolicy()
	r.Route = trimOptional(r.Route)
	r.Align = trimOptional(r.Align)
	r.WeightField = trimOptional(r.WeightField)
	r.Method = trimOptional(r.Method)
	if r.Method != nil {
		if m := strings.ToUpper(*r.Method); m == "*" {
			r.Method = nil
		} else if m != *r.Method {
			r.Method = &m
		}
	}
}

// Clone copies a rule so that nothing is shared with the original.
func (r *Rule) Clone() Rule {
	c := *r
	c.Route, c.Method = clonePtr(r.Route), clonePtr(r.Method)
	c.Burst, c.Align = clonePtr(r.Burst), clonePtr(r.Align)
	c.AnchorMS, c.Buckets = clonePtr(r.AnchorMS), clonePtr(r.Buckets)
	c.WeightField, c.SoftPercent = clonePtr(r.WeightField), clonePtr(r.SoftPercent)
	c.clonePolicy()
	return c
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func orDefault(s, def string) string {
	if s = strings.TrimSpace(s); s == "" {
		return def
	}
	return s
}

// trimOptional never writes through the pointer: the caller may share it.
func trimOptional(p *string) *string {
	if p == nil {
		return nil
	}
	s := strings.TrimSpace(*p)
	switch s {
	case "":
		return nil
	case *p:
		return p
	}
	return &s
}

// normalizeScope removes blanks around the summands.
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
