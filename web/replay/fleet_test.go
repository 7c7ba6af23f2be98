package replay_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/backtest"
	"sluice/internal/history"
	"sluice/web/webtest"
)

// twoNodes adds a second node that decides.
func twoNodes(l *history.Live) {
	other := l.Nodes[0]
	other.ID, other.Address = "second", "10.0.0.9:8080"
	l.Nodes = append(l.Nodes[:1:1], other)
}

// limitsOf are the limits of the pages of suggestions.
func limitsOf(t *testing.T, body string) (out []int64) {
	t.Helper()
	for _, m := range regexp.MustCompile(`data-label="Limit"><strong>([0-9,]+)</strong>`).FindAllStringSubmatch(body, -1) {
		n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// The log of one node of two has a part of a rule's requests. The limits are scaled up by that part, or none can become
// a candidate while the part is not known.
func TestSuggest_OfOneNodeIsScaledUpToTheFleet(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	path := b.Suggest()
	w.Replays.Wait()
	alone := limitsOf(t, b.Get(path).Body)
	w.Fleet.Change(twoNodes)
	w.Stats.Change(func(s *webtest.Stats) { s.Last.Allowed = 100_000 })
	page := b.Get(path)
	if !page.Has("about ", "of the rule&#39;s requests. Peaks and limits are scaled up", "Make candidate") {
		t.Errorf("two nodes:\n%s", page.Body)
	}
	scaled := limitsOf(t, page.Body)
	for i := range alone {
		if len(scaled) != len(alone) || scaled[i] <= alone[i] {
			t.Fatalf("the limits %v of one node are %v of two", alone, scaled)
		}
	}
	w.Stats.Change(func(s *webtest.Stats) { s.Since = webtest.Now })
	page = b.Get(path)
	if !page.Has("it is not known which part of the rule&#39;s requests that is") || page.Has("Make candidate") {
		t.Errorf("an unknown part:\n%s", page.Body)
	}
}

// A log without a request that can be replayed says why, and shows no shares of nothing.
func TestReplay_OfNothingSaysWhy(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.OpenLog = func(context.Context, int64) (*backtest.Log, func(), error) {
		return backtest.NewLog(backtest.NewLines("decisions.jsonl", strings.NewReader(webtest.DenialsOnly()))), func() {}, nil
	}
	b := w.As(access.RoleEditor)
	path := b.Try("50")
	w.Replays.Wait()
	page := b.Get(path)
	if !page.Has("nothing is known about the change. The log has all denials, and the allowed requests of 10% of the "+
		"users.") ||
		page.Has("0% of the requests") {
		t.Errorf("a replay of nothing:\n%s", page.Body)
	}
	path = b.Suggest()
	w.Replays.Wait()
	page = b.Get(path)
	if !page.Has("The log has no request that this rule counts", "the allowed requests of 10% of the users") {
		t.Errorf("suggestions of nothing:\n%s", page.Body)
	}
}
