package api

import (
	"strings"
	"testing"
	"time"

	"sluice/rules"
)

// The number by which stores count for a meter is in no answer to a check.
func TestMeter_ShowsNoLimit(t *testing.T) {
	meter := rules.Rule{Name: "meter", Scope: "user", Algorithm: "fixed_window", Unlimited: true,
		WindowMS: 3_600_000, IsActive: true}
	budget := rules.Rule{Name: "budget", Scope: "attr:team", Algorithm: "fixed_window", Limit: 10,
		WindowMS: 3_600_000, IsActive: true}
	f := newFixture(t, []rules.Rule{meter, budget})
	const one, both = `{"user": "ada"}`, `{"user": "ada", "attributes": {"team": "t"}}`
	clean := func(what string, res *answered) {
		t.Helper()
		if res.status >= 300 {
			t.Errorf("%s: %d %s", what, res.status, res.body)
		}
		text := res.body
		for name, values := range res.header {
			text += name + ": " + strings.Join(values, ", ") + "\n"
		}
		for _, figure := range []string{"900719925474", "9,007,199", "9.007"} {
			if strings.Contains(text, figure) {
				t.Errorf("%s says %s:\n%s", what, figure, text)
			}
		}
	}
	for _, body := range []string{one, both} {
		for _, path := range []string{"check", "charge", "reserve", "explain", "reset"} {
			clean(path+" "+body, f.do("POST", "/ratelimit/"+path, body))
		}
		clean("batch "+body, f.do("POST", "/ratelimit/check/batch", `{"checks": [`+body+`]}`))
	}
	for _, path := range []string{"rules", "rules/1", "rules/export", "doctor"} {
		clean(path, f.do("GET", "/ratelimit/"+path, ""))
	}
	f.now.Add(time.Hour.Milliseconds())
	for range 11 {
		clean("a check of both", f.do("POST", "/ratelimit/check", both))
	}
}
