package history_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/internal/history"
)

// asked is a board that counts how often it is asked.
type asked struct {
	history.Board
	err   error
	times int
}

func (b *asked) Read(ctx context.Context, tables []string) ([]map[string]string, error) {
	b.times++
	if b.err != nil {
		return nil, b.err
	}
	return b.Board.Read(ctx, tables)
}

func (b *asked) Recent(ctx context.Context, list string, skip, n int) ([]string, error) {
	b.times++
	if b.err != nil {
		return nil, b.err
	}
	return b.Board.Recent(ctx, list, skip, n)
}

// TestReader_AsksOnceASecondForEveryone: many people look at the same figures, and
// a board that hangs must not hold up each of them by its timeout.
func TestReader_AsksOnceASecondForEveryone(t *testing.T) {
	for name, away := range map[string]error{"there": nil, "away": errAway} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			board := &asked{Board: history.NewMemory(c.now), err: away}
			r := history.NewLiveReader(board, c.now)
			look := func() {
				for range 50 {
					if live := r.Live(t.Context()); !errors.Is(live.Err, away) {
						t.Fatalf("figures: %v, want %v", live.Err, away)
					}
					if _, err := r.Denials(t.Context(), history.Filter{}, 10); !errors.Is(err, away) {
						t.Fatalf("denials: %v, want %v", err, away)
					}
				}
			}
			look()
			if board.times != 2 {
				t.Errorf("asked %d times in the first second, want twice", board.times)
			}
			c.add(time.Second)
			board.err, away = nil, nil
			look()
			if board.times != 4 {
				t.Errorf("asked %d times in two seconds, want four times", board.times)
			}
		})
	}
}
