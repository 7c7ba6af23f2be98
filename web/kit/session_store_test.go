package kit

import (
	"context"
	"testing"
)

// deleted stores no session.
type deleted struct{ Sessions }

func (deleted) DeleteSession(context.Context, string) error { return nil }

// TestDelete_OfASessionThatNobodyHasDisturbsNoOne: requests that are running are remembered although someone signs out
// with an invented cookie.
func TestDelete_OfASessionThatNobodyHasDisturbsNoOne(t *testing.T) {
	s := &sessionStore{to: deleted{}, recall: newRecall()}
	for token, counts := range map[string]bool{"": false, "stored": true} {
		epoch := s.recall.currentEpoch()
		ctx := context.WithValue(t.Context(), presentedKey{}, &presented{token: token, asked: "stored"})
		if err := s.DeleteCtx(ctx, "stored"); err != nil {
			t.Fatal(err)
		}
		if got := s.recall.currentEpoch() != epoch; got != counts {
			t.Errorf("with the session %q the requests that are running are forgotten: %v", token, got)
		}
	}
}
