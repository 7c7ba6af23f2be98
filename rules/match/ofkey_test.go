package match

import (
	"testing"

	"sluice/limiter"
)

func TestRuleID_IsReadBackFromEveryKeyOfARule(t *testing.T) {
	for key, want := range map[limiter.Key]int64{
		limiter.Key("{user:42}" + keySuffix(17, limiter.GCRA)):                           17,
		limiter.Key("{user:4}+ip:203.0.113.7" + candidateSuffix(9, limiter.FixedWindow)): 9,
		limiter.Key("{user:42%s3}" + keySuffix(1, limiter.TokenBucket)):                  1,
		DirectKey("user:42", limiter.Limit{Algorithm: limiter.GCRA, Window: 1000}):       0,
		"": 0, "{x}": 0, "{x}|1": 0,
		"{x}|a|sc": 0, "{x}|-1|sc": 0, "{x}|1|sc|1": 0,
	} {
		if got, ok := RuleID(key); got != want && ok || ok != (want > 0) {
			t.Errorf("RuleID(%q) = %d, %v; want %d", key, got, ok, want)
		}
	}
}
