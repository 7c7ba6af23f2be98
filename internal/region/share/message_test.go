package share

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"sluice/internal/region"
	"sluice/limiter"
)

// One message with the greatest epoch or number must not leave none for later: a region would send nothing any more
// that others read.
func TestMessage_TheGreatestNumberStopsNobody(t *testing.T) {
	const now = 1_795_000_000_000
	specs := map[int64]Spec{rule: {Units: 300, Life: 1000}}
	for name, poison := range map[string]Message{
		"an epoch": {Epoch: limiter.MaxExact},
		"a number": {Epoch: now, Yours: now, Asks: []Ask{{Rule: rule, Number: limiter.MaxExact}}},
	} {
		eu := &Config{Self: "eu", Prefix: "sl:", Regions: []string{"eu", "us"}, Interval: 1000, Term: 3000, Valid: 1500,
			Skew: 10_000}
		us := *eu
		us.Self = "us"
		a, b := NewState(eu, nil, now), NewState(&us, nil, now)
		a.Lost, b.Lost = nil, nil
		b.Demand[rule] = 300
		poison.Version, poison.From, poison.To, poison.Prefix, poison.Regions = Version, "us", "eu", "sl:", eu.Regions
		if m, err := Decode(sent(t, &poison), now); err == nil {
			a.Answer(eu, m, specs, now)
		}
		for i := range int64(3) {
			at := now + i + 1
			m, err := Decode(sent(t, b.Message(&us, "eu", specs, at)), at)
			if err != nil {
				t.Fatalf("%s: a later message is refused: %v", name, err)
			}
			answer, err := DecodeAnswer(sent(t, a.Answer(eu, m, specs, at)), at)
			if err != nil {
				t.Fatalf("%s: a later answer is refused: %v", name, err)
			}
			b.Accept(&us, answer, specs, at, at)
		}
		if b.Known["eu"] != a.Epoch || a.Known["us"] != b.Epoch {
			t.Errorf("%s: eu knows epoch %d of us, which has %d", name, a.Known["us"], b.Epoch)
		}
	}
}

// JSON that can be read in two ways is refused, and so is whatever no region writes.
func TestDecode_RefusesWhatNoRegionWrites(t *testing.T) {
	const now = 1_795_000_000_000
	good := sent(t, &Message{Version: Version, From: "us", To: "eu", Prefix: "sl:", Regions: []string{"eu", "us"},
		Epoch: 5, Demand: map[int64]int64{1: 9}, Asks: []Ask{{Rule: 1, Number: 3, Held: Spans{{0, 9}}}}})
	answer := sent(t, &Answer{From: "eu", Epoch: 5, For: 5, Term: 3000, Grants: []Grant{{Rule: 1, Spans: Spans{{0, 9}}}}})
	if _, err := Decode(good, now); err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeAnswer(append(answer, '\n'), now); err != nil { // as the API writes it
		t.Fatal(err)
	}
	for name, edit := range map[string][2]string{
		"a member twice":              {`"epoch":5`, `"epoch":4,"epoch":5`},
		"a member in capitals":        {`"epoch":5`, `"epoch":5,"Epoch":5`},
		"a rule twice":                {`{"1":9}`, `{"1":8,"1":9}`},
		"a rule twice, as 01":         {`{"1":9}`, `{"01":8,"1":9}`},
		"a member of an ask twice":    {`"number":3`, `"number":2,"number":3`},
		"an unknown member":           {`"epoch":5`, `"epoch":5,"x":1`},
		"something that follows":      {`]}`, `]} {}`},
		"a member of a grant twice":   {`"grants":[{"rule":1`, `"grants":[{"rule":2,"rule":1`},
		"a name that is no text":      {`"us"`, "\"\xff\""},
		"a member that is not needed": {`"epoch":5`, `"epoch":5,"lost":false,"has_held":false`},
	} {
		for _, b := range [][]byte{good, answer} {
			bad := bytes.Replace(b, []byte(edit[0]), []byte(edit[1]), 1)
			if bytes.Equal(bad, b) {
				continue
			}
			_, err := Decode(bad, now)
			if bytes.HasPrefix(b, answer) {
				_, err = DecodeAnswer(bad, now)
			}
			if !errors.Is(err, region.ErrMessage) {
				t.Errorf("%s: %s: %v", name, bad, err)
			}
		}
	}
}

func sent(t *testing.T, m any) []byte {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What another region sends is refused or taken without harm: no part of the limit is used and lent at once.
func FuzzReceive(f *testing.F) {
	cfg := &Config{Self: "eu", Prefix: "sl:", Regions: []string{"asia", "eu", "us"}, Interval: 1000, Term: 3000,
		Valid: 1500, Skew: 10_000}
	specs := map[int64]Spec{rule: {Units: 300, Life: 60_000}}
	us := *cfg
	us.Self = "us"
	ours := NewState(cfg, nil, 1)
	ours.Demand = map[int64]int64{rule: 9}
	message, err := json.Marshal(NewState(&us, nil, 1).Message(&us, "eu", specs, 2))
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
		s := NewState(cfg, nil, 1)
		if m, err := Decode(b, 1_000_000); err == nil {
			m.From, m.To = "us", "eu"
			s.Answer(cfg, m, specs, 1_000_000)
		} else if !errors.Is(err, region.ErrMessage) {
			t.Fatal(err)
		}
		if a, err := DecodeAnswer(b, 1_000_000); err == nil {
			a.From = "us"
			s.Accept(cfg, a, specs, 999_000, 1_000_000)
		} else if !errors.Is(err, region.ErrMessage) {
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
