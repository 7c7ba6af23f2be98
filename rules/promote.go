package rules

// Promote puts a trial in force: the candidate becomes the rule's limit, and the
// candidate goes; or, where there is none, mode shadow becomes enforce. The
// bucket keeps what the rule has counted, as with every edit of the limit. The
// error is a *ValidationError when there is nothing to promote; whether the
// promoted rule is valid as a whole is for Validate.
func (r *Rule) Promote() error {
	c := r.Candidate
	switch {
	case c != nil && c.Limit != nil:
		if !r.candidateFollows() {
			r.Calendar = nil
		}
		s := r.candidateSpec()
		r.Algorithm, r.Limit, r.WindowMS = s.Algorithm, s.Limit, s.WindowMS
		r.Burst, r.Align, r.AnchorMS, r.Buckets = s.Burst, s.Align, s.AnchorMS, s.Buckets
		r.Candidate = nil
	case r.Mode == ModeShadow:
		r.Mode = ModeEnforce
	default:
		return &ValidationError{Fields: []FieldError{{"candidate", "is missing, and the rule is enforced already: there is nothing to promote"}}}
	}
	return nil
}
