package evaluate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/alerts"
)

// A webhook gets five alerts of a kind one by one in a minute. More at once are a summary, and more within the minute
// are one at its end.
func TestEvaluate_MessagesOfAMinute(t *testing.T) {
	type step struct {
		after  time.Duration
		alerts int
		want   []string // the types of messages, and the numbers of summaries
	}
	one := func(n int) []string { return slices.Repeat([]string{"key_usage 0"}, n) }
	for name, steps := range map[string][]step{
		"five at once":        {{0, 5, one(5)}},
		"six at once":         {{0, 6, []string{"summary 6"}}},
		"five, and then one":  {{0, 5, one(5)}, {time.Second, 1, nil}, {59 * time.Second, 0, []string{"summary 1"}}},
		"one by one":          {{0, 4, one(4)}, {time.Second, 1, one(1)}, {time.Minute, 1, one(1)}},
		"three, and then six": {{0, 3, one(3)}, {time.Second, 6, nil}, {59 * time.Second, 0, []string{"summary 6"}}},
		"a flood that goes on": {{0, 6, []string{"summary 6"}}, {30 * time.Second, 1, nil},
			{30 * time.Second, 2, []string{"summary 1"}}, {time.Minute, 1, []string{"summary 2"}},
			{time.Minute, 0, []string{"summary 1"}}, {time.Minute, 1, one(1)}},
		"a flood that is over": {{0, 6, []string{"summary 6"}}, {time.Minute, 2, one(2)}},
	} {
		tb, key := newTable(t), 0
		for i, s := range steps {
			for range s.alerts {
				key++
				tb.report("a", alerts.On, usageOf(fmt.Sprint("user:", key)), used)
			}
			var got []string
			for _, m := range tb.evaluate(s.after).Changes.Messages {
				got = append(got, fmt.Sprintf("%s %d", m.Type, body(t, &m).Data.Count))
			}
			if !slices.Equal(got, s.want) {
				t.Errorf("%s, step %d: sent %q, want %q", name, i, got, s.want)
			}
			tb.restart()
		}
		if len(tb.states.budgets) > 1 {
			t.Errorf("%s: budgets %v", name, tb.states.budgets)
		}
	}
}

// What waits for a summary is forgotten with its webhook, also in the database.
func TestEvaluate_ABudgetEndsWithItsWebhook(t *testing.T) {
	tb := newTable(t)
	for i := range 6 {
		tb.report("a", alerts.On, usageOf(fmt.Sprint("user:", i)), used)
	}
	tb.evaluate(0)
	budgets := func() (n int) {
		tb.restart()
		return len(tb.states.budgets)
	}
	if n := budgets(); n != 1 {
		t.Fatalf("%d budgets", n)
	}
	tb.facts.Webhooks = nil
	tb.evaluate(time.Second)
	if n := budgets(); n != 0 {
		t.Errorf("%d budgets of no webhook", n)
	}
}
