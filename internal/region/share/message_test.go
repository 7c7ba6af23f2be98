package share

import (
	"encoding/json"
	"errors"
	"testing"
)

// What another region sends is refused or taken without harm: no part of the limit is used and lent at once.
func FuzzReceive(f *testing.F) {
	cfg := &Config{Self: "eu", Prefix: "sl:", Regions: []string{"asia", "eu", "us"}, Interval: 1000, Term: 3000,
		Valid: 1500, Skew: 10_000}
	specs := map[int64]Spec{rule: {Units: 300, Life: 60_000}}
	us := *cfg
	us.Self = "us"
	ours := New(cfg, nil, 1)
	ours.Demand = map[int64]int64{rule: 9}
	message, err := json.Marshal(New(&us, nil, 1).Message(&us, "eu", specs, 2))
	if err != nil {
		f.Fatal(err)
	}
	answer, err := json.Marshal(ours.Answer(cfg, &Message{From: "us", Epoch: 1, Yours: 1,
		Asks: []Ask{{Rule: rule, Want: Whole, Number: 1, Held: Spans{{0, 9}}}}}, specs, 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Add(answer)
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(cfg, nil, 1)
		if m, err := Decode(b); err == nil {
			m.From, m.To = "us", "eu"
			s.Answer(cfg, m, specs, 1_000_000)
		} else if !errors.Is(err, ErrMessage) {
			t.Fatal(err)
		}
		if a, err := DecodeAnswer(b); err == nil {
			a.From = "us"
			s.Accept(cfg, a, specs, 999_000, 1_000_000)
		} else if !errors.Is(err, ErrMessage) {
			t.Fatal(err)
		}
		use, _ := s.Use(cfg, rule, specs[rule], 1_000_001)
		if !use.valid() {
			t.Fatalf("spans %v", use)
		}
		if r := s.Rules[rule]; r != nil && r.Lent["us"] != nil {
			if both := use.And(r.Lent["us"].all()); len(both) > 0 {
				t.Fatalf("%v are used and lent", both)
			}
		}
	})
}
