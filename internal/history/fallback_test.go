package history_test

import (
	"errors"
	"testing"
	"time"

	"sluice/internal/history"
)

// A board that comes back without its data is left alone until this node has posted, and then has every minute at once.
func TestReader_LeavesABoardThatCameBackEmptyAloneUntilTheNodeHasPosted(t *testing.T) {
	c := newClock()
	board := &flaky{Board: history.NewMemory(c.now)}
	own := history.NewMemory(c.now)
	reader := history.NewLiveReader(board, c.now)
	reader.FallBackOn(own)
	r := history.NewRecorder()
	n := poster{r, history.NewPublisher(history.PublisherOptions{Recorder: r, Board: board, Fallback: own,
		Behind: reader.Behind,
		Now:    c.now, Status: func() history.Status { return history.Status{ID: "a", Address: "a:8080"} }})}
	minute := c.now().Unix() / 60
	allowed := func() (history.Figures, error) {
		t.Helper()
		got, err := reader.Minutes(t.Context(), minute, minute)
		if len(got) != 1 {
			t.Fatalf("%d minutes, %v", len(got), err)
		}
		return got[0].Rules["charges"], err
	}
	n.decide("charges", 4, 0)
	n.Post(t.Context())
	board.away = true
	c.add(2 * time.Second)
	n.decide("charges", 3, 0)
	n.Post(t.Context())
	board.Board, board.away = history.NewMemory(c.now), false // it is back, and empty

	var ownOnly *history.OwnError
	c.add(time.Second)
	if f, err := allowed(); f.Allowed != 7 || !errors.As(err, &ownOnly) {
		t.Errorf("before the next post: %+v, %v; want the 7 of this node as such", f, err)
	}
	if live := reader.Live(t.Context()); !live.Own || len(live.Nodes) != 1 {
		t.Errorf("before the next post: %+v", live)
	}
	n.Post(t.Context())
	c.add(2 * time.Second)
	if f, err := allowed(); f.Allowed != 7 || err != nil {
		t.Errorf("after the next post: %+v, %v; want 7 of the board", f, err)
	}
	if denials, err := reader.Denials(t.Context(), history.Filter{}, 10); err != nil || len(denials) != 0 {
		t.Errorf("denials: %v, %v", denials, err)
	}
	if live := reader.Live(t.Context()); live.Own || live.Err != nil || len(live.Nodes) != 1 {
		t.Errorf("after the next post: %+v", live)
	}
}
