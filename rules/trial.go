package rules

// OnTrial reports whether a part of the rule counts without denying: the whole rule in mode
// shadow, or its candidate.
func (r *Rule) OnTrial() bool { return r.Mode == ModeShadow || r.Candidate != nil }

// WouldReplace reports whether the rule is a shadow rule that replaces others once it is enforced. Rules for
// descriptors do so in shadow mode too.
func (r *Rule) WouldReplace() bool {
	return r.Mode == ModeShadow && r.Descriptor == nil && len(r.Replaces) > 0
}

// SameTrial reports whether two versions of a rule try the same limit on the same requests, so
// that their counts can be added. A label, a fail mode, and disabling and enabling the rule do not
// matter. If the candidate sets the limit, neither does the rule's own limit.
func SameTrial(a, b *Rule) bool {
	return a.OnTrial() && b.OnTrial() && len(Diff(a.tried(), b.tried())) == 0
}

// tried returns the part of the rule that affects a trial.
func (r *Rule) tried() *Rule {
	var none Rule
	t := r.Clone()
	for i := range ruleFields {
		if ruleFields[i].Label {
			ruleFields[i].Assign(&t, &none)
		}
	}
	t.FailMode, t.IsActive = "", false
	t.OverLimit, t.Defer, t.RetryJitterMS, t.HotKeys, t.HotRaisePercent = "", nil, nil, "", nil
	t.Ban, t.Message, t.Denial, t.Hidden, t.Warn, t.Delay, t.TarpitMS = nil, nil, nil, false, nil, nil, nil
	if c := t.Candidate; c != nil && c.Limit != nil {
		if !t.CandidateFollows() {
			t.Calendar = nil
		}
		s := t.candidateSpec()
		t.Algorithm, t.Limit, t.WindowMS = s.Algorithm, s.Limit, s.WindowMS
		t.Burst, t.Align, t.AnchorMS, t.Buckets = s.Burst, s.Align, s.AnchorMS, s.Buckets
		t.Tiers, t.Schedule, t.Candidate = nil, nil, &Candidate{}
	}
	return &t
}
