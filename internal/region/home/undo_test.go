package home

import (
	"errors"
	"testing"

	"sluice/limiter"
)

// A request whose id was made for it is not repeated, so what it may have taken is given back, whoever made the id.
func TestStore_ATakeThatNobodyRepeatsIsGivenBack(t *testing.T) {
	w := onMemory(t, names...)
	there := ask(inUS, 10, 1)
	w["us"].loseAnswers(true)
	for id, unrepeated := range map[string]bool{"made": true, "sent": false} {
		req := limiter.Request{ID: id, Unrepeated: unrepeated, Asks: []limiter.Ask{there}}
		var res limiter.Result
		var se *limiter.StoreError
		if err := w["eu"].Do(t.Context(), &req, &res); !errors.As(err, &se) || !se.Unknown {
			t.Fatalf("id %s: %v", id, err)
		}
	}
	if got := w["eu"].Stats().Pending; got != 1 {
		t.Errorf("%d takes wait to be given back, want the one that nobody repeats", got)
	}
	w["us"].loseAnswers(false)
	eventually(t, "one is given back", func() bool { return w["eu"].Stats().Undone == 1 && left(t, w, there) == 9 })
}
