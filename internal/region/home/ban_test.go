package home

import (
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

// A ban whose settings no rule can have is not carried out: one of 10,000 years would last in every region, and the
// times in answers about it would be ones that a sender refuses, with all else in the message.
func TestReceiver_RefusesABanThatNoRuleHas(t *testing.T) {
	rule := rules.Rule{ID: 1, Name: "logins", Scope: "user", Limit: 10, WindowMS: 60_000, Algorithm: "fixed_window",
		Span: rules.SpanGlobalExact, IsActive: true, Ban: &rules.Ban{After: 1, WithinMS: 1000, ForMS: 1000}}
	set, err := match.Compile([]rules.Rule{rule}, 1, match.Options{Regions: 2})
	if err != nil {
		t.Fatal(err)
	}
	sets := &match.Current{}
	sets.Store(set)
	m := memstore.New(memstore.Options{})
	defer func() { _ = m.Close() }()
	r, err := NewReceiver(ReceiverOptions{Self: "us", Others: []string{"eu"}, Prefix: "sl:", Store: m, Sets: sets,
		Timeout: time.Second, Now: func() time.Time { return time.UnixMilli(headOf("", "", "").At) }})
	if err != nil {
		t.Fatal(err)
	}
	const most = limiter.MaxWindow
	for limit, want := range map[limiter.Limit]bool{
		limiter.BanLimit(1, 1000, 1000, 1, 1000): true, limiter.BanLimit(limiter.MaxBanDenials, most, most, 10, most): true,
		limiter.BanLimit(0, 1000, 1000, 1, 1000): false, limiter.BanLimit(1, 0, 1000, 1, 1000): false,
		limiter.BanLimit(1, 1000, 0, 1, 1000): false, limiter.BanLimit(1, 1000, 1000, 0, 1000): false,
		limiter.BanLimit(1, 1000, 1000, 1, -1): false, limiter.BanLimit(1, 1000, 1000, 1, 999): false,
		limiter.BanLimit(1, 1000, limiter.MaxExact, 1, limiter.MaxExact): false,
	} {
		denied := limiter.Ask{Key: "{user:ada}|1|fw", Limit: set.Get(1).Limit, Weight: 11}
		body := appendCall(appendStart(headOf("eu", "us", "sl:"), time.Second, 1),
			&limiter.Request{Asks: []limiter.Ask{denied, {Key: limiter.BanKey(denied.Key), Limit: limit}}})
		answer, err := r.Receive(t.Context(), body)
		calls := make([]limiter.Call, 1)
		if err != nil || !decodeAnswers(answer, []int{2}, calls) {
			t.Fatalf("%+v: %v %x", limit, err, answer)
		}
		if got := calls[0].Err == nil; got != want {
			t.Errorf("%+v: carried out %v, want %v", limit, got, want)
		}
	}
}
