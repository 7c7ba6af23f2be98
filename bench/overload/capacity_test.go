package main

import (
	"errors"
	"testing"
)

func TestHighest_FindsTheCapacity(t *testing.T) {
	for _, capacity := range []int{37, 480, 3999, 4000, 31_234, 200_000} {
		tries := 0
		got, err := highest(func(rate int) (bool, error) {
			tries++
			return rate <= capacity, nil
		})
		if err != nil || got > capacity || float64(got) < float64(capacity)*(1-precision)-1 || tries > 40 {
			t.Errorf("capacity %d: got %d after %d trials, %v", capacity, got, tries, err)
		}
	}
}

// Other work on the machine spoils every other trial.
func TestHighest_TriesEachRateTwice(t *testing.T) {
	tries := map[int]int{}
	got, err := highest(func(rate int) (bool, error) {
		tries[rate]++
		return rate <= 20_000 && tries[rate] == 2, nil
	})
	if err != nil || got > 20_000 || got < 19_000 {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestHighest_EndsIfNothingHolds(t *testing.T) {
	if got, err := highest(func(int) (bool, error) { return false, nil }); got != 0 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	broken := errors.New("broken")
	if _, err := highest(func(int) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A check that found no connection was due, and was not decided in time.
func TestHolds_CountsChecksThatWereNotSent(t *testing.T) {
	for _, c := range []struct {
		tally tally
		want  bool
	}{
		{tally{sent: 1000, inTime: 990}, true},
		{tally{sent: 1000, inTime: 989}, false},
		{tally{sent: 990, unplaced: 10, inTime: 990}, true},
		{tally{sent: 990, unplaced: 11, inTime: 990}, false},
	} {
		if got := holds(&c.tally); got != c.want {
			t.Errorf("%d of %d sent and %d not sent: %v", c.tally.inTime, c.tally.sent, c.tally.unplaced, got)
		}
	}
}
