package history_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/history"
	"sluice/rules"
)

// losing is a store that loses answers: it writes and says that it failed.
type losing struct {
	history.Store
	random *rand.Rand
}

var errLost = errors.New("the answer was lost")

func (s *losing) WriteStats(ctx context.Context, rows []history.LiveRow) (int, error) {
	n, err := s.Store.WriteStats(ctx, rows)
	if err == nil && s.random.IntN(20) == 0 {
		return 0, errLost
	}
	return n, err
}

// TestStats_RandomFaultsAddUp: boards that are emptied or unreachable, lost answers, outages of the database, and nodes
// that restart during them. No answer of any node has more than was decided, and what is complete is exact.
func TestStats_RandomFaultsAddUp(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 7))
			begin := time.Date(2026, 11, 20, 20, 58, 7, 0, time.UTC)
			w, dir := newWorld(t, begin), t.TempDir()
			store := &losing{w.store, random}
			start := func(i int) *node {
				w.made++
				return w.startOn(store, int64(w.made), filepath.Join(dir, fmt.Sprint(i)))
			}
			w.nodes = []*node{start(0), start(1), start(2)}
			truth := map[string]map[int64]int64{"a": {}, "b": {}, "": {}}
			var down, board time.Time // until when the database and the board are unavailable
			var quiet time.Time       // since when the database is there
			for w.now().Before(begin.Add(9 * time.Hour)) {
				w.add(5 * time.Second)
				now := w.now()
				switch random.IntN(400) {
				case 0:
					w.board.Board = history.NewMemory(w.now) // emptied
				case 1:
					board = now.Add(time.Duration(random.IntN(200)) * time.Second)
				case 2:
					if now.Sub(quiet) > time.Hour {
						down = now.Add(time.Duration(random.IntN(1500)) * time.Second)
					}
				case 3, 4:
					i := random.IntN(len(w.nodes))
					w.nodes[i].stop(t)
					w.nodes[i] = start(i)
				}
				w.board.away = now.Before(board)
				w.store.Fail(nil)
				if now.Before(down) {
					w.store.Fail(rules.ErrUnavailable)
					quiet = now
				}
				for _, n := range w.nodes {
					for _, rule := range []string{"a", "b"} {
						some := random.IntN(3)
						n.decide(rule, some, 0)
						truth[rule][now.Unix()/60] += int64(some)
						truth[""][now.Unix()/60] += int64(some)
					}
					w.tick(n)
				}
				if random.IntN(30) == 0 {
					reader := append([]*node{{reader: w.reader}}, w.nodes...)[random.IntN(4)].reader
					for rule, minutes := range truth {
						got, err := reader.Stats(t.Context(), history.Query{Rule: rule, From: now.Add(-3 * time.Hour), To: now,
							Step: time.Minute})
						if err != nil {
							continue
						}
						for _, p := range got.Series[0].Points {
							want := minutes[p.At.Unix()/60]
							if p.Total() > want {
								t.Fatalf("at %s: %q has %d at %s, more than %d", now, rule, p.Total(), p.At, want)
							}
							if now.Sub(quiet) > 4*time.Minute && p.At.Before(now.Add(-3*time.Minute)) && p.Total() != want {
								t.Fatalf("at %s: %q has %d at %s, want %d", now, rule, p.Total(), p.At, want)
							}
						}
					}
				}
			}
			w.board.away = false
			w.store.Fail(nil)
			w.run(5 * time.Minute)
			for rule, minutes := range truth {
				for _, step := range []time.Duration{time.Minute, time.Hour, history.Day} {
					want := map[int64]int64{}
					for m, n := range minutes {
						want[m*60/int64(step/time.Second)] += n
					}
					got := w.ask(history.Query{Rule: rule, From: begin.Truncate(step), To: w.now(), Step: step})
					for _, p := range got.Series[0].Points {
						if n := want[p.At.Unix()/int64(step/time.Second)]; p.Total() != n {
							t.Errorf("%q at %s by %s: %d, want %d", rule, p.At, history.StepName(step), p.Total(), n)
						}
					}
				}
			}
		})
	}
}
