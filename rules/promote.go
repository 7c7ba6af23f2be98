package rules

import "sluice/rules/field"

// Promote ends a shadow comparison: the candidate becomes the rule's limit and is removed, or, if there is none, mode
// shadow becomes enforce. Units spent under the rule's own limit still count, as after every edit (see Former), and the
// counts of the candidate are dropped. The error is a *field.ValidationError if there is nothing to promote. The result
// may be invalid as a whole; call Validate.
func (r *Rule) Promote() error {
	c := r.Candidate
	switch {
	case c != nil && c.Limit != nil:
		if !r.CandidateFollows() {
			r.Calendar = nil
		}
		s := r.candidateSpec()
		r.Algorithm, r.Limit, r.WindowMS = s.Algorithm, s.Limit, s.WindowMS
		r.Burst, r.Align, r.AnchorMS, r.Buckets = s.Burst, s.Align, s.AnchorMS, s.Buckets
		r.Candidate = nil
	case r.Mode == ModeShadow:
		r.Mode = ModeEnforce
	default:
		return &field.ValidationError{Fields: []field.Problem{{Field: "candidate",
			Message: "is missing, and the rule is enforced already: there is nothing to promote"}}}
	}
	return nil
}
