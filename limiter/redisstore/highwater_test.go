package redisstore_test

import (
	"context"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
)

func TestModel_HighWaterConforms(t *testing.T) { storetest.HighWater(t, harness) }

// A mark that cannot be read is that of an amount that is not known, and a hash that is none is no mark at all.
func TestHighWater_WhatIsNotAMark(t *testing.T) {
	server := testenv.Redis(t)
	c := client(t, server.URL())
	s := open(t, c, redisstore.Options{})
	mark := &limiter.HighWater{Name: "7:5"}
	a := ask(entity(), 1, limiter.Limit{Algorithm: limiter.FixedWindow, Count: 5, Window: month})
	a.HighWater = mark
	read := func() (int64, error) {
		all, err := s.HighWater(context.Background())
		return all[mark.Name], err
	}
	take(t, s, "", a)
	if got, err := read(); err != nil || got != a.Weight {
		t.Errorf("the mark is %d (%v), want %d", got, err, a.Weight)
	}
	c.HSet(t.Context(), "sl:highwater", mark.Name, "nonsense")
	if got, err := read(); err != nil || got != limiter.MaxExact {
		t.Errorf("of nonsense the mark is %d (%v)", got, err)
	}
	take(t, s, "", a)
	if got, err := read(); err != nil || got != limiter.MaxExact {
		t.Errorf("after a take it is %d (%v)", got, err)
	}
	c.Set(t.Context(), "sl:highwater", "nonsense", 0)
	take(t, s, "", a)
	if got, err := read(); err == nil {
		t.Errorf("of what is no hash the mark is %d", got)
	}
}
