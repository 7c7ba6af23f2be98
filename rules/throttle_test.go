package rules

import (
	"errors"
	"slices"
	"testing"

	"sluice/limiter"
	"sluice/rules/field"
)

func TestValidate_RefusesAThrottleThatTheAlgorithmCannotKeep(t *testing.T) {
	bad := map[string][]string{
		ThrottleSoft:    {"leaky_queue", "concurrency"},
		ThrottleElastic: {"leaky_queue", "concurrency", "gcra"},
	}
	ten, pool, none := int64(10), "shop", int64(0)
	for _, throttle := range []string{ThrottleHard, ThrottleSoft, ThrottleElastic} {
		for _, a := range limiter.Algorithms() {
			r := Rule{Name: "r", Scope: "user", Limit: 5, WindowMS: 1000, Algorithm: a.String(), Throttle: throttle,
				IsActive: true}
			switch throttle {
			case ThrottleSoft:
				r.SoftPercent = &ten
			case ThrottleElastic:
				r.ElasticPercent, r.Pool = &ten, &pool
			}
			wantBad(t, &r, "throttle", slices.Contains(bad[throttle], a.String()))
			if a == limiter.Concurrency {
				continue
			}
			r.Candidate, r.Algorithm = &Candidate{Limit: &none, Algorithm: a.String()}, "token_bucket"
			wantBad(t, &r, "candidate.algorithm", slices.Contains(bad[throttle], a.String()))
		}
	}
}

func wantBad(t *testing.T, r *Rule, member string, want bool) {
	t.Helper()
	r.Normalize()
	var ve *field.ValidationError
	err := Validate(r)
	found := errors.As(err, &ve) && slices.ContainsFunc(ve.Fields, func(f field.Problem) bool { return f.Field == member })
	if found != want {
		t.Errorf("throttle %s, %s, candidate %+v: got %v", r.Throttle, r.Algorithm, r.Candidate, err)
	}
}
