package database

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhileProgress_LastsWhileRowsCome: on a slow machine or network, reading
// 100,000 rules takes longer than any fixed time.
func TestWhileProgress_LastsWhileRowsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, progress, end := whileProgress(t.Context(), loadTimeout)
		defer end()
		for range 100 {
			<-time.After(loadTimeout - time.Second) // virtual
			if err := ctx.Err(); err != nil {
				t.Fatal(err)
			}
			progress()
		}
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, errNoProgress) {
			t.Errorf("without a row for longer: %v", err)
		}
	})
}
