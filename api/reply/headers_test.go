package reply

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/profile"
)

func TestHeaders_AreStructuredFieldsWhateverTheFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := decide.Answer{Verdict: rapid.SampledFrom(
			[]decide.Verdict{decide.Allowed, decide.Denied, decide.Unavailable}).Draw(t, "verdict"), At: rapid.Int64Range(0,
			limiter.MaxExact).Draw(t, "at")}
		figure := rapid.OneOf(rapid.Int64Range(-1, 100), rapid.Just(limiter.MaxExact))
		for range rapid.IntRange(1, 4).Draw(t, "limits") {
			a.Limits = append(a.Limits, decide.LimitAnswer{
				Rule:  rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,62}`).Draw(t, "rule"),
				Known: true,
				Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: max(0, figure.Draw(t, "count")),
					Window: rapid.Int64Range(1, limiter.MaxWindow).Draw(t, "window")},
				Decision: limiter.Decision{
					Limit: max(0, figure.Draw(t, "limit")), Remaining: max(0, figure.Draw(t, "remaining")),
					Reset: figure.Draw(t, "reset"), RetryAfter: figure.Draw(t, "retry"),
				},
			})
		}
		HeaderStyle{}.Headers(&a, nil, func(name string, v []byte) {
			value := string(v)
			if !slices.Contains(profile.ClientHeaders, name) {
				t.Fatalf("%s is not among the headers that a profile can name", name)
			}
			if strings.HasPrefix(name, "RateLimit") {
				list, err := httpsfv.UnmarshalList([]string{value})
				if err != nil || len(list) != len(a.Limits) {
					t.Fatalf("%s: %q has %d items of %d: %v", name, value, len(list), len(a.Limits), err)
				}
				return
			}
			if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 {
				t.Fatalf("%s: %q", name, value)
			}
		})
	})
}
