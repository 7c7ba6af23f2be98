package app

import (
	"context"
	"slices"
	"time"

	"sluice/internal/retry"
)

// askedStore notes that gateways have asked with profiles.
type askedStore interface {
	NoteAsked(ctx context.Context, profiles []string, at time.Time) error
}

// noteFirstQuestions returns what receives the name of a profile when this node has read a question by it for the first
// time. The console then shows that the gateway asks. While the rules database is unreachable, the names wait.
func noteFirstQuestions(host *Host, store askedStore, stops *stops) func(profile string) {
	running, end := context.WithCancel(context.Background())
	q := retry.New(retry.Options[struct{}, string]{
		Most: 1000, Batch: 256, First: time.Second, Last: time.Minute, Life: 24 * time.Hour, Now: host.Now,
		Try: func(_ struct{}, names []string) []time.Duration {
			ctx := running
			if running.Err() != nil { // the last time
				ctx = context.Background()
			}
			limited, cancel := context.WithTimeout(ctx, usesTimeout)
			defer cancel()
			result := retry.Done
			if err := store.NoteAsked(limited, names, host.Now()); err != nil {
				host.Log.Debug("noting the first question of a gateway failed", "profiles", names, "error", err)
				result = retry.Failed
			}
			return slices.Repeat([]time.Duration{result}, len(names))
		},
	})
	stops.add("first questions of gateways", func(ctx context.Context) error {
		end()
		q.Close(ctx)
		return nil
	})
	return func(profile string) {
		now := host.Now()
		q.Add(struct{}{}, profile, now, now)
	}
}
